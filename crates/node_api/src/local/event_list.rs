//! Recorded events as API objects.

use agent::cluster::event_log::EventSeries;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::EventSubject;
use model::local_api::EventList;

pub(super) fn event_list(events: &[EventSeries]) -> EventList {
    EventList { items: events.iter().map(item).collect(), ..EventList::default() }
}

pub(super) fn item(series: &EventSeries) -> Event {
    let event = &series.event;
    let involved_object = match &event.subject {
        EventSubject::Pod { uid, full_name, field_path } => ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(full_name.namespace.clone()),
            name: Some(full_name.name.clone()),
            uid: Some(uid.to_string()),
            field_path: Some(field_path.clone()).filter(|path| !path.is_empty()),
            ..ObjectReference::default()
        },
        EventSubject::Node(name) => ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(name.clone()),
            uid: Some(name.clone()),
            ..ObjectReference::default()
        },
        EventSubject::Volume { name, uid } => ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("PersistentVolume".to_owned()),
            name: Some(name.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        },
        EventSubject::Claim { namespace, name, uid } => ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("PersistentVolumeClaim".to_owned()),
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        },
    };
    // Upstream, too, puts the events of nodes into the namespace `default`.
    let namespace = involved_object.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let name = involved_object.name.clone().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:x}", series.first_at.as_nanos())),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        involved_object,
        type_: Some(event.kind.as_str().to_owned()),
        reason: Some(event.reason.clone()),
        message: Some(event.message.clone()),
        count: Some(i32::try_from(series.count).unwrap_or(i32::MAX)),
        first_timestamp: Some(series.first_at.to_api_time()),
        last_timestamp: Some(event.at.to_api_time()),
        source: Some(EventSource { component: Some("kubelet".to_owned()), host: None }),
        reporting_component: Some("kubelet".to_owned()),
        ..Event::default()
    }
}
