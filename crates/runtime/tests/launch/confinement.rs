//! The view that a container has of itself.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use runtime::keeper::protocol::Response;
use runtime::launcher::capabilities::{requested_set, set_of_mask};
use runtime::launcher::seccomp::{Filter, Profile};
use runtime::launcher::*;

use crate::pod::{Pod, default_filter, held_capabilities, process};

fn bind(
    source: &std::path::Path,
    destination: &str,
    access: MountAccess,
    propagation: Propagation,
) -> MountSpec {
    MountSpec {
        destination: PathBuf::from(destination),
        source: MountSource::Bind { path: source.to_owned(), propagation },
        attributes: BTreeSet::new(),
        access,
        owners: FileOwners::Unchanged,
    }
}

#[test]
#[ignore = "needs root"]
fn default_capabilities_equal_those_of_other_runtimes() {
    let mut pod = Pod::new();
    let spec = pod.spec("grep Cap /proc/self/status; sleep 100");
    pod.run(&spec);
    let expected = "CapInh:\t0000000000000000\nCapPrm:\t00000000a80425fb\nCapEff:\t00000000a80425fb\n\
                    CapBnd:\t00000000a80425fb\nCapAmb:\t0000000000000000\n";
    let (_, in_exec) = pod.exec(&spec.id, process("grep Cap /proc/self/status")).unwrap();
    assert_eq!(in_exec, expected);
    assert_eq!(pod.log(&spec.id), expected);
}

#[test]
#[ignore = "needs root"]
fn user_groups_and_privileges_are_those_of_the_request() {
    let mut pod = Pod::new();
    let mut spec = pod.spec(
        "id -u; id -g; grep -E '^(Groups|NoNewPrivs|CapEff|CapBnd):' /proc/self/status; echo x > /dev/stdout",
    );
    spec.process.user = User { uid: 1000, gid: 50, groups: vec![50, 1234] };
    spec.process.new_privileges = NewPrivileges::Forbidden;
    spec.process.capabilities =
        requested_set(&["NET_BIND_SERVICE".into()], &["ALL".into()], &set_of_mask(u64::MAX));
    let (code, output) = pod.output(&spec);
    assert_eq!(
        (code, output.as_str()),
        (
            0,
            "1000\n50\nGroups:\t50 1234 \nCapEff:\t0000000000000000\nCapBnd:\t0000000000000400\nNoNewPrivs:\t1\nx\n"
        )
    );
}

#[test]
#[ignore = "needs root"]
fn default_filter_is_active_in_first_process_and_exec() {
    let mut pod = Pod::new();
    for privileges in [NewPrivileges::Allowed, NewPrivileges::Forbidden] {
        let mut spec = pod.spec("grep Seccomp: /proc/self/status; sleep 100");
        spec.process.seccomp = Some(default_filter());
        spec.process.new_privileges = privileges;
        pod.run(&spec);
        let mut exec = process("grep Seccomp: /proc/self/status; mkdir /m; mount -t tmpfs none /m");
        exec.seccomp = Some(default_filter());
        exec.new_privileges = privileges;
        let (exit, output) = pod.exec(&spec.id, exec).unwrap();
        assert!(output.starts_with("Seccomp:\t2\n") && output.contains("permission denied"), "{output}");
        assert_ne!(exit.code, 0);
        assert_eq!(pod.log(&spec.id), "Seccomp:\t2\n");
    }
}

#[test]
#[ignore = "needs root"]
fn local_profile_refuses_its_system_calls() {
    let mut pod = Pod::new();
    let profile = Profile::from_json(
        br#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
            {"names":["chmod","fchmod","fchmodat","fchmodat2"],"action":"SCMP_ACT_ERRNO","errnoRet":22}]}"#,
    );
    let mut spec = pod.spec("touch /tmp/f && chmod 700 /tmp/f");
    spec.process.seccomp = Some(Filter::compile(&profile.unwrap()).unwrap());
    let (code, output) = pod.output(&spec);
    assert_eq!(code, 1);
    assert!(output.contains("Invalid argument"), "{output}");
}

#[test]
#[ignore = "needs root"]
fn own_cgroup_namespace_hides_the_paths_of_the_host() {
    let mut pod = Pod::new();
    let script = "busybox cut -d: -f3 /proc/self/cgroup | busybox sort -u";
    let mut spec = pod.spec(&format!("{script}; sleep 100"));
    spec.namespaces.cgroup = CgroupNamespace::New;
    pod.run(&spec);
    let (_, in_exec) = pod.exec(&spec.id, process(script)).unwrap();
    assert_eq!(pod.log(&spec.id), "/\n");
    // A process that is executed later has a separate cgroup in one hierarchy.
    assert!(in_exec.lines().all(|path| path == "/" || path.starts_with("/exec-")), "{in_exec}");
    let shared = pod.spec(script);
    let (_, output) = pod.output(&shared);
    assert!(output.contains(&shared.id), "{output}");
}

#[test]
#[ignore = "needs root"]
fn masked_and_read_only_paths_are_enforced() {
    let mut pod = Pod::new();
    let mut spec = pod.spec(
        "cat /etc/secret | wc -c; ls /etc/folder | wc -l; touch /etc/folder/x; touch /etc/fixed/x; \
         echo 1 > /proc/sys/kernel/panic; echo b > /proc/sysrq-trigger; echo still here",
    );
    fs::write(spec.root.join("etc/secret"), "text").unwrap();
    fs::create_dir(spec.root.join("etc/folder")).unwrap();
    fs::create_dir(spec.root.join("etc/fixed")).unwrap();
    fs::write(spec.root.join("etc/folder/file"), "text").unwrap();
    spec.masked_paths.extend([PathBuf::from("/etc/secret"), "/etc/folder".into(), "/etc/absent".into()]);
    spec.readonly_paths.push("/etc/fixed".into());
    let (_, output) = pod.output(&spec);
    let (errors, plain): (Vec<&str>, Vec<&str>) = output.lines().partition(|line| line.starts_with("E "));
    assert_eq!(plain, ["0", "0", "still here"], "{output}");
    assert_eq!(errors.iter().filter(|line| line.contains("Read-only file system")).count(), 3, "{output}");
}

#[test]
#[ignore = "needs root"]
fn read_only_root_keeps_volumes_writable() {
    let mut pod = Pod::new();
    let volume = tempfile::tempdir().unwrap();
    let mut spec =
        pod.spec("touch /file; touch /volume/file; touch /fixed/file; touch /dev/shm 2>/dev/null; echo end");
    spec.root_access = Access::ReadOnly;
    spec.mounts.push(bind(volume.path(), "/volume", MountAccess::ReadWrite, Propagation::Private));
    spec.mounts.push(bind(volume.path(), "/fixed", MountAccess::ReadOnly, Propagation::Private));
    let (_, output) = pod.output(&spec);
    assert_eq!(output.matches("Read-only file system").count(), 2, "{output}");
    assert!(volume.path().join("file").exists());
    assert!(!spec.root.join("file").exists());
}

#[test]
#[ignore = "needs root"]
fn mounts_propagate_as_requested() {
    let mut pod = Pod::new();
    let shared = tempfile::tempdir().unwrap();
    let place = shared.path();
    rustix::mount::mount("none", place, "tmpfs", rustix::mount::MountFlags::empty(), None::<&std::ffi::CStr>)
        .unwrap();
    rustix::mount::mount_change(place, rustix::mount::MountPropagationFlags::SHARED).unwrap();
    for folder in ["from-host", "from-container", "private"] {
        fs::create_dir(place.join(folder)).unwrap();
    }
    let mut spec =
        pod.spec("mount -t tmpfs none /both/from-container && mount -t tmpfs none /own/private; sleep 100");
    spec.process.capabilities = held_capabilities();
    spec.mounts.push(bind(place, "/both", MountAccess::ReadWrite, Propagation::Bidirectional));
    spec.mounts.push(bind(place, "/down", MountAccess::ReadWrite, Propagation::HostToContainer));
    spec.mounts.push(bind(place, "/own", MountAccess::ReadWrite, Propagation::Private));
    pod.run(&spec);
    let mounted = |name: &str| {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.contains(&format!(" {} ", place.join(name).display()))
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while !mounted("from-container") && std::time::Instant::now() < deadline {}
    let from_container = mounted("from-container");
    let target = place.join("from-host");
    rustix::mount::mount(
        "none",
        &target,
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        None::<&std::ffi::CStr>,
    )
    .unwrap();
    let script = "grep -c from-host /proc/self/mountinfo; grep -c ' /own/from-host' /proc/self/mountinfo";
    let (_, seen) = pod.exec(&spec.id, process(script)).unwrap();
    let private = mounted("private");
    drop(pod);
    for name in ["from-host", "from-container", ""] {
        let _ = rustix::mount::unmount(place.join(name), rustix::mount::UnmountFlags::DETACH);
    }
    assert!(from_container, "a mount of the container appears on the host");
    assert!(!private, "a mount below a private volume stays in the container");
    assert_eq!(seen, "2\n0\n");
}

#[test]
#[ignore = "needs root"]
fn propagation_needs_a_shared_source() {
    let mut pod = Pod::new();
    let folder = tempfile::tempdir().unwrap();
    rustix::mount::mount(
        "none",
        folder.path(),
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        None::<&std::ffi::CStr>,
    )
    .unwrap();
    rustix::mount::mount_change(folder.path(), rustix::mount::MountPropagationFlags::PRIVATE).unwrap();
    let mut spec = pod.spec("true");
    spec.mounts.push(bind(folder.path(), "/both", MountAccess::ReadWrite, Propagation::Bidirectional));
    let response = pod.create(&spec);
    rustix::mount::unmount(folder.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(
        matches!(&response, Response::Failed { message, .. } if message.contains("is not on a shared mount")),
        "{response:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn recursive_read_only_covers_mounts_below() {
    let mut pod = Pod::new();
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("below");
    fs::create_dir(&below).unwrap();
    rustix::mount::mount(
        "none",
        &below,
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        None::<&std::ffi::CStr>,
    )
    .unwrap();
    let mut spec = pod.spec("touch /plain/below/a; touch /full/below/b");
    spec.mounts.push(bind(folder.path(), "/plain", MountAccess::ReadOnly, Propagation::Private));
    spec.mounts.push(bind(folder.path(), "/full", MountAccess::RecursivelyReadOnly, Propagation::Private));
    let (_, output) = pod.output(&spec);
    let made = (below.join("a").exists(), below.join("b").exists());
    rustix::mount::unmount(&below, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(made, (true, false), "{output}");
    assert!(output.contains("/full/below/b: Read-only file system"), "{output}");
}

#[test]
#[ignore = "needs root"]
fn requested_device_is_made_with_owner_and_mode() {
    let mut pod = Pod::new();
    let mut spec = pod.spec("stat -c '%t:%T %a %u:%g %F' /dev/net/tun /dev/null; ls -d /dev/fd /dev/ptmx");
    spec.devices = DeviceNodes::StandardAnd(vec![DeviceNode {
        path: "/dev/net/tun".into(),
        host_path: "/dev/net/tun".into(),
        kind: DeviceKind::Character,
        major: 10,
        minor: 200,
        mode: 0o640,
        uid: 5,
        gid: 6,
    }]);
    let (_, output) = pod.output(&spec);
    assert_eq!(
        output,
        "a:c8 640 5:6 character special file\n1:3 666 0:0 character special file\n/dev/fd\n/dev/ptmx\n"
    );
}

#[test]
#[ignore = "needs root"]
fn signals_and_limits_are_not_inherited_from_the_keeper() {
    let mut pod = Pod::new();
    let mut spec = pod.spec("grep -E '^(SigIgn|SigBlk):' /proc/self/status; ulimit -n; umask; pwd");
    spec.process.directory = "/made/here".into();
    spec.process.resource_limits =
        vec![ResourceLimit { kind: LimitKind::OpenFiles, soft: 777, hard: u64::MAX }];
    let (code, output) = pod.output(&spec);
    assert_eq!(
        (code, output.as_str()),
        (0, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n777\n0022\n/made/here\n")
    );
    let made = fs::metadata(spec.root.join("made/here")).unwrap();
    assert_eq!((made.uid(), made.permissions().mode() & 0o777), (0, 0o755));
}
