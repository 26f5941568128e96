//! Checks that every security field is either applied or rejected; none is silently ignored.

use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext};
use model::{IdRange, ImageStatus, NodeSettings, RuntimeHandler, UserNamespace};
use serde_json::{Value, json};

use crate::admission::tests::check_all;
use crate::admission::{AdmissionInputs, Occupancy, StrictGroups};
use crate::runtime_spec::pod_paths::tests::settings;
use crate::runtime_spec::runtime_class::runtime_handler;
use crate::runtime_spec::sandbox_spec::{SandboxInputs, sandbox_spec};
use crate::runtime_spec::security::{container_security, verify_run_as_non_root};
use crate::runtime_spec::user_namespaces::check_handler;
use crate::test_objects::pod;

/// Fields that are not sent to the runtime, and where they are handled instead.
const HANDLED_ELSEWHERE: [(&str, &str); 4] = [
    ("/securityContext/fsGroupChangePolicy", "volume setup"),
    ("/securityContext/seLinuxChangePolicy", "SELinux labelling of volumes"),
    ("/securityContext/windowsOptions", "not applicable on Linux"),
    ("/containers/0/securityContext/windowsOptions", "not applicable on Linux"),
];

/// Every security field with a value other than its default.
fn fields() -> Vec<(String, Value)> {
    // No `..`, so that a new API field fails to compile here.
    let PodSecurityContext {
        app_armor_profile: _,
        fs_group: _,
        fs_group_change_policy: _,
        run_as_group: _,
        run_as_non_root: _,
        run_as_user: _,
        se_linux_change_policy: _,
        se_linux_options: _,
        seccomp_profile: _,
        supplemental_groups: _,
        supplemental_groups_policy: _,
        sysctls: _,
        windows_options: _,
    } = PodSecurityContext::default();
    let SecurityContext {
        allow_privilege_escalation: _,
        app_armor_profile: _,
        capabilities: _,
        privileged: _,
        proc_mount: _,
        read_only_root_filesystem: _,
        run_as_group: _,
        run_as_non_root: _,
        run_as_user: _,
        se_linux_options: _,
        seccomp_profile: _,
        windows_options: _,
    } = SecurityContext::default();
    let of_spec = [
        ("hostIPC", json!(true)),
        ("hostNetwork", json!(true)),
        ("hostPID", json!(true)),
        ("hostUsers", json!(false)),
        ("runtimeClassName", json!("kata")),
        ("shareProcessNamespace", json!(true)),
    ];
    let of_pod = [
        ("appArmorProfile", json!({"type": "RuntimeDefault"})),
        ("fsGroup", json!(7)),
        ("fsGroupChangePolicy", json!("OnRootMismatch")),
        ("runAsGroup", json!(7)),
        ("runAsNonRoot", json!(true)),
        ("runAsUser", json!(7)),
        ("seLinuxChangePolicy", json!("Recursive")),
        ("seLinuxOptions", json!({"level": "s0"})),
        ("seccompProfile", json!({"type": "RuntimeDefault"})),
        ("supplementalGroups", json!([7])),
        ("supplementalGroupsPolicy", json!("Strict")),
        ("sysctls", json!([{"name": "kernel.shm_rmid_forced", "value": "1"}])),
        ("windowsOptions", json!({"runAsUserName": "x"})),
    ];
    let of_container = [
        ("allowPrivilegeEscalation", json!(false)),
        ("appArmorProfile", json!({"type": "Unconfined"})),
        ("capabilities", json!({"drop": ["ALL"]})),
        ("privileged", json!(true)),
        ("procMount", json!("Unmasked")),
        ("readOnlyRootFilesystem", json!(true)),
        ("runAsGroup", json!(7)),
        ("runAsNonRoot", json!(true)),
        ("runAsUser", json!(7)),
        ("seLinuxOptions", json!({"type": "spc_t"})),
        ("seccompProfile", json!({"type": "Localhost", "localhostProfile": "p.json"})),
        ("windowsOptions", json!({"runAsUserName": "x"})),
    ];
    let below =
        |parent: &'static str| move |(name, value): (&str, Value)| (format!("{parent}/{name}"), value);
    of_spec
        .into_iter()
        .map(below(""))
        .chain(of_pod.into_iter().map(below("/securityContext")))
        .chain(of_container.into_iter().map(below("/containers/0/securityContext")))
        .collect()
}

fn spec() -> Value {
    json!({
        "securityContext": {},
        "containers": [{"name": "c", "image": "i", "securityContext": {}}],
    })
}

fn with(field: &str, value: Value) -> Value {
    let mut spec = spec();
    let (parent, name) = field.rsplit_once('/').unwrap();
    spec.pointer_mut(parent).unwrap()[name] = value;
    spec
}

/// The request for a runtime with these handlers, or the rejection.
fn runtime_request(
    spec: Value,
    settings: &NodeSettings,
    handlers: &[RuntimeHandler],
) -> Result<String, String> {
    let pod = pod(spec);
    let strict_groups = if handlers.is_empty() { StrictGroups::Unsupported } else { StrictGroups::Supported };
    let (labels, taints) = (&settings.admission.labels, [].as_slice());
    let (pressure, shutdown) = Default::default();
    let (occupancy, extended_resources) = (&Occupancy::default(), &Default::default());
    let node = AdmissionInputs {
        settings,
        labels,
        taints,
        extended_resources,
        occupancy,
        strict_groups,
        pressure,
        shutdown,
    };
    check_all(&pod, &node).map_err(|rejection| rejection.reason)?;
    let runtime_handler = runtime_handler(&pod, handlers)?;
    let user_namespace = if pod.spec.host_users == Some(false) {
        check_handler(handlers, &runtime_handler)?;
        UserNamespace::Pod(IdRange { first: 65_536, length: 65_536 })
    } else {
        UserNamespace::Node
    };
    let inputs = SandboxInputs {
        pod: &pod,
        attempt: 0,
        settings,
        dns: None,
        runtime_handler,
        user_namespace,
        volume_groups: &[],
    };
    let sandbox = sandbox_spec(&inputs)?;
    let container = &pod.spec.containers[0];
    let image = ImageStatus::default();
    verify_run_as_non_root(&pod, container, &image)?;
    let security = container_security(&pod, container, &image, settings)?;
    Ok(format!("{sandbox:?} {security:?}"))
}

fn handlers() -> Vec<RuntimeHandler> {
    ["", "kata"]
        .map(|name| RuntimeHandler { name: name.into(), user_namespaces: true, ..RuntimeHandler::default() })
        .to_vec()
}

#[test]
fn capable_node_applies_every_security_field() {
    let mut settings = settings();
    settings.admission.apparmor = model::AppArmor::Enabled;
    let plain = runtime_request(spec(), &settings, &handlers());
    assert!(plain.is_ok(), "{plain:?}");
    for (field, value) in fields() {
        let changed = runtime_request(with(&field, value), &settings, &handlers());
        let is_handled_elsewhere = HANDLED_ELSEWHERE.iter().any(|(name, _)| *name == field);
        assert_eq!(changed == plain, is_handled_elsewhere, "{field}: {changed:?}");
    }
}

#[test]
fn bare_node_rejects_unenforceable_fields() {
    for (field, value, reason) in [
        ("/hostUsers", json!(false), "runtime does not support user namespaces"),
        ("/runtimeClassName", json!("kata"), "\"kata\" not found"),
        (
            "/securityContext/supplementalGroupsPolicy",
            json!("Strict"),
            "SupplementalGroupsPolicyNotSupported",
        ),
        ("/securityContext/appArmorProfile", json!({"type": "RuntimeDefault"}), "AppArmor"),
        (
            "/containers/0/securityContext/appArmorProfile",
            json!({"type": "Localhost", "localhostProfile": "p"}),
            "AppArmor",
        ),
        ("/securityContext/sysctls", json!([{"name": "vm.swappiness", "value": "1"}]), "SysctlForbidden"),
        ("/securityContext/runAsNonRoot", json!(true), "image will run as root"),
        (
            "/containers/0/securityContext/seccompProfile",
            json!({"type": "Localhost"}),
            "localhostProfile must be set",
        ),
        ("/securityContext/seccompProfile", json!({"type": "Other"}), "unknown seccomp profile type"),
    ] {
        let rejection = runtime_request(with(field, value), &settings(), &[]).unwrap_err();
        assert!(rejection.contains(reason), "{field}: {rejection}");
    }
}
