//! Requirements of a CSIDriver object.

use k8s_openapi::api::storage::v1::CSIDriver;
use model::{CsiAccess, CsiLifecycle, CsiVolume};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverRequirements {
    /// `attachRequired`.
    pub attach: bool,
    /// `nodeAllocatableUpdatePeriodSeconds`.
    pub counts_volumes: bool,
    /// `podInfoOnMount`.
    pub pod_information: bool,
    /// `requiresRepublish`.
    pub republish: bool,
    /// `tokenRequests`.
    pub tokens: Vec<DriverTokenRequest>,
    /// Whether tokens are passed as secrets instead of attributes.
    pub tokens_are_secrets: bool,
    /// Whether the agent applies the fsGroup, unless the driver does.
    pub gives_to_group: bool,
}

/// A token that a driver requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverTokenRequest {
    /// Empty for the API server.
    pub audience: String,
    pub expiration_seconds: Option<i64>,
}

/// The requirements for one volume. A driver without an object attaches persistent volumes and has no other requirements.
///
/// # Errors
/// When the driver does not support the lifecycle mode.
pub fn driver_requirements(
    object: Option<&CSIDriver>,
    volume: &CsiVolume,
) -> Result<DriverRequirements, String> {
    let (driver, requested) = (&volume.driver, lifecycle(volume.lifecycle));
    let Some(object) = object else {
        return match volume.lifecycle {
            CsiLifecycle::Persistent => Ok(DriverRequirements {
                attach: true,
                gives_to_group: suits_groups(volume),
                ..DriverRequirements::default()
            }),
            CsiLifecycle::Ephemeral => Err(format!(
                "volume mode {requested:?} not supported by driver {driver} (no CSIDriver object)"
            )),
        };
    };
    let spec = &object.spec;
    let modes = spec.volume_lifecycle_modes.clone().unwrap_or_else(|| vec!["Persistent".to_owned()]);
    if !modes.iter().any(|mode| mode == requested) {
        return Err(format!(
            "volume mode {requested:?} not supported by driver {driver} (only supports {modes:?})"
        ));
    }
    let gives_to_group = !volume.read_only
        && match spec.fs_group_policy.as_deref() {
            Some("None") => false,
            Some("File") => matches!(volume.access, CsiAccess::Files { .. }),
            Some(_) | None => suits_groups(volume),
        };
    let tokens = spec.token_requests.iter().flatten().map(|request| DriverTokenRequest {
        audience: request.audience.clone(),
        expiration_seconds: request.expiration_seconds,
    });
    Ok(DriverRequirements {
        attach: spec.attach_required != Some(false) && volume.lifecycle == CsiLifecycle::Persistent,
        counts_volumes: spec.node_allocatable_update_period_seconds.is_some_and(|period| period > 0),
        pod_information: spec.pod_info_on_mount == Some(true),
        republish: spec.requires_republish == Some(true),
        tokens: tokens.collect(),
        tokens_are_secrets: spec.service_account_token_in_secrets == Some(true),
        gives_to_group,
    })
}

/// Whether the default fsGroup policy applies: `ReadWriteOnce` with a file system type.
fn suits_groups(volume: &CsiVolume) -> bool {
    let CsiAccess::Files { fs_type, .. } = &volume.access else { return false };
    let once = |mode: &String| mode == "ReadWriteOnce" || mode == "ReadWriteOncePod";
    let own = volume.lifecycle == CsiLifecycle::Ephemeral || volume.access_modes.iter().any(once);
    !volume.read_only && !fs_type.is_empty() && own
}

fn lifecycle(lifecycle: CsiLifecycle) -> &'static str {
    match lifecycle {
        CsiLifecycle::Persistent => "Persistent",
        CsiLifecycle::Ephemeral => "Ephemeral",
    }
}

#[cfg(test)]
mod tests {
    use model::{CsiPod, PodUid};
    use serde_json::{Value, json};

    use super::*;

    fn volume(lifecycle: CsiLifecycle, fs_type: &str, mode: &str) -> CsiVolume {
        CsiVolume {
            path: "/p".into(),
            spec_name: "pv".into(),
            driver: "d".into(),
            handle: "h".into(),
            lifecycle,
            access: CsiAccess::Files { fs_type: fs_type.into(), options: vec![] },
            read_only: false,
            access_modes: vec![mode.into()],
            attributes: Default::default(),
            stage_secret: None,
            publish_secret: None,
            expand_secret: None,
            pod: CsiPod {
                name: "p".into(),
                namespace: "n".into(),
                uid: PodUid::from("u"),
                service_account: "s".into(),
            },
            size: None,
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]
    fn object(spec: Value) -> CSIDriver {
        serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec})).unwrap()
    }

    #[test]
    fn inline_volumes_need_a_driver_that_says_it_does_them() {
        let inline = volume(CsiLifecycle::Ephemeral, "", "");
        assert_eq!(
            driver_requirements(None, &inline).unwrap_err(),
            "volume mode \"Ephemeral\" not supported by driver d (no CSIDriver object)"
        );
        assert_eq!(
            driver_requirements(Some(&object(json!({"volumeLifecycleModes": ["Persistent"]}))), &inline)
                .unwrap_err(),
            "volume mode \"Ephemeral\" not supported by driver d (only supports [\"Persistent\"])"
        );
        let terms =
            driver_requirements(Some(&object(json!({"volumeLifecycleModes": ["Ephemeral"]}))), &inline)
                .unwrap();
        assert!(!terms.attach, "an inline volume is never attached");
    }

    #[test]
    fn attachment_is_the_rule() {
        let persistent = volume(CsiLifecycle::Persistent, "", "");
        for (spec, attach) in [
            (None, true),
            (Some(json!({})), true),
            (Some(json!({"attachRequired": true})), true),
            (Some(json!({"attachRequired": false})), false),
        ] {
            let object = spec.clone().map(object);
            assert_eq!(driver_requirements(object.as_ref(), &persistent).unwrap().attach, attach, "{spec:?}");
        }
    }

    #[test]
    fn the_agent_gives_volumes_to_groups_by_the_drivers_policy() {
        for (policy, fs_type, mode, expected) in [
            ("ReadWriteOnceWithFSType", "ext4", "ReadWriteOnce", true),
            ("ReadWriteOnceWithFSType", "ext4", "ReadWriteOncePod", true),
            ("ReadWriteOnceWithFSType", "", "ReadWriteOnce", false),
            ("ReadWriteOnceWithFSType", "ext4", "ReadWriteMany", false),
            ("File", "", "ReadWriteMany", true),
            ("None", "ext4", "ReadWriteOnce", false),
        ] {
            let volume = volume(CsiLifecycle::Persistent, fs_type, mode);
            let found =
                driver_requirements(Some(&object(json!({"fsGroupPolicy": policy}))), &volume).unwrap();
            assert_eq!(found.gives_to_group, expected, "{policy} {fs_type} {mode}");
            let read_only = CsiVolume { read_only: true, ..volume };
            assert!(
                !driver_requirements(Some(&object(json!({"fsGroupPolicy": policy}))), &read_only)
                    .unwrap()
                    .gives_to_group
            );
        }
    }
}
