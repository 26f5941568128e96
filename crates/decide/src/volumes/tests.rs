#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use serde_json::{Value, json};

use super::*;
use crate::pod_paths::tests::settings;
use crate::test_objects::pod;

fn planned(volume: Value) -> Result<VolumePlan, VolumeProblem> {
    let spec = json!({"containers": [], "volumes": [volume]});
    plan_volumes(&pod(spec), &settings()).map(|mut volumes| volumes.remove(0).plan)
}

fn path() -> PathBuf {
    "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v".into()
}

#[test]
fn empty_dirs_live_below_the_pod() {
    for volume in [json!({"name": "v"}), json!({"name": "v", "emptyDir": {}})] {
        assert_eq!(planned(volume), Ok(VolumePlan::EmptyDir { path: path() }));
    }
}

#[test]
fn memory_dirs_take_the_least_limit() {
    let limited = json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}});
    for (size_limit, resources, expected) in [
        (json!(null), json!({}), 8 << 30),
        (json!("64Mi"), json!({}), 64 << 20),
        (json!("16Gi"), json!({}), 8 << 30),
        (json!("0"), json!({}), 8 << 30),
        (json!(null), limited.clone(), 1 << 30),
        (json!("2Gi"), limited.clone(), 1 << 30),
        (json!("1Mi"), limited, 1 << 20),
    ] {
        let spec = json!({
            "containers": [{"name": "c", "resources": resources}],
            "volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": size_limit}}],
        });
        let plan = plan_volumes(&pod(spec.clone()), &settings()).unwrap().remove(0).plan;
        assert_eq!(plan, VolumePlan::MemoryDir { path: path(), size_limit: Some(expected) }, "{spec}");
    }
}

#[test]
fn host_paths_keep_their_type() {
    for (word, kind) in [
        ("", HostPathKind::Any),
        ("Directory", HostPathKind::Directory),
        ("DirectoryOrCreate", HostPathKind::DirectoryOrCreate),
        ("File", HostPathKind::File),
        ("FileOrCreate", HostPathKind::FileOrCreate),
        ("Socket", HostPathKind::Socket),
        ("CharDevice", HostPathKind::CharDevice),
        ("BlockDevice", HostPathKind::BlockDevice),
    ] {
        let plan = planned(json!({"name": "v", "hostPath": {"path": "/srv/x", "type": word}}));
        assert_eq!(plan, Ok(VolumePlan::HostPath { path: "/srv/x".into(), kind }), "{word}");
    }
}

#[test]
fn problems_name_the_volume_and_the_reason() {
    for (volume, text) in [
        (json!({"name": "v", "secret": {"secretName": "s"}}), "volume \"v\": secret is not supported yet"),
        (json!({"name": "v", "projected": {}}), "volume \"v\": projected is not supported yet"),
        (
            json!({"name": "v", "emptyDir": {"medium": "HugePages-2Mi"}}),
            "volume \"v\": emptyDir medium \"HugePages-2Mi\" is not supported yet",
        ),
        (
            json!({"name": "v", "hostPath": {"path": "/a", "type": "Door"}}),
            "volume \"v\": unknown hostPath type \"Door\"",
        ),
        (
            json!({"name": "v", "hostPath": {"path": "/a/../b"}}),
            "volume \"v\": hostPath \"/a/../b\" must not contain \"..\"",
        ),
    ] {
        assert_eq!(planned(volume).unwrap_err().to_string(), text);
    }
}

#[test]
fn volumes_keep_their_order() {
    let spec = json!({"containers": [], "volumes": [{"name": "b"}, {"name": "a"}]});
    let names: Vec<_> =
        plan_volumes(&pod(spec), &settings()).unwrap().into_iter().map(|volume| volume.name).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(plan_volumes(&pod(json!({"containers": []})), &settings()), Ok(vec![]));
}
