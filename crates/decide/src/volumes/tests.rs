#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

/// A pod of one container that mounts every volume.
fn mounting(container: Value, volumes: Value) -> Pod {
    let mounts: Vec<Value> = volumes.as_array().unwrap().iter()
        .map(|volume| json!({"name": volume["name"], "mountPath": format!("/{}", volume["name"].as_str().unwrap())}))
        .collect();
    let mut container = container;
    container["name"] = json!("c");
    container["volumeMounts"] = json!(mounts);
    pod(json!({"containers": [container], "volumes": volumes}))
}

fn planned(volume: Value) -> Result<VolumePlan, VolumeProblem> {
    planned_for(json!({}), volume)
}

fn planned_for(container: Value, volume: Value) -> Result<VolumePlan, VolumeProblem> {
    plan_volumes(
        &mounting(container, json!([volume])),
        &settings(),
        &VolumeFiles::new(),
        &ClaimedVolumes::new(),
    )
    .map(|mut volumes| volumes.remove(0).plan)
}

fn path() -> PathBuf {
    "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v".into()
}

#[test]
fn empty_dir_is_in_the_pod_folder() {
    for volume in [json!({"name": "v"}), json!({"name": "v", "emptyDir": {}})] {
        assert_eq!(planned(volume), Ok(VolumePlan::EmptyDir { path: path() }));
    }
}

#[test]
fn memory_dir_uses_the_smallest_limit() {
    let limited = json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}});
    // 8 GiB minus reservations, thresholds and huge pages.
    let allocatable = (6 << 30) - (100 << 20);
    for (size_limit, resources, expected) in [
        (json!(null), json!({}), allocatable),
        (json!("64Mi"), json!({}), 64 << 20),
        (json!("16Gi"), json!({}), allocatable),
        (json!("0"), json!({}), allocatable),
        (json!(null), limited.clone(), 1 << 30),
        (json!("2Gi"), limited.clone(), 1 << 30),
        (json!("1Mi"), limited, 1 << 20),
    ] {
        let volume = json!({"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": size_limit}});
        let plan = planned_for(json!({"resources": resources}), volume.clone());
        assert_eq!(plan, Ok(VolumePlan::MemoryDir { path: path(), size_limit: Some(expected) }), "{volume}");
    }
}

#[test]
fn plans_volumes_of_ephemeral_containers() {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "containers": [{"name": "c"}],
            "ephemeralContainers": [{"name": "debug", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v"}, {"name": "unused"}],
        },
    });
    let pod = Pod::from_object(serde_json::from_value(object).unwrap(), model::PodSource::Api).unwrap();
    let volumes = plan_volumes(&pod, &settings(), &VolumeFiles::new(), &ClaimedVolumes::new()).unwrap();
    assert_eq!(volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), ["v"]);
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
        assert_eq!(
            plan,
            Ok(VolumePlan::HostPath { path: "/srv/x".into(), kind, read_only: false }),
            "{word}"
        );
    }
}

#[test]
fn huge_page_volume_uses_requested_size() {
    let of = |sizes: &[&str]| {
        let requests: serde_json::Map<_, _> =
            sizes.iter().map(|size| (format!("hugepages-{size}"), json!("4Mi"))).collect();
        json!({"resources": {"requests": requests}})
    };
    let none = "there is no resource request for huge pages";
    for (medium, sizes, expected) in [
        ("HugePages", &["2Mi"][..], Ok(2 << 20)),
        ("HugePages-1Gi", &["2Mi", "1Gi"], Ok(1 << 30)),
        ("HugePages", &["2Mi", "1Gi"], Err("can't be used if container requests multiple huge page sizes")),
        ("HugePages", &[], Err(none)),
        ("HugePages-1Gi", &["2Mi"], Err(none)),
        ("HugePages-x", &["2Mi"], Err("unknown storage medium \"HugePages-x\"")),
        ("Floppy", &[], Err("MountVolume.SetUp failed for volume \"v\" : unknown storage medium \"Floppy\"")),
    ] {
        let plan = planned_for(of(sizes), json!({"name": "v", "emptyDir": {"medium": medium}}));
        match (plan, expected) {
            (Ok(plan), Ok(page_size)) => {
                assert_eq!(plan, VolumePlan::HugePagesDir { path: path(), page_size });
            }
            (Err(problem), Err(text)) => assert!(problem.to_string().contains(text), "{problem}"),
            (plan, expected) => panic!("{medium} with {sizes:?}: {plan:?}, not {expected:?}"),
        }
    }
}

#[test]
fn problems_name_the_volume_and_the_reason() {
    for (volume, text) in [
        (
            json!({"name": "v", "flocker": {"datasetName": "s"}}),
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process \
             volumes=[v]: failed to get Plugin from volumeSpec for volume \"v\" err=no volume plugin matched (flocker)",
        ),
        (
            json!({"name": "v", "gitRepo": {"repository": "r"}}),
            "MountVolume.SetUp failed for volume \"v\" : git-repo volume plugin has been disabled; if necessary, it \
             may be re-enabled by enabling the feature-gate `GitRepoVolumeDriver`",
        ),
        (
            json!({"name": "v", "hostPath": {"path": "/a", "type": "Door"}}),
            "MountVolume.SetUp failed for volume \"v\" : Door is an invalid volume type",
        ),
        (
            json!({"name": "v", "hostPath": {"path": "/a/../b"}}),
            "MountVolume.SetUp failed for volume \"v\" : invalid HostPath `/a/../b`: must not contain '..'",
        ),
    ] {
        assert_eq!(planned(volume).unwrap_err().to_string(), text);
    }
}

#[test]
fn image_volume_has_pull_annotations() {
    let mut pod = mounting(json!({}), json!([{"name": "v", "image": {"reference": "web:1"}}]));
    let annotations = std::collections::BTreeMap::from([("io.containerd.x".to_owned(), "y".to_owned())]);
    pod.metadata.annotations = Some(annotations.clone());
    let plan =
        plan_volumes(&pod, &settings(), &VolumeFiles::new(), &ClaimedVolumes::new()).unwrap().remove(0).plan;
    let image = ImageSpec { user_specified_image: "web:1".to_owned(), annotations, ..ImageSpec::default() };
    assert_eq!(plan, VolumePlan::Image { image, pull_policy: None });
}

#[test]
fn nfs_plan_has_server_and_path() {
    for (server, read_only, source) in
        [("nas.example", json!(null), "nas.example:/export"), ("fd00::1", json!(true), "[fd00::1]:/export")]
    {
        let volume =
            json!({"name": "v", "nfs": {"server": server, "path": "/export", "readOnly": read_only}});
        let path = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/v".into();
        let read_only = read_only == json!(true);
        assert_eq!(
            planned(volume),
            Ok(VolumePlan::Nfs { path, source: source.to_owned(), read_only, options: vec![] })
        );
    }
}

#[test]
fn nfs_server_that_mount_would_parse_as_an_option_is_invalid() {
    let servers =
        ["", "-obind", "--bind", "-t", "nas /x", "nas,b", "nas/x", "nas\n", "$(id)", "a\u{0}b", "näs"];
    for server in servers {
        let volume = json!({"name": "v", "nfs": {"server": server, "path": "/export"}});
        let reason = format!("nfs: {server:?} is no host name or address of a server");
        assert_eq!(planned(volume), Err(VolumeProblem::Invalid { volume: "v".into(), reason }));
    }
    for path in ["", "export", "-o", "/a\nb"] {
        let volume = json!({"name": "v", "nfs": {"server": "nas", "path": path}});
        let reason = format!("nfs: {path:?} is no absolute path of a share");
        assert_eq!(planned(volume), Err(VolumeProblem::Invalid { volume: "v".into(), reason }));
    }
}

#[test]
fn plans_mounted_volumes_in_order() {
    let mut pod = mounting(json!({}), json!([{"name": "b"}, {"name": "a"}]));
    let unused = serde_json::from_value(json!({"name": "unused", "flocker": {}})).unwrap();
    pod.spec.volumes.get_or_insert_default().push(unused);
    let names: Vec<_> = plan_volumes(&pod, &settings(), &VolumeFiles::new(), &ClaimedVolumes::new())
        .unwrap()
        .into_iter()
        .map(|volume| volume.name)
        .collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn projected_files_use_upstreams_paths() {
    // Allocatable memory of the node.
    let memory = FileStorage::Memory { size_limit: Some((6 << 30) - (100 << 20)) };
    for (source, plugin, storage) in [
        (json!({"configMap": {"name": "x"}}), "configmap", FileStorage::Disk),
        (json!({"secret": {"secretName": "x"}}), "secret", memory),
        (json!({"downwardAPI": {}}), "downward-api", memory),
        (json!({"projected": {}}), "projected", memory),
    ] {
        let mut volume = source;
        volume["name"] = json!("v");
        let files =
            vec![ProjectedFile { path: "k".into(), content: b"x".to_vec(), mode: 0o644, owner: None }];
        let pod = mounting(json!({}), json!([volume]));
        let known = VolumeFiles::from([("v".to_owned(), files.clone())]);
        let plan = plan_volumes(&pod, &settings(), &known, &ClaimedVolumes::new()).unwrap().remove(0).plan;
        let path = format!("/var/lib/kubelet/pods/u/volumes/kubernetes.io~{plugin}/v").into();
        assert_eq!(plan, VolumePlan::Files { path, storage, files, mount_points: vec![] });
        assert!(
            plan_volumes(&pod, &settings(), &VolumeFiles::new(), &ClaimedVolumes::new()).is_err(),
            "files nobody has were planned"
        );
    }
}

#[test]
fn plans_mount_points_inside_projected_volumes() {
    let mounts = |paths: &[(&str, &str)]| -> Value {
        paths.iter().map(|(name, path)| json!({"name": name, "mountPath": path})).collect()
    };
    let pod = pod(json!({
        "containers": [
            {"name": "a", "volumeMounts": mounts(&[("v", "/etc/x/"), ("o", "/etc/x/one"), ("o", "/etc/x/one/two"), ("o", "/etc/x-y")])},
            {"name": "b", "volumeMounts": mounts(&[("o", "/other/one"), ("v", "/other/./deep/.."), ("o", "/other/one-more")])},
        ],
    }));
    assert_eq!(mount_points::nested(&pod, "v"), Ok(vec!["one".into(), "one-more".into()]));
    assert_eq!(mount_points::nested(&pod, "unknown"), Ok(vec![]));
}

#[test]
fn fs_group_applies_to_own_volumes_only() {
    for (volume, expected) in [
        (json!({"name": "v", "emptyDir": {}}), Some(FsGroup { gid: 7, change: FsGroupChange::Always })),
        (json!({"name": "v", "hostPath": {"path": "/srv"}}), None),
    ] {
        let mut pod = mounting(json!({}), json!([volume]));
        let context = json!({"fsGroup": 7, "fsGroupChangePolicy": "OnRootMismatch"});
        pod.spec.security_context = Some(serde_json::from_value(context).unwrap());
        let planned = plan_volumes(&pod, &settings(), &VolumeFiles::new(), &ClaimedVolumes::new()).unwrap();
        assert_eq!(planned[0].fs_group, expected);
    }
}
