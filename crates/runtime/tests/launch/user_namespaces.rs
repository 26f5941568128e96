//! User namespaces: mappings, owners of files, and what root of the namespace cannot do.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use runtime::keeper::protocol::{FailureKind, Request, Response};
use runtime::launcher::*;

use crate::pod::{Pod, default_filter, held_capabilities, process};

const HOST_ID: u32 = 300_000;
const IDS: IdMappings = IdMappings {
    uids: IdRange { container: 0, host: HOST_ID, length: 65_536 },
    gids: IdRange { container: 0, host: HOST_ID, length: 65_536 },
};

/// The pinned namespaces of a pod; the pins are removed at the end.
pub(crate) struct Pinned(pub(crate) PodNamespaces);

impl Drop for Pinned {
    fn drop(&mut self) {
        let PodNamespaces { user, network, ipc, uts } = &self.0;
        for path in user.iter().map(|user| &user.path).chain(network).chain(ipc).chain(uts) {
            let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

pub(crate) fn make_namespaces(pod: &mut Pod) -> Pinned {
    let folder = pod.folder.path().to_owned();
    let path = |name: &str| folder.join(name);
    let namespaces = PodNamespaces {
        user: Some(UserNamespace { path: path("user"), ids: IDS }),
        network: Some(path("net")),
        ipc: Some(path("ipc")),
        uts: Some(path("uts")),
    };
    let pinned = Pinned(namespaces.clone());
    assert_eq!(pod.ask(&Request::MakeNamespaces(namespaces)), Response::Done);
    pinned
}

/// A container in the pod's namespaces, whose root belongs to root of the namespace.
pub(crate) fn spec_in(pod: &mut Pod, pinned: &Pinned, script: &str) -> ContainerSpec {
    let mut spec = pod.spec(script);
    let PodNamespaces { user, network, ipc, uts } = pinned.0.clone();
    spec.namespaces =
        Namespaces { network, ipc, uts, pid: PidNamespace::New, cgroup: CgroupNamespace::Host, user };
    spec.root_owners = FileOwners::Mapped;
    spec
}

fn bind(source: &Path, destination: &str, owners: FileOwners) -> MountSpec {
    MountSpec {
        destination: PathBuf::from(destination),
        source: MountSource::Bind { path: source.to_owned(), propagation: Propagation::Private },
        attributes: Default::default(),
        access: MountAccess::ReadWrite,
        owners,
    }
}

#[test]
#[ignore = "needs root"]
fn container_and_exec_run_with_the_mappings() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let show = "cat /proc/self/uid_map /proc/self/gid_map | tr -s ' '; id -u; grep -E '^(CapEff|CapBnd):' /proc/self/status";
    let spec = spec_in(&mut pod, &pinned, &format!("{show}; sleep 100"));
    let pid = pod.run(&spec);
    let expected = format!(
        " 0 {HOST_ID} 65536\n 0 {HOST_ID} 65536\n0\nCapEff:\t00000000a80425fb\nCapBnd:\t00000000a80425fb\n"
    );
    let (exit, in_exec) = pod.exec(&spec.id, process(show)).unwrap();
    assert_eq!((exit.code, in_exec.as_str()), (0, expected.as_str()));
    while pod.log(&spec.id).len() < expected.len() {
        std::thread::yield_now();
    }
    assert_eq!(pod.log(&spec.id), expected);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.contains(&format!("Uid:\t{HOST_ID}\t{HOST_ID}\t")), "{status}");
    for (kind, file) in [("user", "user"), ("net", "net"), ("ipc", "ipc"), ("uts", "uts")] {
        let own = fs::metadata(format!("/proc/{pid}/ns/{kind}")).unwrap().ino();
        assert_eq!(own, fs::metadata(pod.folder.path().join(file)).unwrap().ino(), "{kind}");
    }
}

#[test]
#[ignore = "needs root"]
fn mapped_mounts_keep_owners_on_disk_and_inside_equal() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let volume = tempfile::tempdir().unwrap();
    fs::write(volume.path().join("given"), "").unwrap();
    chown(volume.path().join("given"), Some(1000), Some(50)).unwrap();
    let plain = tempfile::tempdir().unwrap();
    let mut spec = spec_in(
        &mut pod,
        &pinned,
        "stat -c '%u:%g' /volume/given /plain /bin/busybox; touch /volume/made /tmp/made; \
         touch /plain/refused; stat -c '%u:%g' /volume/made",
    );
    spec.mounts.push(bind(volume.path(), "/volume", FileOwners::Mapped));
    spec.mounts.push(bind(plain.path(), "/plain", FileOwners::Unchanged));
    let (_, log) = pod.output(&spec);
    let expected = "1000:50\n65534:65534\n0:0\nE touch: /plain/refused: Permission denied\n0:0\n";
    let mut lines: Vec<_> = log.lines().collect();
    let mut expected: Vec<_> = expected.lines().collect();
    // The order of the two streams is not certain.
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    for made in [volume.path().join("made"), spec.root.join("tmp/made")] {
        let made = fs::metadata(made).unwrap();
        assert_eq!((made.uid(), made.gid()), (0, 0));
    }
}

#[test]
#[ignore = "needs root"]
fn other_user_owns_its_streams_and_files() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let volume = tempfile::tempdir().unwrap();
    fs::set_permissions(volume.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mut spec = spec_in(&mut pod, &pinned, "echo again > /dev/stdout; touch /volume/file; id -u; id -g");
    spec.process.user = User { uid: 1000, gid: 50, groups: vec![50] };
    spec.mounts.push(bind(volume.path(), "/volume", FileOwners::Mapped));
    assert_eq!(pod.output(&spec), (0, "again\n1000\n50\n".to_owned()));
    let made = fs::metadata(volume.path().join("file")).unwrap();
    assert_eq!((made.uid(), made.gid()), (1000, 50));
    spec = spec_in(&mut pod, &pinned, "true");
    spec.process.user.uid = 70_000;
    let response = pod.create(&spec);
    assert!(
        matches!(&response, Response::Failed { message, .. } if message.contains("70000:0 is not mapped")),
        "{response:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn devices_masks_filter_and_terminal_work() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let mut spec = spec_in(
        &mut pod,
        &pinned,
        "echo x > /dev/null && head -c 3 /dev/zero | wc -c; cat /etc/secret | wc -c; \
         (echo 1 > /proc/sys/kernel/panic) 2>/dev/null || echo refused; grep Seccomp: /proc/self/status; \
         test -t 0 && stat -c '%u:%g' /dev/console; mount -t tmpfs none /tmp 2>/dev/null || echo no mount",
    );
    fs::write(spec.root.join("etc/secret"), "text").unwrap();
    spec.masked_paths.extend([PathBuf::from("/etc/secret"), "/tmp".into()]);
    spec.process.terminal = Terminal::New;
    spec.process.seccomp = Some(default_filter());
    spec.devices = DeviceNodes::StandardAnd(vec![DeviceNode {
        path: "/dev/own/zero".into(),
        host_path: "/dev/zero".into(),
        kind: DeviceKind::Character,
        major: 1,
        minor: 5,
        mode: 0o666,
        uid: 0,
        gid: 0,
    }]);
    let (code, log) = pod.output(&spec);
    assert_eq!((code, log.as_str()), (0, "3\n0\nrefused\nSeccomp:\t2\n0:5\nno mount\n"));
}

#[test]
#[ignore = "needs root"]
fn host_device_of_another_number_is_refused() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let mut spec = spec_in(&mut pod, &pinned, "true");
    spec.devices = DeviceNodes::StandardAnd(vec![DeviceNode {
        path: "/dev/fuse".into(),
        host_path: "/dev/zero".into(),
        kind: DeviceKind::Character,
        major: 10,
        minor: 229,
        mode: 0o666,
        uid: 0,
        gid: 0,
    }]);
    let response = pod.create(&spec);
    assert!(
        matches!(&response, Response::Failed { message, .. } if message.contains("not the requested device")),
        "{response:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn root_of_the_namespace_is_not_root_of_the_host() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("file"), "secret").unwrap();
    fs::set_permissions(secret.path().join("file"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    let keeper = pod.keeper_pid();
    let mut spec = spec_in(
        &mut pod,
        &pinned,
        &format!(
            "cat /secret/file 2>/dev/null || echo unreadable; mknod /tmp/disk b 7 0 2>/dev/null || echo no device; \
             hostname changed && hostname; kill -9 {keeper} 2>/dev/null || echo no signal; \
             mount -o remount,bind,rw /proc/sys 2>/dev/null; (echo 1 > /proc/sys/kernel/panic) 2>/dev/null || echo fixed"
        ),
    );
    spec.process.capabilities = held_capabilities();
    spec.mounts.push(bind(secret.path(), "/secret", FileOwners::Unchanged));
    let before = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (_, log) = pod.output(&spec);
    assert_eq!(log, "unreadable\nno device\nchanged\nno signal\nfixed\n");
    assert_eq!(fs::read_to_string("/proc/sys/kernel/hostname").unwrap(), before);
}

#[test]
#[ignore = "needs root"]
fn host_network_shows_the_hosts_sysfs_read_only() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let mut spec = spec_in(
        &mut pod,
        &pinned,
        "test -d /sys/class/net && touch /sys/x; grep -c ' /sys ro,' /proc/self/mountinfo",
    );
    spec.namespaces.network = None;
    let (_, log) = pod.output(&spec);
    assert!(log.contains("touch: /sys/x: Read-only") && log.lines().any(|line| line == "1"), "{log}");
}

#[test]
#[ignore = "needs root"]
fn file_system_without_mapped_owners_is_an_error() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let mut spec = spec_in(&mut pod, &pinned, "true");
    spec.mounts.push(bind(Path::new("/proc/self/task"), "/volume", FileOwners::Mapped));
    let response = pod.create(&spec);
    assert!(
        matches!(&response, Response::Failed { kind: FailureKind::Launch, message } if message.contains("does not support mapped owners")),
        "{response:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn bidirectional_mount_is_refused() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let volume = tempfile::tempdir().unwrap();
    let mut spec = spec_in(&mut pod, &pinned, "true");
    let mut mount = bind(volume.path(), "/volume", FileOwners::Mapped);
    mount.source =
        MountSource::Bind { path: volume.path().to_owned(), propagation: Propagation::Bidirectional };
    spec.mounts.push(mount);
    let response = pod.create(&spec);
    assert!(
        matches!(&response, Response::Failed { message, .. } if message.contains("must not mount on the host")),
        "{response:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn pod_namespaces_without_user_namespace_are_made_and_pinned() {
    let mut pod = Pod::new();
    let path = pod.folder.path().join("uts");
    let namespaces = PodNamespaces { user: None, network: None, ipc: None, uts: Some(path.clone()) };
    let pinned = Pinned(namespaces.clone());
    assert_eq!(pod.ask(&Request::MakeNamespaces(namespaces)), Response::Done);
    let mut spec = pod.spec("readlink /proc/self/ns/uts");
    spec.namespaces.uts = Some(path.clone());
    let (_, log) = pod.output(&spec);
    assert_eq!(log, format!("uts:[{}]\n", fs::metadata(path).unwrap().ino()));
    drop(pinned);
}

#[test]
#[ignore = "needs root"]
fn mapping_without_root_is_refused_and_nothing_is_pinned() {
    let mut pod = Pod::new();
    let path = pod.folder.path().join("user");
    let range = IdRange { container: 1, host: HOST_ID, length: 10 };
    let user = UserNamespace { path: path.clone(), ids: IdMappings { uids: range, gids: range } };
    let namespaces = PodNamespaces { user: Some(user), network: None, ipc: None, uts: None };
    let response = pod.ask(&Request::MakeNamespaces(namespaces));
    assert!(
        matches!(&response, Response::Failed { message, .. } if message.contains("id 0")),
        "{response:?}"
    );
    assert!(!path.exists());
}

#[test]
#[ignore = "needs root"]
fn lost_pin_is_an_error() {
    let mut pod = Pod::new();
    let path = pod.folder.path().join("user");
    fs::write(&path, "").unwrap();
    let mut spec = pod.spec("true");
    spec.namespaces.user = Some(UserNamespace { path, ids: IDS });
    let response = pod.create(&spec);
    assert!(
        matches!(&response, Response::Failed { message, .. } if message.contains("is not a namespace")),
        "{response:?}"
    );
}
