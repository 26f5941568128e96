#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use serde_json::{Value, json};

use super::*;
use crate::pod_paths::tests::settings;

fn container(fields: Value) -> Container {
    let mut object = json!({"name": "c"});
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

fn volume(name: &str, plan: VolumePlan) -> PlannedVolume {
    PlannedVolume { name: name.to_owned(), plan, fs_group: None }
}

fn volumes() -> Vec<PlannedVolume> {
    vec![
        volume("data", VolumePlan::EmptyDir { path: "/pods/u/data".into() }),
        volume("host", VolumePlan::HostPath { path: "/srv".into(), kind: model::HostPathKind::Any }),
    ]
}

fn check(fields: Value, expected: &[(&str, &str)]) {
    let files = (Path::new("/pods/u/etc-hosts"), Path::new("/pods/u/containers/c/1a2b"));
    let mounts =
        mounts(&container(fields.clone()), &volumes(), Some(files.0), Some(files.1), &settings()).unwrap();
    let paths: Vec<_> =
        mounts.iter().map(|mount| (mount.host_path.as_str(), mount.container_path.as_str())).collect();
    assert_eq!(paths, expected, "{fields}");
}

#[test]
fn volumes_come_first_then_the_hosts_file_then_the_termination_log() {
    check(
        json!({
            "terminationMessagePath": "/dev/termination-log",
            "volumeMounts": [{"name": "host", "mountPath": "/host"}, {"name": "data", "mountPath": "data"}],
        }),
        &[
            ("/srv", "/host"),
            ("/pods/u/data", "/data"),
            ("/pods/u/etc-hosts", "/etc/hosts"),
            ("/pods/u/containers/c/1a2b", "/dev/termination-log"),
        ],
    );
}

#[test]
fn a_mount_over_the_hosts_file_wins() {
    check(
        json!({"volumeMounts": [{"name": "data", "mountPath": "/etc/hosts"}]}),
        &[("/pods/u/data", "/etc/hosts")],
    );
}

#[test]
fn files_that_are_not_given_are_not_mounted() {
    let container = container(json!({"terminationMessagePath": "/dev/termination-log"}));
    assert_eq!(mounts(&container, &[], None, None, &settings()), Ok(vec![]));
}

#[test]
fn mounts_carry_access_propagation_and_labels() {
    let container = container(json!({"volumeMounts": [
        {"name": "data", "mountPath": "/a", "readOnly": true, "recursiveReadOnly": "IfPossible"},
        {"name": "host", "mountPath": "/b", "mountPropagation": "Bidirectional"},
        {"name": "host", "mountPath": "/c", "mountPropagation": "HostToContainer"},
    ]}));
    let mounts = mounts(&container, &volumes(), None, None, &settings()).unwrap();
    let facts: Vec<_> =
        mounts.iter().map(|mount| (mount.readonly, mount.selinux_relabel, mount.propagation)).collect();
    assert_eq!(
        facts,
        [
            (true, true, MountPropagation::Private),
            (false, false, MountPropagation::Bidirectional),
            (false, false, MountPropagation::HostToContainer),
        ]
    );
}

#[test]
fn nothing_is_relabelled_without_selinux() {
    let mut settings = settings();
    let container = container(json!({
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [{"name": "data", "mountPath": "/a"}],
    }));
    for enabled in [true, false] {
        settings.capabilities.selinux_enabled = enabled;
        let (hosts, log) = (Some(Path::new("/hosts")), Some(Path::new("/log")));
        let mounts = mounts(&container, &volumes(), hosts, log, &settings).unwrap();
        assert_eq!(mounts.len(), 3);
        assert!(mounts.iter().all(|mount| mount.selinux_relabel == enabled));
    }
}

#[test]
fn what_cannot_be_mounted_is_named() {
    for (mount, text) in [
        (
            json!({"name": "nope", "mountPath": "/a"}),
            "cannot find volume \"nope\" to mount into container \"c\"",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "subPath": "x"}),
            "volume \"data\": subPath is not supported yet",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "subPathExpr": "$(X)"}),
            "volume \"data\": subPathExpr is not supported yet",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "mountPropagation": "Sideways"}),
            "volume \"data\": invalid mount propagation \"Sideways\"",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "readOnly": true, "recursiveReadOnly": "Enabled"}),
            "volume \"data\": recursive read-only mounts are not supported yet",
        ),
    ] {
        let container = container(json!({"volumeMounts": [mount]}));
        assert_eq!(mounts(&container, &volumes(), None, None, &settings()).unwrap_err(), text);
    }
    let container = container(json!({"volumeDevices": [{"name": "disk", "devicePath": "/dev/x"}]}));
    assert!(mounts(&container, &volumes(), None, None, &settings()).unwrap_err().contains("\"disk\""));
}
