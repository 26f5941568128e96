//! A container sees the same of itself as one that runc makes from the same settings.

use std::fs;
use std::path::Path;
use std::process::Command;

use runtime::launcher::seccomp::{Filter, Profile};
use runtime::launcher::*;
use serde_json::{Value, json};

use crate::pod::Pod;

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

/// The output without two differences: runc leaves a signal of the C library ignored, and the folder of the cgroup hierarchies
/// writable.
fn lines(text: &str) -> Vec<&str> {
    let differs = |line: &&str| line.starts_with("SigIgn:") || line.starts_with("/sys/fs/cgroup ");
    text.lines().filter(|line| !differs(line)).collect()
}

fn run_with_runc(folder: &Path, spec: &ContainerSpec, case: &Case) -> String {
    let bundle = folder.join(format!("bundle-{}", case.name.replace(' ', "-")));
    fs::create_dir(&bundle).unwrap();
    fs::write(bundle.join("config.json"), config(spec, case).to_string()).unwrap();
    let state = folder.join("runc-state");
    let output = Command::new("runc")
        .arg("--root")
        .arg(state)
        .args(["run", "--bundle"])
        .arg(&bundle)
        .arg(format!("podward-test-{}", &spec.id[56..]))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn config(spec: &ContainerSpec, case: &Case) -> Value {
    let mount = |destination: &str, kind: &str, options: &[&str]| json!({"destination": destination, "type": kind, "source": kind, "options": options});
    let seccomp: Option<Value> = case.seccomp.map(|text| serde_json::from_str(text).unwrap());
    json!({
        "ociVersion": "1.0.2",
        "process": {
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
            "namespaces": [{"type": "pid"}, {"type": "mount"}],
            "maskedPaths": spec.masked_paths, "readonlyPaths": spec.readonly_paths,
            "seccomp": seccomp,
            "resources": {"devices": [{"allow": false, "access": "rwm"}]}
        }
    })
}
