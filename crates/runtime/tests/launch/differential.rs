//! A container sees the same of itself as one that runc makes from the same settings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use runtime::cgroups::{CgroupLayout, ContainerCgroup, Resources};
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

/// A container with the settings of a case.
fn spec_of(pod: &mut Pod, case: &Case, script: &str) -> ContainerSpec {
    let mut spec = pod.spec(script);
    let process = &mut spec.process;
    process.user = User { uid: case.user.0, gid: case.user.1, groups: case.user.2.to_vec() };
    process.capabilities =
        case.capabilities.iter().filter_map(|name| capabilities::Capability::parse(name)).collect();
    process.new_privileges = case.new_privileges;
    process.seccomp =
        case.seccomp.map(|text| Filter::compile(&Profile::from_json(text.as_bytes()).unwrap()).unwrap());
    spec.root_access = case.root;
    spec
}

#[test]
#[ignore = "needs Debian packages"]
fn container_sees_what_runc_shows() {
    let mut pod = Pod::new();
    for case in CASES {
        let spec = spec_of(&mut pod, case, SCRIPT);
        let (_, ours) = pod.output(&spec);
        let theirs = run_with_runc(pod.folder.path(), &spec, case);
        assert_eq!(lines(&ours), lines(&theirs), "{}", case.name);
        assert!(ours.ends_with("end\n"), "{ours}");
    }
}

/// A process that is executed in a running container sees the same of itself.
#[test]
#[ignore = "needs Debian packages"]
fn exec_sees_what_runc_shows() {
    let mut pod = Pod::new();
    for case in CASES {
        let spec = spec_of(&mut pod, case, "sleep 1000");
        pod.run(&spec);
        let mut process = spec.process.clone();
        process.arguments = vec!["sh".to_owned(), "-c".to_owned(), SCRIPT.to_owned()];
        let (_, ours) = pod.exec(&spec.id, process).unwrap();
        let runc = Runc::start(pod.folder.path(), &spec, case.name, &config(&spec, case));
        let theirs = runc.exec(SCRIPT, &config(&spec, case));
        drop(runc);
        assert_eq!(lines(&ours), lines(&theirs), "{}", case.name);
        assert!(ours.ends_with("end\n"), "{ours}");
    }
}

const LIMITS_SCRIPT: &str = "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes memory/memory.memsw.limit_in_bytes cpu/cpu.shares \
     cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us cpuset/cpuset.cpus; ulimit -n; ulimit -Hn; ulimit -c; echo end";

#[test]
#[ignore = "needs Debian packages"]
fn limits_equal_those_of_runc() {
    let mut pod = Pod::new();
    let [case, ..] = CASES else { panic!("no case") };
    let mut spec = spec_of(&mut pod, case, LIMITS_SCRIPT);
    let resources = Resources {
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        cpuset_cpus: Some("0".to_owned()),
        memory_limit: Some(64 << 20),
        memory_swap_limit: Some(64 << 20),
        ..Resources::default()
    };
    let layout = CgroupLayout::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap()).unwrap();
    ContainerCgroup::at(&layout, &Path::new("podward-test").join(&spec.id)).apply(&resources).unwrap();
    let limit = |kind, soft, hard| ResourceLimit { kind, soft, hard };
    spec.process.resource_limits =
        vec![limit(LimitKind::OpenFiles, 500, 600), limit(LimitKind::CoreSize, 0, 0)];
    let mut config = config(&spec, case);
    config["process"]["rlimits"] = json!([
        {"type": "RLIMIT_NOFILE", "soft": 500, "hard": 600}, {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
    ]);
    config["linux"]["resources"]["memory"] = json!({"limit": 64 << 20, "swap": 64 << 20});
    config["linux"]["resources"]["cpu"] =
        json!({"shares": 512, "quota": 50_000, "period": 100_000, "cpus": "0"});
    let (_, ours) = pod.output(&spec);
    let theirs = run_config(pod.folder.path(), &spec, "limits", &config);
    assert_eq!(lines(&ours), lines(&theirs));
    assert!(ours.contains("67108864\n") && ours.ends_with("0\n500\n600\n0\nend\n"), "{ours}");
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
    run_config(folder, spec, case.name, &config(spec, case))
}

/// Writes a bundle and returns its folder.
fn bundle(folder: &Path, name: &str, config: &Value) -> PathBuf {
    let bundle = folder.join(format!("bundle-{}", name.replace(' ', "-")));
    fs::create_dir_all(&bundle).unwrap();
    fs::write(bundle.join("config.json"), config.to_string()).unwrap();
    bundle
}

/// Runs a container to its end and returns what it prints.
fn run_config(folder: &Path, spec: &ContainerSpec, name: &str, config: &Value) -> String {
    let bundle = bundle(folder, name, config);
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

/// A container of runc that runs; it ends with this value.
struct Runc {
    state: PathBuf,
    bundle: PathBuf,
    id: String,
}

impl Runc {
    fn start(folder: &Path, spec: &ContainerSpec, name: &str, config: &Value) -> Self {
        let bundle = bundle(folder, &format!("running {name}"), config);
        let runc =
            Self { state: folder.join("runc-state"), bundle, id: format!("podward-test-{}", &spec.id[56..]) };
        let mut command = runc.command("run");
        command.arg("--detach").arg("--bundle").arg(&runc.bundle).arg(&runc.id);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().unwrap();
        assert!(status.success(), "{status}");
        runc
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new("runc");
        command.arg("--root").arg(&self.state).arg(name);
        command
    }

    /// Executes a script with the settings of the first process.
    fn exec(&self, script: &str, config: &Value) -> String {
        let mut process = config["process"].clone();
        process["args"] = json!(["sh", "-c", script]);
        let file = self.bundle.join("process.json");
        fs::write(&file, process.to_string()).unwrap();
        let output = self.command("exec").arg("--process").arg(&file).arg(&self.id).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Runc {
    fn drop(&mut self) {
        let _ = self.command("delete").arg("--force").arg(&self.id).status();
    }
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
