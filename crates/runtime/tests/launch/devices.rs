//! Device rules of both versions of cgroups, enforced by the kernel.

use std::path::{Path, PathBuf};

use runtime::cgroups::{
    CgroupLayout, ContainerCgroup, DeviceAccess, DeviceRule, DeviceType, default_device_rules,
};
use runtime::launcher::{DeviceKind, DeviceNode, DeviceNodes};

use crate::pod::Pod;

const SCRIPT: &str = "for name in null zero full urandom ptmx fuse loop-control; do \
                      (: < /dev/$name) 2>/dev/null && echo $name; done; \
                      mknod /tmp/disk b 7 0 && echo made; (: < /tmp/disk) && echo opened";

/// Opens devices in a container whose rules are enforced by `layout`.
fn opened_devices(layout: &CgroupLayout, rules: &[DeviceRule]) -> String {
    let mut pod = Pod::new();
    let mut spec = pod.spec(SCRIPT);
    let node = |name: &str, major, minor| DeviceNode {
        path: PathBuf::from("/dev").join(name),
        host_path: PathBuf::from("/dev").join(name),
        kind: DeviceKind::Character,
        major,
        minor,
        mode: 0o666,
        uid: 0,
        gid: 0,
    };
    spec.devices = DeviceNodes::StandardAnd(vec![node("fuse", 10, 229), node("loop-control", 10, 237)]);
    let cgroup = ContainerCgroup::make(layout, &Path::new("podward-test").join(&spec.id)).unwrap();
    cgroup.restrict_devices(rules).unwrap();
    spec.cgroups.retain(|directory| !cgroup.directories().contains(directory));
    spec.cgroups.extend(cgroup.directories());
    let (_, output) = pod.output(&spec);
    drop(pod);
    cgroup.remove().unwrap();
    output
}

fn check(layout: &CgroupLayout) {
    let output = opened_devices(layout, &default_device_rules());
    assert_eq!(
        output,
        "null\nzero\nfull\nurandom\nptmx\nmade\nE sh: can't open /tmp/disk: Operation not permitted\n"
    );
    let mut rules = default_device_rules();
    rules.push(DeviceRule {
        kind: DeviceType::Character,
        major: Some(10),
        minor: Some(237),
        access: DeviceAccess::parse("rw").unwrap(),
    });
    let output = opened_devices(layout, &rules);
    assert!(!output.contains("fuse"), "{output}");
}

fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap()
}

#[test]
#[ignore = "needs root"]
fn kernel_enforces_rules_of_this_machines_layout() {
    check(&CgroupLayout::parse(&mounts()).unwrap());
}

/// The program of version 2 is also enforced in a hierarchy without controllers.
#[test]
#[ignore = "needs root"]
fn kernel_enforces_the_device_program() {
    let mounts = mounts();
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 ")).unwrap();
    check(&CgroupLayout::V2 { mount: PathBuf::from(line.split(' ').nth(4).unwrap()) });
}
