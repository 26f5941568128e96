use std::collections::HashMap;

use cri::v1::CdiDevice;

use super::*;

const JSON: &str = r#"{"cdiVersion":"0.6.0","kind":"vendor.com/gpu",
    "containerEdits":{"env":["ALL=1"],"additionalGids":[44,0]},
    "devices":[{"name":"0","containerEdits":{"env":["GPU=0"],
        "deviceNodes":[{"path":"/dev/gpu0","hostPath":"/dev/null","permissions":"rw"}],
        "mounts":[{"hostPath":"/usr/lib","containerPath":"/gpu","options":["ro","nosuid","rbind"]}]}},
      {"name":"1","containerEdits":{"env":["GPU=1"]}}]}"#;
const YAML: &str = "cdiVersion: 0.6.0\nkind: vendor.com/net\ndevices:\n- name: a\n  containerEdits:\n    deviceNodes:\n\
    \x20   - path: /dev/net-a\n      type: c\n      major: 10\n      minor: 200\n      fileMode: 384\n";

fn folders(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["etc", "run"].map(|name| folder.path().join(name));
    for path in &paths {
        fs::create_dir(path).unwrap();
    }
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    (folder, paths.into())
}

fn request(names: &[&str], annotations: &[(&str, &str)]) -> ContainerConfig {
    let owned = |text: &&str| (*text).to_owned();
    let cdi_devices = names.iter().map(|name| CdiDevice { name: owned(name) }).collect();
    let annotations: HashMap<String, String> =
        annotations.iter().map(|(key, value)| (owned(key), owned(value))).collect();
    ContainerConfig { cdi_devices, annotations, ..ContainerConfig::default() }
}

fn edits(config: &ContainerConfig, files: &[(&str, &str)]) -> Result<DeviceEdits, String> {
    let (_folder, paths) = folders(files);
    device_edits(config, &paths).map_err(|error| error.to_string())
}

#[test]
fn devices_bring_their_edits_and_those_of_the_specification_once() {
    let config =
        request(&["vendor.com/gpu=0"], &[("cdi.k8s.io/driver", "vendor.com/gpu=1, vendor.com/gpu=0")]);
    let edits = edits(&config, &[("etc/gpu.json", JSON)]).unwrap();
    assert_eq!(edits.environment, ["ALL=1", "GPU=0", "GPU=1"]);
    assert_eq!(edits.groups, [44]);
    let [device] = edits.devices.as_slice() else { panic!("{:?}", edits.devices) };
    assert_eq!(
        (device.node.path.as_path(), device.node.major, device.node.minor),
        (Path::new("/dev/gpu0"), 1, 3)
    );
    assert_eq!(device.access, DeviceAccess::parse("rw").unwrap());
    let [mount] = edits.mounts.as_slice() else { panic!("{:?}", edits.mounts) };
    assert!(mount.read_only && mount.attributes == BTreeSet::from([MountAttribute::NoSuid]));
}

#[test]
fn yaml_device_needs_no_device_of_the_host() {
    let edits = edits(&request(&["vendor.com/net=a"], &[]), &[("run/net.yaml", YAML)]).unwrap();
    let node = &edits.devices[0].node;
    assert_eq!((node.kind, node.major, node.minor, node.mode), (DeviceKind::Character, 10, 200, 0o600));
}

#[test]
fn later_folder_wins_and_equal_ones_conflict() {
    let other = JSON.replace("GPU=0", "OTHER=0");
    let config = request(&["vendor.com/gpu=0"], &[]);
    let found = edits(&config, &[("etc/gpu.json", JSON), ("run/gpu.json", &other)]).unwrap();
    assert_eq!(found.environment, ["ALL=1", "OTHER=0"]);
    let problem = edits(&config, &[("etc/a.json", JSON), ("etc/b.json", &other)]).unwrap_err();
    assert!(problem.contains("several specifications"), "{problem}");
}

#[test]
fn unknown_device_names_unreadable_specifications() {
    let config = request(&["vendor.com/gpu=9"], &[]);
    let problem =
        edits(&config, &[("etc/gpu.json", JSON), ("etc/bad.yaml", "kind: x\ndevices: 7\n")]).unwrap_err();
    assert!(problem.contains("vendor.com/gpu=9") && problem.contains("bad.yaml"), "{problem}");
    let problem = edits(&request(&["gpu"], &[]), &[]).unwrap_err();
    assert!(problem.contains("vendor/class=device"), "{problem}");
}

#[test]
fn edits_that_cannot_be_made_are_refused() {
    let hooked = JSON
        .replace(r#""env":["ALL=1"]"#, r#""hooks":[{"hookName":"createContainer","path":"/usr/bin/hook"}]"#);
    let config = request(&["vendor.com/gpu=0"], &[]);
    let problem = edits(&config, &[("etc/gpu.json", &hooked)]).unwrap_err();
    assert!(problem.contains("/usr/bin/hook"), "{problem}");
    let shared = JSON.replace("rbind", "rshared");
    let problem = edits(&config, &[("etc/gpu.json", &shared)]).unwrap_err();
    assert!(problem.contains("rshared"), "{problem}");
}

#[test]
fn request_without_devices_reads_nothing() {
    assert_eq!(edits(&request(&[], &[]), &[("etc/bad.json", "{")]), Ok(DeviceEdits::default()));
}
