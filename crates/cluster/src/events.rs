//! Writes events.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use model::EventSubject;
use ports::api::ApiError;
use ports::api::events::{ApiEvents, EventReport};
use serde_json::json;

use crate::ApiServerAdapter;
use crate::errors::with_deadline;

const COMPONENT: &str = "kubelet";

impl ApiServerAdapter {
    fn event_api(&self, report: &EventReport) -> Api<core::Event> {
        Api::namespaced(self.clients.events.clone(), namespace(&report.event.subject))
    }
}

#[async_trait]
impl ApiEvents for ApiServerAdapter {
    async fn create(&self, report: &EventReport) -> Result<(), ApiError> {
        let object = object(report, &self.node);
        with_deadline(self.event_api(report).create(&PostParams::default(), &object)).await.map(drop)
    }

    async fn update(&self, report: &EventReport) -> Result<(), ApiError> {
        let patch = Patch::Strategic(json!({
            "count": report.count,
            "lastTimestamp": report.event.at.to_api_time(),
            "message": report.event.message,
        }));
        let params = PatchParams::default();
        with_deadline(self.event_api(report).patch(&report.name, &params, &patch)).await.map(drop)
    }
}

/// Events about cluster-scoped objects go to the `default` namespace.
fn namespace(subject: &EventSubject) -> &str {
    match subject {
        EventSubject::Pod { full_name, .. } => &full_name.namespace,
        EventSubject::Claim { namespace, .. } => namespace,
        EventSubject::Node(_) | EventSubject::Volume { .. } => "default",
    }
}

fn object(report: &EventReport, node: &str) -> core::Event {
    let event = &report.event;
    core::Event {
        metadata: ObjectMeta {
            name: Some(report.name.clone()),
            namespace: Some(namespace(&event.subject).to_owned()),
            annotations: Some(event.annotations.clone()).filter(|list| !list.is_empty()),
            ..ObjectMeta::default()
        },
        involved_object: involved(&event.subject),
        type_: Some(event.kind.as_str().to_owned()),
        reason: Some(event.reason.clone()),
        message: Some(event.message.clone()),
        first_timestamp: Some(report.first_at.to_api_time()),
        last_timestamp: Some(event.at.to_api_time()),
        count: i32::try_from(report.count).ok(),
        source: Some(core::EventSource {
            component: Some(COMPONENT.to_owned()),
            host: Some(node.to_owned()),
        }),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: Some(node.to_owned()),
        ..core::Event::default()
    }
}

fn involved(subject: &EventSubject) -> core::ObjectReference {
    let reference = |kind: &str, name: &str, uid: &str| core::ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..core::ObjectReference::default()
    };
    match subject {
        EventSubject::Pod { uid, full_name, field_path } => core::ObjectReference {
            namespace: Some(full_name.namespace.clone()),
            field_path: Some(field_path.clone()).filter(|path| !path.is_empty()),
            ..reference("Pod", &full_name.name, uid.as_str())
        },
        // Upstream uses the name as UID, because it records events before it has read its Node.
        EventSubject::Node(name) => {
            core::ObjectReference { api_version: None, ..reference("Node", name, name) }
        }
        EventSubject::Volume { name, uid } => reference("PersistentVolume", name, uid),
        EventSubject::Claim { namespace, name, uid } => core::ObjectReference {
            namespace: Some(namespace.clone()),
            ..reference("PersistentVolumeClaim", name, uid)
        },
    }
}

#[cfg(test)]
mod tests {
    use model::{EventType, PodFullName, RecordedEvent, Timestamp};

    use super::*;

    #[test]
    fn event_objects_match_upstream() {
        let report = |subject| EventReport {
            name: "p.1".into(),
            event: RecordedEvent {
                annotations: [("starved_resource".to_owned(), "memory".to_owned())].into(),
                subject,
                kind: EventType::Warning,
                reason: "BackOff".into(),
                message: "m".into(),
                at: Timestamp::from_secs(60),
            },
            first_at: Timestamp::from_secs(0),
            count: 2,
        };
        let subject = EventSubject::Pod {
            uid: "u".into(),
            full_name: PodFullName { namespace: "ns".into(), name: "p".into() },
            field_path: "spec.containers{c}".into(),
        };
        let actual = serde_json::to_value(object(&report(subject), "n")).unwrap();
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "p.1", "namespace": "ns", "annotations": {"starved_resource": "memory"}},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u",
                "fieldPath": "spec.containers{c}",
            },
            "type": "Warning",
            "reason": "BackOff",
            "message": "m",
            "firstTimestamp": "1970-01-01T00:00:00Z",
            "lastTimestamp": "1970-01-01T00:01:00Z",
            "count": 2,
            "source": {"component": "kubelet", "host": "n"},
            "reportingComponent": "kubelet",
            "reportingInstance": "n",
        });
        assert_eq!(actual, expected);
        let node_event = object(&report(EventSubject::Node("n".into())), "n");
        assert_eq!(node_event.metadata.namespace.as_deref(), Some("default"));
        let reference = serde_json::to_value(&node_event.involved_object).unwrap();
        assert_eq!(reference, json!({"kind": "Node", "name": "n", "uid": "n"}));
    }
}
