//! Attempts to leave a container.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use runtime::keeper::protocol::Response;
use runtime::launcher::*;

use crate::pod::{Pod, held_capabilities, process};

#[test]
#[ignore = "needs root"]
fn program_that_starts_containers_cannot_be_overwritten() {
    let mut pod = Pod::new();
    let program = fs::read(env!("CARGO_BIN_EXE_podward-keeper")).unwrap();
    let keeper = pod.keeper_pid();
    let mut spec = pod.spec(&format!(
        "readlink /proc/{keeper}/exe; chmod 777 /proc/{keeper}/exe; for i in 1 2 3; do echo x > /proc/{keeper}/exe; done"
    ));
    // The most powerful container possible.
    spec.namespaces.pid = PidNamespace::Host;
    spec.process.capabilities = held_capabilities();
    let (_, output) = pod.output(&spec);
    assert!(output.starts_with("/memfd:podward-keeper"), "{output}");
    assert_eq!(output.matches("E sh: can't create").count(), 3, "{output}");
    assert_eq!(fs::read(env!("CARGO_BIN_EXE_podward-keeper")).unwrap(), program);
}

#[test]
#[ignore = "needs root"]
fn no_descriptor_of_the_keeper_is_left() {
    let mut pod = Pod::new();
    let first = pod.spec("sleep 100");
    pod.run(&first);
    let spec = pod.spec("ls /proc/self/fd; sleep 100");
    pod.run(&spec);
    // 3 is the open folder of ls.
    let (_, output) = pod.exec(&spec.id, process("ls /proc/self/fd")).unwrap();
    assert_eq!(output, "0\n1\n2\n3\n");
    assert_eq!(pod.log(&spec.id), "0\n1\n2\n3\n");
}

#[test]
#[ignore = "needs root"]
fn working_directory_behind_a_descriptor_is_refused() {
    let mut pod = Pod::new();
    for number in 3..12 {
        let mut spec = pod.spec("pwd");
        spec.process.directory = PathBuf::from(format!("/proc/self/fd/{number}"));
        let response = pod.create(&spec);
        assert!(matches!(response, Response::Failed { .. }), "{number}: {response:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn image_with_symlinks_for_kernel_directories_is_refused() {
    let mut pod = Pod::new();
    for name in ["proc", "sys", "dev"] {
        let spec = pod.spec("true");
        fs::create_dir(spec.root.join("elsewhere")).unwrap();
        symlink("elsewhere", spec.root.join(name)).unwrap();
        let response = pod.create(&spec);
        // A symlinked /dev is refused when devices are made in it.
        assert!(matches!(response, Response::Failed { .. }), "{name}: {response:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn mount_destination_cannot_leave_the_root_or_enter_proc() {
    let mut pod = Pod::new();
    let outside = tempfile::tempdir().unwrap();
    let volume = tempfile::tempdir().unwrap();
    for destination in ["/", "/proc", "/proc/self", "/proc/sys/kernel", "/../etc/x/../../y"] {
        let mut spec = pod.spec("true");
        spec.mounts.push(MountSpec {
            destination: destination.into(),
            source: MountSource::Bind { path: volume.path().to_owned(), propagation: Propagation::Private },
            attributes: BTreeSet::new(),
            access: MountAccess::ReadWrite,
            owners: FileOwners::Unchanged,
        });
        let response = pod.create(&spec);
        assert!(matches!(response, Response::Failed { .. }), "{destination}: {response:?}");
    }
    let mut spec = pod.spec("ls -a /link");
    symlink(outside.path(), spec.root.join("link")).unwrap();
    spec.mounts.push(MountSpec {
        destination: "/link/made".into(),
        source: MountSource::Bind { path: volume.path().to_owned(), propagation: Propagation::Private },
        attributes: BTreeSet::new(),
        access: MountAccess::ReadWrite,
        owners: FileOwners::Unchanged,
    });
    let _ = pod.create(&spec);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// A second container of the pod that shares a volume can exchange directories while the first one is created.
#[test]
#[ignore = "needs root"]
fn exchanged_symlinks_during_set_up_make_nothing_on_the_host() {
    let mut pod = Pod::new();
    let outside = tempfile::tempdir().unwrap();
    let shared = tempfile::tempdir().unwrap();
    let volume = tempfile::tempdir().unwrap();
    fs::create_dir(shared.path().join("a")).unwrap();
    symlink(outside.path(), shared.path().join("b")).unwrap();
    symlink("../../../../../../../..", shared.path().join("c")).unwrap();
    let stop = AtomicBool::new(false);
    let (first, second, third) = (shared.path().join("a"), shared.path().join("b"), shared.path().join("c"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for other in [&second, &third] {
                    let _ = rustix::fs::renameat_with(
                        rustix::fs::CWD,
                        &first,
                        rustix::fs::CWD,
                        other,
                        rustix::fs::RenameFlags::EXCHANGE,
                    );
                }
            }
        });
        let mut created = 0;
        let template = pod.spec("true");
        for round in 0..300 {
            let mut spec = template.clone();
            let bind = |path: &std::path::Path, destination: String| MountSpec {
                destination: destination.into(),
                source: MountSource::Bind { path: path.to_owned(), propagation: Propagation::Private },
                attributes: BTreeSet::new(),
                access: MountAccess::ReadWrite,
                owners: FileOwners::Unchanged,
            };
            spec.mounts.push(bind(shared.path(), "/shared".to_owned()));
            spec.mounts.push(bind(volume.path(), format!("/shared/a/escape-{round}/deep")));
            if pod.create(&spec) == Response::Done {
                created += 1;
                pod.ask(&runtime::keeper::protocol::Request::Remove { container: spec.id.clone() });
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(created > 0);
    });
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    let escaped = |entry: std::io::Result<fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().starts_with("escape-")
    };
    assert!(!fs::read_dir("/").unwrap().any(escaped));
}

#[test]
#[ignore = "needs root"]
fn cgroup_files_are_read_only() {
    let mut pod = Pod::new();
    let spec = pod.spec(
        "cd /sys/fs/cgroup/memory && cat memory.limit_in_bytes && echo 1000000000 > memory.limit_in_bytes; \
         mkdir /sys/fs/cgroup/memory/x; mkdir /sys/fs/cgroup/y; cat cgroup.procs | wc -l",
    );
    let memory = spec.cgroups.iter().find(|folder| folder.join("memory.oom_control").exists()).unwrap();
    fs::write(memory.join("memory.limit_in_bytes"), "67108864").unwrap();
    let (_, output) = pod.output(&spec);
    assert!(output.contains("67108864\n"), "{output}");
    assert_eq!(output.matches("Read-only file system").count(), 3, "{output}");
    assert_eq!(fs::read_to_string(memory.join("memory.limit_in_bytes")).unwrap(), "67108864\n");
}

#[test]
#[ignore = "needs root"]
fn null_device_replaced_by_a_symlink_is_not_used_as_a_mask() {
    let mut pod = Pod::new();
    let mut spec = pod.spec("cat /etc/secret");
    // The request brings its own /dev, in which the image has the file.
    spec.mounts.retain(|mount| !mount.destination.starts_with("/dev"));
    spec.devices = DeviceNodes::None;
    fs::create_dir(spec.root.join("dev")).unwrap();
    fs::write(spec.root.join("etc/secret"), "text").unwrap();
    symlink("/etc/secret", spec.root.join("dev/null")).unwrap();
    spec.masked_paths.push("/etc/secret".into());
    let response = pod.create(&spec);
    assert!(
        matches!(&response, Response::Failed { message, .. } if message.contains("not the null device")),
        "{response:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn session_keys_are_not_shared() {
    let mut pod = Pod::new();
    let mut specs = Vec::new();
    for _ in 0..2 {
        let mut spec = pod.spec("sleep 100");
        spec.masked_paths.clear();
        pod.run(&spec);
        specs.push(spec);
    }
    let ids: Vec<String> = specs.iter().map(|spec| spec.id.clone()).collect();
    for spec in &specs {
        let (_, rings) = pod.exec(&spec.id, process("grep -o '_ses.[0-9a-f]*' /proc/keys")).unwrap();
        let foreign = ids.iter().find(|id| **id != spec.id && rings.contains(id.as_str()));
        assert_eq!(foreign, None, "{rings}");
        assert!(rings.contains(spec.id.as_str()), "{rings}");
    }
}
