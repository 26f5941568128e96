//! A container sees the same of itself as one that runc makes from the same settings.

use std::fs;
use std::path::Path;
use std::process::Command;

use runtime::launcher::seccomp::{Filter, Profile};
use runtime::launcher::*;
use serde_json::{Value, json};

use crate::pod::Pod;
use crate::user_namespaces::{make_namespaces, spec_in};

/// Mounts without their ids, devices and sources, which differ between any two containers.
const SCRIPT: &str = "busybox grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:|SigIgn|SigBlk)' /proc/self/status; \
     busybox awk '{ i = 7; while ($i != \"-\") i++; print $5, $6, i - 7, $(i + 1) }' /proc/self/mountinfo | busybox sort; \
     busybox ls -ln /dev | busybox awk '{ print $1, $3, $4, $5, $6, $NF }' | busybox sort; \
     busybox env | busybox sort; umask; pwd; ulimit -n; ulimit -c; busybox ls /proc/self/fd; busybox cat /proc/self/oom_score_adj; \
     busybox ls /sys/fs/cgroup; for path in /proc/sys/kernel/panic /sys/x /x /dev/x /dev/shm/x /proc/keys; do \
     (echo 1 > $path) 2>&1; done; busybox mount -t tmpfs none /tmp 2>&1; busybox unshare -m true 2>&1; busybox chroot / true 2>&1; \
     echo end";

/// Settings that differ from the defaults.
struct Case {
    name: &'static str,
    user: (u32, u32, &'static [u32]),
    capabilities: &'static [&'static str],
    new_privileges: NewPrivileges,
    seccomp: Option<&'static str>,
    root: Access,
}

const PROFILE: &str = r#"{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_X86_64","SCMP_ARCH_X86"],
    "syscalls":[{"names":["unshare","chroot"],"action":"SCMP_ACT_ERRNO","errnoRet":28}]}"#;

const CASES: &[Case] = &[
    Case {
        name: "root with few capabilities",
        user: (0, 0, &[0]),
        capabilities: &["CAP_CHOWN", "CAP_NET_RAW", "CAP_SYS_CHROOT"],
        new_privileges: NewPrivileges::Allowed,
        seccomp: None,
        root: Access::ReadWrite,
    },
    Case {
        name: "user with groups, filter and no new privileges",
        user: (1000, 50, &[50, 1234]),
        capabilities: &["CAP_KILL", "CAP_NET_BIND_SERVICE"],
        new_privileges: NewPrivileges::Forbidden,
        seccomp: Some(PROFILE),
        root: Access::ReadOnly,
    },
    Case {
        name: "administrator with a filter",
        user: (0, 0, &[0, 7]),
        capabilities: &["CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_MKNOD"],
        new_privileges: NewPrivileges::Allowed,
        seccomp: Some(PROFILE),
        root: Access::ReadWrite,
    },
];

#[test]
#[ignore = "needs Debian packages"]
fn container_sees_what_runc_shows() {
    let mut pod = Pod::new();
    for case in CASES {
        let mut spec = pod.spec(SCRIPT);
        let process = &mut spec.process;
        process.user = User { uid: case.user.0, gid: case.user.1, groups: case.user.2.to_vec() };
        process.capabilities =
            case.capabilities.iter().filter_map(|name| capabilities::Capability::parse(name)).collect();
        process.new_privileges = case.new_privileges;
        process.seccomp =
            case.seccomp.map(|text| Filter::compile(&Profile::from_json(text.as_bytes()).unwrap()).unwrap());
        spec.root_access = case.root;
        let (_, ours) = pod.output(&spec);
        let theirs = run_with_runc(pod.folder.path(), &spec, case);
        assert_eq!(lines(&ours), lines(&theirs), "{}", case.name);
        assert!(ours.ends_with("end\n"), "{ours}");
    }
}

const TERMINAL_SCRIPT: &str = "busybox tty; busybox ls -ln /dev /dev/pts | busybox awk '{ print $1, $3, $4, $5, $6, $NF }' | busybox sort; \
     busybox awk '{ i = 7; while ($i != \"-\") i++; print $5, $6, i - 7, $(i + 1) }' /proc/self/mountinfo | busybox grep /dev/ | busybox sort; \
     (: < /dev/tty) && echo controlling; (: < /dev/console) && echo console; \
     busybox awk '{ print $5 == $6, $6 == $8 }' /proc/$$/stat; echo end";

const USER_SCRIPT: &str = "busybox cat /proc/self/uid_map /proc/self/gid_map; \
     busybox grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:|SigIgn|SigBlk)' /proc/self/status; \
     busybox awk '{ i = 7; while ($i != \"-\") i++; print $5, $6, i - 7, $(i + 1) }' /proc/self/mountinfo | busybox sort; \
     busybox stat -c '%n %A %u:%g %t:%T' / /dev /dev/* /proc /proc/sys /sys /etc /bin/busybox; busybox ls /sys/class/net; \
     for path in /proc/sys/kernel/panic /proc/sys/net/ipv4/ip_forward /sys/x /x /dev/x /proc/keys; do (echo 1 > $path) 2>&1; done; \
     busybox mknod /x1 b 7 0 2>&1; busybox mount -t tmpfs none /tmp 2>&1; busybox chroot / busybox true 2>&1; \
     busybox hostname other; busybox hostname; busybox kill -9 1 2>&1; echo end";

#[test]
#[ignore = "needs Debian packages"]
fn user_namespace_equals_that_of_runc() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let case = Case {
        name: "user namespace",
        user: (0, 0, &[0]),
        capabilities: &["CAP_CHOWN", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_MKNOD", "CAP_NET_ADMIN"],
        new_privileges: NewPrivileges::Allowed,
        seccomp: None,
        root: Access::ReadWrite,
    };
    let mut spec = spec_in(&mut pod, &pinned, USER_SCRIPT);
    spec.process.capabilities =
        case.capabilities.iter().filter_map(|name| capabilities::Capability::parse(name)).collect();
    // The version of runc in Debian 12 cannot map owners.
    spec.root_owners = FileOwners::Unchanged;
    let chown = Command::new("chown").args(["-hR", "300000:300000"]).arg(&spec.root).status().unwrap();
    assert!(chown.success());
    let (_, ours) = pod.output(&spec);
    let theirs = run_with_runc(pod.folder.path(), &spec, &case);
    assert_eq!(lines(&ours), lines(&theirs));
    assert!(ours.contains("/dev/mqueue drwxrwxrwt 0:0 "), "{ours}");
    assert!(ours.contains("300000") && ours.ends_with("end\n"), "{ours}");
}

/// Without the settings of the line discipline: the command runc, unlike containerd, turns off the translation of line feeds.
#[test]
#[ignore = "needs Debian packages"]
fn terminal_equals_that_of_runc() {
    let mut pod = Pod::new();
    for user in [0, 1000] {
        let case = Case {
            name: if user == 0 { "terminal of root" } else { "terminal of a user" },
            user: (user, 0, &[]),
            capabilities: &["CAP_CHOWN"],
            new_privileges: NewPrivileges::Allowed,
            seccomp: None,
            root: Access::ReadOnly,
        };
        let mut spec = pod.spec(TERMINAL_SCRIPT);
        spec.process.user = User { uid: user, gid: 0, groups: Vec::new() };
        spec.process.capabilities = [capabilities::Capability::parse("CHOWN").unwrap()].into();
        spec.process.terminal = Terminal::New;
        spec.root_access = case.root;
        let (_, ours) = pod.output(&spec);
        let theirs = run_with_runc(pod.folder.path(), &spec, &case);
        assert_eq!(lines(&ours), lines(&theirs), "{}", case.name);
        assert!(ours.contains("controlling\n") && ours.ends_with("end\n"), "{ours}");
    }
}

/// The output without three differences: runc leaves a signal of the C library ignored, the folder of the cgroup hierarchies
/// writable, and the group of message queues in a user namespace unmapped.
fn lines(text: &str) -> Vec<&str> {
    let differs = |line: &&str| {
        ["SigIgn:", "/sys/fs/cgroup ", "/dev/mqueue drwx"].iter().any(|start| line.starts_with(start))
    };
    text.lines().filter(|line| !differs(line)).collect()
}

fn run_with_runc(folder: &Path, spec: &ContainerSpec, case: &Case) -> String {
    let bundle = folder.join(format!("bundle-{}", case.name.replace(' ', "-")));
    fs::create_dir(&bundle).unwrap();
    fs::write(bundle.join("config.json"), config(spec, case).to_string()).unwrap();
    let state = folder.join("runc-state");
    let runc = format!(
        "runc --root {} run --bundle {} podward-test-{}",
        state.display(),
        bundle.display(),
        &spec.id[56..]
    );
    // With a terminal, runc needs one to connect it with.
    let output = match spec.process.terminal {
        Terminal::None => Command::new("sh").args(["-c", &runc]).output(),
        Terminal::New => Command::new("script").args(["-qec", &runc, "/dev/null"]).output(),
    };
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The end of script's own input appears as an echoed control character.
    String::from_utf8(output.stdout).unwrap().replace(['\r', '\u{8}'], "").replace("^@", "").replace("^D", "")
}

fn config(spec: &ContainerSpec, case: &Case) -> Value {
    let mount = |destination: &str, kind: &str, options: &[&str]| json!({"destination": destination, "type": kind, "source": kind, "options": options});
    let mut namespaces = vec![json!({"type": "pid"}), json!({"type": "mount"})];
    let mut mappings = Value::Null;
    if let Some(user) = &spec.namespaces.user {
        namespaces.extend(["user", "network", "ipc", "uts"].map(|kind| json!({"type": kind})));
        let IdRange { container, host, length } = user.ids.uids;
        mappings = json!([{"containerID": container, "hostID": host, "size": length}]);
    }
    let seccomp: Option<Value> = case.seccomp.map(|text| serde_json::from_str(text).unwrap());
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": spec.process.terminal == Terminal::New,
            "args": spec.process.arguments, "env": spec.process.environment, "cwd": "/",
            "user": {"uid": case.user.0, "gid": case.user.1, "additionalGids": case.user.2},
            "capabilities": {
                "bounding": case.capabilities, "permitted": case.capabilities, "effective": case.capabilities
            },
            "noNewPrivileges": case.new_privileges == NewPrivileges::Forbidden,
            "oomScoreAdj": 0
        },
        "root": {"path": spec.root, "readonly": case.root == Access::ReadOnly},
        "mounts": [
            mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
            mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
            mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
            mount("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
            mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
            mount("/sys/fs/cgroup", "cgroup", &["nosuid", "noexec", "nodev", "relatime", "ro"]),
        ],
        "linux": {
            "namespaces": namespaces,
            "uidMappings": mappings, "gidMappings": mappings,
            "maskedPaths": spec.masked_paths, "readonlyPaths": spec.readonly_paths,
            "seccomp": seccomp,
            "resources": {"devices": [{"allow": false, "access": "rwm"}]}
        }
    })
}
