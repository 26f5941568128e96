#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::environment::EnvironmentSources;
use crate::runtime_spec::pod_paths::tests::settings;

fn container(fields: Value) -> Container {
    let mut object = json!({"name": "c"});
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

fn volume(name: &str, plan: VolumePlan) -> PlannedVolume {
    PlannedVolume { name: name.to_owned(), plan, fs_group: None, label: model::VolumeLabel::None }
}

fn volumes() -> Vec<PlannedVolume> {
    vec![
        volume("data", VolumePlan::EmptyDir { path: "/pods/u/data".into() }),
        volume(
            "host",
            VolumePlan::HostPath { path: "/srv".into(), kind: model::HostPathKind::Any, read_only: false },
        ),
        volume(
            "files",
            VolumePlan::Files {
                path: "/pods/u/files".into(),
                storage: model::FileStorage::Disk,
                files: vec![],
                mount_points: vec![],
            },
        ),
        volume(
            "image",
            VolumePlan::Image {
                image: model::ImageSpec { user_specified_image: "web:1".into(), ..Default::default() },
                pull_policy: None,
            },
        ),
    ]
}

struct MountCase {
    container: Container,
    env: Vec<(String, String)>,
    files: bool,
    recursive: bool,
    settings: model::NodeSettings,
    volumes: Vec<PlannedVolume>,
}

impl MountCase {
    fn new(fields: Value) -> Self {
        Self {
            container: container(fields),
            env: vec![],
            files: false,
            recursive: false,
            settings: settings(),
            volumes: volumes(),
        }
    }

    fn mounts(&self) -> Result<Vec<Mount>, String> {
        let (hosts, log) = (Path::new("/pods/u/etc-hosts"), Path::new("/pods/u/containers/c/1a2b"));
        let inputs = ContainerInputs {
            pod: &crate::test_objects::pod(json!({"containers": []})),
            container: model::ContainerRef {
                kind: model::ContainerKind::Regular,
                container: &self.container,
            },
            restart_count: 0,
            image: &model::ImageStatus::default(),
            image_ref: "",
            pod_ips: &[],
            settings: &self.settings,
            volumes: &self.volumes,
            recursive_read_only: self.recursive,
            sources: &EnvironmentSources::default(),
            hosts_file: self.files.then_some(hosts),
            termination_log: self.files.then_some(log),
            target: None,
            volume_groups: &[],
        };
        mounts(&inputs, &self.env)
    }
}

fn check(fields: Value, expected: &[(&str, &str)]) {
    let mounts = MountCase { files: true, ..MountCase::new(fields.clone()) }.mounts().unwrap();
    let paths: Vec<_> =
        mounts.iter().map(|mount| (mount.host_path.as_str(), mount.container_path.as_str())).collect();
    assert_eq!(paths, expected, "{fields}");
}

#[test]
fn mounts_volumes_before_hosts_file_and_termination_log() {
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
fn volume_mount_replaces_hosts_file() {
    check(
        json!({"volumeMounts": [{"name": "data", "mountPath": "/etc/hosts"}]}),
        &[("/pods/u/data", "/etc/hosts")],
    );
}

#[test]
fn skips_files_that_are_not_set() {
    assert_eq!(
        MountCase::new(json!({"terminationMessagePath": "/dev/termination-log"})).mounts(),
        Ok(vec![])
    );
}

#[test]
fn sets_access_propagation_and_relabelling() {
    let case = MountCase::new(json!({"volumeMounts": [
        {"name": "data", "mountPath": "/a", "readOnly": true, "recursiveReadOnly": "IfPossible"},
        {"name": "host", "mountPath": "/b", "mountPropagation": "Bidirectional"},
        {"name": "host", "mountPath": "/c", "mountPropagation": "HostToContainer"},
    ]}));
    let mounts = case.mounts().unwrap();
    let attributes: Vec<_> =
        mounts.iter().map(|mount| (mount.readonly, mount.selinux_relabel, mount.propagation)).collect();
    assert_eq!(
        attributes,
        [
            (true, true, MountPropagation::Private),
            (false, false, MountPropagation::Bidirectional),
            (false, false, MountPropagation::HostToContainer),
        ]
    );
}

#[test]
fn no_relabelling_without_selinux() {
    let mut case = MountCase::new(json!({
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [{"name": "data", "mountPath": "/a"}],
    }));
    case.files = true;
    for enabled in [true, false] {
        case.settings.capabilities.selinux = enabled.then(model::ContainerLabels::default);
        let mounts = case.mounts().unwrap();
        assert_eq!(mounts.len(), 3);
        assert!(mounts.iter().all(|mount| mount.selinux_relabel == enabled));
    }
}

#[test]
fn volume_mounted_with_label_is_not_relabelled() {
    use model::VolumeLabel;
    for (label, expected) in [
        (VolumeLabel::None, true),
        (VolumeLabel::OfFiles, true),
        (VolumeLabel::OfMount("u:r:t:s0".into()), false),
    ] {
        let mut case = MountCase::new(json!({"volumeMounts": [{"name": "data", "mountPath": "/a"}]}));
        case.volumes.iter_mut().for_each(|volume| volume.label = label.clone());
        assert_eq!(case.mounts().unwrap()[0].selinux_relabel, expected, "{label:?}");
    }
}

#[test]
fn read_only_volume_is_not_relabelled() {
    for read_only in [true, false] {
        let local = VolumePlan::Local {
            path: "/v".into(),
            source: model::LocalSource { path: "/srv".into(), fs_type: "ext4".into(), claimed: None },
            read_only,
            options: vec![],
        };
        let disk = VolumePlan::Iscsi(Box::new(model::IscsiDisk {
            path: "/v".into(),
            name: "v".into(),
            portals: vec![],
            target: "iqn".into(),
            lun: 0,
            interface: "default".into(),
            initiator: None,
            chap: model::Chap::default(),
            attachment: String::new(),
            use_as: model::DiskUse::Files { fs_type: "ext4".into(), options: vec![] },
            read_only,
        }));
        let driven = VolumePlan::Csi(Box::new(model::CsiVolume {
            path: "/v".into(),
            spec_name: "pv".into(),
            driver: "d".into(),
            handle: "h".into(),
            lifecycle: model::CsiLifecycle::Persistent,
            access: model::CsiAccess::Files { fs_type: String::new(), options: vec![] },
            read_only,
            access_modes: vec![],
            attributes: std::collections::BTreeMap::new(),
            stage_secret: None,
            publish_secret: None,
            expand_secret: None,
            pod: model::CsiPod {
                name: "p".into(),
                namespace: "n".into(),
                uid: "u".into(),
                service_account: String::new(),
            },
            size: None,
        }));
        for plan in [local, disk, driven] {
            assert_eq!(is_relabelled(&plan), !read_only, "{plan:?}");
        }
    }
    assert!(is_relabelled(&volumes()[2].plan), "the agent's own files are always relabelled");
}

#[test]
fn file_and_image_volumes_are_read_only() {
    let case = MountCase::new(json!({"volumeMounts": [
        {"name": "files", "mountPath": "/a"},
        {"name": "image", "mountPath": "/b", "subPath": "bin"},
    ]}));
    let mounts = case.mounts().unwrap();
    assert!(mounts.iter().all(|mount| mount.readonly));
    assert_eq!((mounts[1].host_path.as_str(), mounts[1].image_sub_path.as_str()), ("", "bin"));
    assert_eq!(mounts[1].image.as_ref().unwrap().user_specified_image, "web:1");
    assert_eq!(mounts[1].sub_path, None);
}

#[test]
fn sub_path_target_contains_volume_container_and_index() {
    let mut case = MountCase::new(json!({"volumeMounts": [
        {"name": "host", "mountPath": "/all"},
        {"name": "data", "mountPath": "/part", "subPath": "a/b"},
        {"name": "host", "mountPath": "/own", "subPathExpr": "logs/$(NAME)-$$(X)"},
    ]}));
    case.env = vec![("NAME".into(), "web".into())];
    let mounts = case.mounts().unwrap();
    let folder = "/var/lib/kubelet/pods/u/volume-subpaths";
    let paths: Vec<_> = mounts.iter().map(|mount| mount.host_path.clone()).collect();
    assert_eq!(paths, ["/srv".to_owned(), format!("{folder}/data/c/1"), format!("{folder}/host/c/2")]);
    let parts: Vec<_> = mounts
        .iter()
        .filter_map(|mount| mount.sub_path.as_ref())
        .map(|part| (part.volume_path.to_str().unwrap(), part.path.to_str().unwrap()))
        .collect();
    assert_eq!(parts, [("/pods/u/data", "a/b"), ("/srv", "logs/web-$(X)")]);
}

#[test]
fn recursive_read_only_requires_runtime_support() {
    for (mode, recursive, expected) in [
        ("Disabled", true, Ok(false)),
        ("IfPossible", false, Ok(false)),
        ("IfPossible", true, Ok(true)),
        ("Enabled", true, Ok(true)),
        ("Enabled", false, Err("it is not supported by the runtime")),
        ("Perhaps", true, Err("unknown recursive read-only mode \"Perhaps\"")),
    ] {
        let mount = json!({"name": "data", "mountPath": "/a", "readOnly": true, "recursiveReadOnly": mode});
        let case = MountCase { recursive, ..MountCase::new(json!({"volumeMounts": [mount]})) };
        match (case.mounts(), expected) {
            (Ok(mounts), Ok(expected)) => assert_eq!(mounts[0].recursive_read_only, expected, "{mode}"),
            (Err(text), Err(expected)) => assert!(text.contains(expected), "{text}"),
            (found, expected) => panic!("{mode}: {found:?}, not {expected:?}"),
        }
    }
}

#[test]
fn rejects_invalid_mounts() {
    for (mount, text) in [
        (
            json!({"name": "nope", "mountPath": "/a"}),
            "cannot find volume \"nope\" to mount into container \"c\"",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "subPath": "/x"}),
            "error SubPath `/x` must not be an absolute path",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "subPath": "x/../../y"}),
            "unable to provision SubPath `x/../../y`: must not contain '..'",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "subPathExpr": "$(UP)/x"}),
            "unable to provision SubPath `../x`: must not contain '..'",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "subPathExpr": "$(B)/$(EMPTY)/$(A)"}),
            "missing value for A, B, EMPTY",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "mountPropagation": "Sideways"}),
            "invalid MountPropagation mode: \"Sideways\"",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "recursiveReadOnly": "Enabled"}),
            "failed to resolve recursive read-only mode: volume \"data\" requested recursive read-only mode, but it \
             is not read-only",
        ),
        (
            json!({"name": "data", "mountPath": "/a", "readOnly": true, "recursiveReadOnly": "IfPossible",
                "mountPropagation": "HostToContainer"}),
            "failed to resolve recursive read-only mode: volume \"data\" requested recursive read-only mode, but it \
             is not compatible with propagation \"HostToContainer\"",
        ),
    ] {
        let mut case = MountCase::new(json!({"volumeMounts": [mount]}));
        case.env = vec![("UP".into(), "..".into()), ("EMPTY".into(), String::new())];
        assert_eq!(case.mounts().unwrap_err(), text);
    }
}

#[test]
fn maps_block_volumes_to_devices() {
    let disk = |read_only| {
        let (path, source) = ("/pods/u/link".into(), "/dev/sdx".into());
        [volume("disk", VolumePlan::Device { path, source, read_only }), volumes().remove(0)]
    };
    for (fields, read_only, expected) in [
        (json!({"name": "disk", "devicePath": "/dev/x"}), false, Ok("mrw")),
        (json!({"name": "disk", "devicePath": "/dev/x"}), true, Ok("r")),
        (
            json!({"name": "disk", "devicePath": "dev/x"}),
            false,
            Err("error DevicePath `dev/x` must be an absolute path"),
        ),
        (
            json!({"name": "data", "devicePath": "/dev/x"}),
            false,
            Err("cannot find volume \"data\" to pass into container \"c\""),
        ),
    ] {
        let container = container(json!({"volumeDevices": [fields]}));
        let expected = expected.map(|permissions| {
            vec![Device {
                container_path: "/dev/x".to_owned(),
                host_path: "/pods/u/link".to_owned(),
                permissions: permissions.to_owned(),
            }]
        });
        assert_eq!(devices(&container, &disk(read_only)), expected.map_err(str::to_owned));
    }
}
