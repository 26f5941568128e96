#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

mod every_field;

use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

fn pod_with(of_pod: Value, own: Value) -> Pod {
    pod(json!({"securityContext": of_pod, "containers": [{"name": "c", "securityContext": own}]}))
}

fn image(uid: Option<i64>, username: &str) -> ImageStatus {
    ImageStatus { uid, username: username.into(), ..ImageStatus::default() }
}

fn secured(of_pod: Value, own: Value) -> Result<ContainerSecurity, String> {
    let pod = pod_with(of_pod, own);
    container_security(&pod, &pod.spec.containers[0], &image(Some(7), ""), &settings())
}

#[test]
fn empty_security_context_gives_defaults() {
    let security = secured(json!(null), json!(null)).unwrap();
    assert_eq!(security.run_as_user, Some(7));
    assert_eq!(security.seccomp, Some(SecurityProfile::Unconfined));
    assert_eq!(security.apparmor, None);
    assert_eq!(security.namespaces.pid, NamespaceMode::Container);
    assert!(!security.privileged && !security.no_new_privs && !security.readonly_rootfs);
    assert_eq!(security.capabilities, Capabilities::default());
    assert_eq!(security.masked_paths.len(), MASKED_PATHS.len() + 1);
    assert_eq!(security.masked_paths.last().unwrap(), "/sys/devices/system/cpu/cpu3/thermal_throttle");
    assert_eq!(security.readonly_paths, READONLY_PATHS);
}

#[test]
fn container_settings_override_pod_settings() {
    let of_pod = json!({"runAsUser": 1, "runAsGroup": 2, "seLinuxOptions": {"level": "s0"}});
    let security = secured(of_pod.clone(), json!({})).unwrap();
    assert_eq!((security.run_as_user, security.run_as_group), (Some(1), Some(2)));
    assert_eq!(security.selinux.unwrap().level, "s0");
    let own =
        json!({"runAsUser": 3, "runAsGroup": 4, "seLinuxOptions": {"type": "t", "user": "u", "role": "r"}});
    let security = secured(of_pod, own).unwrap();
    assert_eq!((security.run_as_user, security.run_as_group), (Some(3), Some(4)));
    let selinux = security.selinux.unwrap();
    assert_eq!((selinux.kind.as_str(), selinux.level.as_str()), ("t", ""));
}

#[test]
fn applies_container_security_flags() {
    let security = secured(
        json!({}),
        json!({
            "privileged": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "procMount": "Unmasked",
        }),
    )
    .unwrap();
    assert!(security.privileged && security.readonly_rootfs && security.no_new_privs);
    assert_eq!(security.capabilities.add, ["NET_ADMIN"]);
    assert_eq!(security.capabilities.drop, ["ALL"]);
    assert!(security.masked_paths.is_empty() && security.readonly_paths.is_empty());
    assert!(!secured(json!({}), json!({"allowPrivilegeEscalation": true})).unwrap().no_new_privs);
}

#[test]
fn fs_group_is_first_supplemental_group() {
    let security = secured(
        json!({"fsGroup": 5, "supplementalGroups": [6, 7], "supplementalGroupsPolicy": "Strict"}),
        json!({}),
    )
    .unwrap();
    assert_eq!(security.supplemental_groups, [5, 6, 7]);
    assert_eq!(security.supplemental_groups_policy, SupplementalGroupsPolicy::Strict);
    assert!(secured(json!({"supplementalGroupsPolicy": "Odd"}), json!({})).unwrap_err().contains("Odd"));
}

#[test]
fn image_user_is_default() {
    let pod = pod_with(json!({}), json!({}));
    let user = |image| {
        let security = container_security(&pod, &pod.spec.containers[0], &image, &settings()).unwrap();
        (security.run_as_user, security.run_as_username)
    };
    assert_eq!(user(image(Some(7), "")), (Some(7), String::new()));
    assert_eq!(user(image(None, "web")), (None, "web".to_owned()));
    assert_eq!(user(image(None, "")), (Some(0), String::new()));
}

#[test]
fn container_seccomp_profile_overrides_pod_profile() {
    let seccomp = |of_pod: Value, own: Value| secured(of_pod, own).map(|security| security.seccomp.unwrap());
    let field = |kind: &str| json!({"seccompProfile": {"type": kind}});
    assert_eq!(seccomp(field("RuntimeDefault"), json!({})), Ok(SecurityProfile::RuntimeDefault));
    assert_eq!(seccomp(field("RuntimeDefault"), field("Unconfined")), Ok(SecurityProfile::Unconfined));
    let local = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}});
    assert_eq!(
        seccomp(local, json!({})),
        Ok(SecurityProfile::Localhost("/var/lib/kubelet/seccomp/a/b.json".into()))
    );
    assert!(seccomp(field("Localhost"), json!({})).is_err());
    assert!(seccomp(json!({}), field("Lenient")).is_err());
    let pod = pod_with(json!({}), json!({}));
    let mut settings = settings();
    settings.seccomp_default = true;
    let security = container_security(&pod, &pod.spec.containers[0], &image(None, ""), &settings).unwrap();
    assert_eq!(security.seccomp, Some(SecurityProfile::RuntimeDefault));
}

#[test]
fn apparmor_precedence_is_container_annotation_pod() {
    let field = |name: &str| json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": name}});
    let chosen = |own: Value, annotation: Option<&str>| {
        let mut pod = pod_with(field("of-pod"), own);
        let key = format!("{APPARMOR_ANNOTATION_PREFIX}c");
        pod.metadata.annotations = annotation.map(|value| [(key, value.to_owned())].into());
        apparmor(&pod, &pod.spec.containers[0]).unwrap().unwrap()
    };
    let local = |name: &str| SecurityProfile::Localhost(name.into());
    assert_eq!(chosen(field("own"), Some("localhost/noted")), local("own"));
    assert_eq!(chosen(json!({}), Some("localhost/noted")), local("noted"));
    assert_eq!(chosen(json!({}), Some("runtime/default")), SecurityProfile::RuntimeDefault);
    assert_eq!(chosen(json!({}), Some("unconfined")), SecurityProfile::Unconfined);
    assert_eq!(chosen(json!({}), Some("nonsense")), local("of-pod"));
    assert_eq!(chosen(json!({}), None), local("of-pod"));
    assert_eq!(secured(json!({"appArmorProfile": {"type": "Localhost"}}), json!({})).ok(), None);
}

#[test]
fn namespaces_match_spec() {
    let of = |fields: Value| {
        let mut spec = json!({"containers": []});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let Namespaces { network, pid, ipc } = namespaces(&pod(spec));
        (network, pid, ipc)
    };
    use NamespaceMode::{Container, Node, Pod};
    assert_eq!(of(json!({})), (Pod, Container, Pod));
    assert_eq!(of(json!({"hostNetwork": true, "hostPID": true, "hostIPC": true})), (Node, Node, Node));
    assert_eq!(of(json!({"shareProcessNamespace": true})), (Pod, Pod, Pod));
    assert_eq!(of(json!({"shareProcessNamespace": true, "hostPID": true})), (Pod, Node, Pod));
}

#[test]
fn sandbox_uses_pod_identity_and_default_seccomp() {
    let of_pod = json!({
        "runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4],
        "seccompProfile": {"type": "Unconfined"}, "seLinuxOptions": {"level": "s0"},
    });
    let security =
        sandbox_security(&pod_with(of_pod, json!({"privileged": true})), UserNamespace::Node, &[9]).unwrap();
    assert_eq!(security.seccomp, Some(SecurityProfile::RuntimeDefault));
    assert_eq!((security.run_as_user, security.run_as_group), (Some(1), Some(2)));
    assert_eq!(security.supplemental_groups, [3, 9, 4]);
    assert!(security.privileged && security.selinux.is_some());
    assert!(!sandbox_security(&pod_with(json!({}), json!({})), UserNamespace::Node, &[]).unwrap().privileged);
    let mut isolated = pod_with(json!({}), json!({}));
    isolated.spec.host_users = Some(false);
    assert!(sandbox_security(&isolated, UserNamespace::Node, &[]).unwrap_err().contains("hostUsers"));
}

#[test]
fn checks_run_as_non_root_against_effective_user() {
    let check = |of_pod: Value, own: Value, image: ImageStatus| {
        let pod = pod_with(of_pod, own);
        verify_run_as_non_root(&pod, &pod.spec.containers[0], &image)
    };
    let non_root = || json!({"runAsNonRoot": true});
    for (of_pod, own, image) in [
        (json!({}), json!({}), image(Some(0), "")),
        (non_root(), json!({"runAsNonRoot": false}), image(Some(0), "")),
        (non_root(), json!({"runAsUser": 5}), image(Some(0), "")),
        (non_root(), json!({}), image(Some(5), "")),
    ] {
        assert_eq!(check(of_pod, own, image), Ok(()));
    }
    for (own, image, text) in [
        (json!({"runAsUser": 0}), image(Some(5), ""), "breaks non-root policy"),
        (json!({}), image(Some(0), ""), "image will run as root"),
        (json!({}), image(None, ""), "image will run as root"),
        (json!({}), image(None, "web"), "non-numeric user (web)"),
        (json!({}), image(Some(-4), ""), "invalid user id (-4)"),
    ] {
        let problem = check(non_root(), own, image).unwrap_err();
        assert!(
            problem.contains(text) && problem.ends_with("(pod: \"p_default(u)\", container: c)"),
            "{problem}"
        );
    }
}
