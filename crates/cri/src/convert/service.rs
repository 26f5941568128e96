use model::{
    CgroupDriver, RuntimeCondition, RuntimeConditions, RuntimeEvent, RuntimeEventKind, RuntimeHandler,
    RuntimeVersion, Timestamp,
};

use crate::v1;

pub(crate) fn version(version: v1::VersionResponse) -> RuntimeVersion {
    RuntimeVersion {
        name: version.runtime_name,
        version: version.runtime_version,
        api_version: version.runtime_api_version,
    }
}

pub(crate) fn conditions(response: v1::StatusResponse) -> Option<RuntimeConditions> {
    let handler = |handler: v1::RuntimeHandler| {
        let features = handler.features.unwrap_or_default();
        RuntimeHandler {
            name: handler.name,
            recursive_read_only_mounts: features.recursive_read_only_mounts,
            user_namespaces: features.user_namespaces,
        }
    };
    let features = response.features.unwrap_or_default();
    let mut conditions = RuntimeConditions {
        handlers: response.runtime_handlers.into_iter().map(handler).collect(),
        supplemental_groups_policy: features.supplemental_groups_policy,
        user_namespaces_host_network: features.user_namespaces_host_network,
        ..RuntimeConditions::default()
    };
    for reported in response.status?.conditions {
        let condition =
            RuntimeCondition { status: reported.status, reason: reported.reason, message: reported.message };
        match reported.r#type.as_str() {
            "RuntimeReady" => conditions.runtime = Some(condition),
            "NetworkReady" => conditions.network = Some(condition),
            // Runtimes may add other conditions.
            _ => {}
        }
    }
    Some(conditions)
}

/// Returns `None` for an unknown driver.
pub(crate) fn cgroup_driver(linux: &v1::LinuxRuntimeConfiguration) -> Option<CgroupDriver> {
    match v1::CgroupDriver::try_from(linux.cgroup_driver).ok()? {
        v1::CgroupDriver::Systemd => Some(CgroupDriver::Systemd),
        v1::CgroupDriver::Cgroupfs => Some(CgroupDriver::Cgroupfs),
    }
}

/// Returns `None` for an unknown event type.
pub(crate) fn event(event: v1::ContainerEventResponse) -> Option<RuntimeEvent> {
    let kind = match v1::ContainerEventType::try_from(event.container_event_type).ok()? {
        v1::ContainerEventType::ContainerCreatedEvent => RuntimeEventKind::Created,
        v1::ContainerEventType::ContainerStartedEvent => RuntimeEventKind::Started,
        v1::ContainerEventType::ContainerStoppedEvent => RuntimeEventKind::Stopped,
        v1::ContainerEventType::ContainerDeletedEvent => RuntimeEventKind::Deleted,
    };
    let uid = event.pod_sandbox_status.and_then(|status| status.metadata).map(|metadata| metadata.uid);
    Some(RuntimeEvent {
        container_id: event.container_id.into(),
        kind,
        created_at: Timestamp::from_nanos(event.created_at),
        pod_uid: uid.filter(|uid| !uid.is_empty()).map(Into::into),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_conditions_by_type() {
        let ready =
            |name: &str, status| v1::RuntimeCondition { r#type: name.into(), status, ..Default::default() };
        let reported =
            v1::RuntimeStatus { conditions: vec![ready("Other", true), ready("NetworkReady", false)] };
        let reported = v1::StatusResponse { status: Some(reported), ..Default::default() };
        let found = conditions(reported).unwrap();
        assert_eq!(found.runtime, None);
        assert!(!found.network.unwrap().status);
    }

    #[test]
    fn converts_reported_features() {
        let reported = |features| {
            let status = Some(v1::RuntimeStatus::default());
            let found = conditions(v1::StatusResponse { status, features, ..Default::default() }).unwrap();
            (found.supplemental_groups_policy, found.user_namespaces_host_network)
        };
        assert_eq!(reported(None), (false, false));
        let users = v1::RuntimeFeatures { user_namespaces_host_network: true, ..Default::default() };
        assert_eq!(reported(Some(users)), (false, true));
    }

    #[test]
    fn ignores_unknown_driver_and_event_numbers() {
        let driver = |cgroup_driver| super::cgroup_driver(&v1::LinuxRuntimeConfiguration { cgroup_driver });
        assert_eq!(driver(0), Some(CgroupDriver::Systemd));
        assert_eq!(driver(1), Some(CgroupDriver::Cgroupfs));
        assert_eq!(driver(9), None);
        assert_eq!(event(v1::ContainerEventResponse { container_event_type: 9, ..Default::default() }), None);
    }

    #[test]
    fn event_has_pod_uid_if_reported() {
        let mut reported = v1::ContainerEventResponse {
            container_id: "c".into(),
            container_event_type: 2,
            created_at: 5,
            ..Default::default()
        };
        assert_eq!(event(reported.clone()).unwrap().pod_uid, None);
        reported.pod_sandbox_status = Some(v1::PodSandboxStatus {
            metadata: Some(v1::PodSandboxMetadata { uid: "u".into(), ..Default::default() }),
            ..Default::default()
        });
        let found = event(reported).unwrap();
        assert_eq!((found.kind, found.pod_uid.unwrap().as_str()), (RuntimeEventKind::Stopped, "u"));
    }
}
