use std::fs;
use std::process::{Child, Command};

use ports::host::system_cgroups::SystemCgroups;

use super::*;
use crate::test_folder::require_root;

const POD: &str = "/kubepods/burstable/podabc";

fn fake_v1(root: &Path) -> HostPodCgroups {
    let root = root.display();
    let table = PathBuf::from(format!("{root}/mountinfo"));
    let lines = [
        format!("31 23 0:28 / {root} rw - tmpfs tmpfs rw,mode=755"),
        format!("32 31 0:29 / {root}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"),
        format!("33 31 0:30 / {root}/cpuset rw - cgroup cgroup rw,cpuset"),
        format!("34 31 0:31 / {root}/systemd rw - cgroup cgroup rw,xattr,name=systemd"),
        format!("35 31 0:32 / {root}/unified rw - cgroup2 cgroup2 rw"),
        format!("36 31 0:29 / {root}/cpu rw - cgroup cgroup rw,cpu,cpuacct"),
        "37 31 0:33 / /elsewhere/memory rw - cgroup cgroup rw,memory".to_owned(),
    ];
    fs::write(&table, lines.join("\n")).unwrap();
    for hierarchy in ["cpu,cpuacct", "cpuset", "systemd", "unified"] {
        fs::create_dir(Path::new(&format!("{root}/{hierarchy}"))).unwrap();
    }
    HostPodCgroups::detect_with(Path::new(&root.to_string()), &table).unwrap()
}

#[tokio::test]
async fn v1_creates_the_cgroup_in_every_hierarchy() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().canonicalize().unwrap();
    let cgroups = fake_v1(&root);
    assert_eq!(cgroups.version(), CgroupVersion::V1);
    let roots: Vec<_> = cgroups.hierarchies.iter().map(|hierarchy| hierarchy.root().to_path_buf()).collect();
    assert_eq!(roots, ["cpu,cpuacct", "cpuset", "systemd"].map(|name| root.join(name)));

    // The kernel creates empty files in new cpuset cgroups; the test creates them beforehand.
    for (level, cpus) in [("", "0-3\n"), ("kubepods", "1\n"), ("kubepods/burstable", "\n"), (&POD[1..], "\n")]
    {
        let folder = root.join("cpuset").join(level);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cpuset.cpus"), cpus).unwrap();
        fs::write(folder.join("cpuset.mems"), if level.is_empty() { "0\n" } else { "\n" }).unwrap();
    }
    for _ in 0..2 {
        cgroups.ensure(POD, &CgroupLimits::default()).await.unwrap();
    }
    let pod = root.join("cpuset").join(&POD[1..]);
    assert_eq!(fs::read_to_string(pod.join("cpuset.cpus")).unwrap(), "1");
    assert_eq!(fs::read_to_string(pod.join("cpuset.mems")).unwrap(), "0");
    assert!(root.join("cpu,cpuacct").join(&POD[1..]).is_dir());
    assert!(root.join("systemd").join(&POD[1..]).is_dir());
    assert!(!root.join("unified/kubepods").exists());
}

#[tokio::test]
async fn v2_delegates_controllers_and_removes_children_first() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    fs::write(root.join("cgroup.controllers"), "cpuset cpu io memory pids rdma\n").unwrap();
    fs::write(root.join("cgroup.subtree_control"), "cpu memory cpuset\n").unwrap();
    let cgroups = HostPodCgroups::with_version(CgroupVersion::V2, root, Path::new("/none")).unwrap();
    cgroups.ensure(POD, &CgroupLimits::default()).await.unwrap();
    assert_eq!(fs::read_to_string(root.join("cgroup.subtree_control")).unwrap(), "+pids");
    let pod = root.join(&POD[1..]);
    fs::create_dir_all(pod.join("container/nested")).unwrap();
    fs::create_dir_all(pod.join("sandbox")).unwrap();
    for _ in 0..2 {
        cgroups.remove(POD).await.unwrap();
    }
    assert!(!pod.exists() && root.join("kubepods/burstable").is_dir());
}

#[tokio::test]
async fn rejects_the_root_and_paths_outside_of_it() {
    let scratch = tempfile::tempdir().unwrap();
    let cgroups =
        HostPodCgroups::with_version(CgroupVersion::V2, scratch.path(), Path::new("/none")).unwrap();
    for bad in ["", "/", "//", "/../x", "/a/../../x", "./a"] {
        assert!(cgroups.ensure(bad, &CgroupLimits::default()).await.is_err(), "{bad:?}");
        assert!(cgroups.remove(bad).await.is_err(), "{bad:?}");
    }
}

struct RealCgroup {
    cgroups: HostPodCgroups,
    path: String,
    child: Option<Child>,
}

impl Drop for RealCgroup {
    fn drop(&mut self) {
        self.end_child();
        for hierarchy in self.cgroups.hierarchies.iter() {
            let _ = hierarchy.remove(Path::new(self.path.trim_start_matches('/')));
        }
    }
}

impl RealCgroup {
    fn end_child(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Runs on the hierarchies of this machine at `root`; returns whether they have that version.
async fn check_real(root: &str, version: CgroupVersion) -> bool {
    let Some(cgroups) = real_cgroups(root, version) else { return false };
    let path = format!("/podward-test-{}-{version:?}", std::process::id());
    let mut real = RealCgroup { cgroups, path: path.clone(), child: None };
    let pod = format!("{path}/pod1");
    real.cgroups.ensure(&pod, &CgroupLimits::default()).await.unwrap();
    let all: Vec<_> = real.cgroups.hierarchies.iter().map(|one| one.root().join(&pod[1..])).collect();
    fs::create_dir(all[0].join("container")).unwrap();

    let child = real.child.insert(Command::new("sleep").arg("600").spawn().unwrap());
    real.cgroups.system_cgroups(Path::new("/proc")).enter(child.id(), &pod).await.unwrap();
    for cgroup in &all {
        let entered = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap();
        assert_eq!(entered.trim(), child.id().to_string(), "{}", cgroup.display());
    }
    assert_eq!(real.cgroups.children(&pod).await.unwrap(), ["container"]);
    let error = real.cgroups.remove(&pod).await.unwrap_err();
    assert!(is_busy(&error), "{error}: {}", error.source);

    assert_eq!(real.cgroups.children(&path).await.unwrap(), ["pod1"]);
    assert!(real.cgroups.exists(&pod).await.unwrap());
    real.cgroups.kill_processes(&path).await.unwrap();
    let ended = real.child.take().unwrap().wait().unwrap();
    assert!(!ended.success(), "the process was killed");
    real.cgroups.remove(&pod).await.unwrap();
    assert!(!real.cgroups.exists(&pod).await.unwrap());
    assert!(real.cgroups.children(&pod).await.unwrap().is_empty());
    assert!(real.cgroups.set(&pod, &CgroupLimits::default()).await.is_err());
    real.cgroups.remove(&path).await.unwrap();
    assert!(all.iter().all(|cgroup| !cgroup.exists()));
    true
}

/// The cgroups of this machine at `root`, if they have that version.
fn real_cgroups(root: &str, version: CgroupVersion) -> Option<HostPodCgroups> {
    require_root();
    HostPodCgroups::detect(Path::new(root)).ok().filter(|cgroups| cgroups.version() == version)
}

#[tokio::test]
#[ignore = "needs root"]
async fn real_cgroups_are_removed_only_without_processes() {
    let first = check_real("/sys/fs/cgroup", CgroupVersion::V1).await;
    let second = check_real("/sys/fs/cgroup", CgroupVersion::V2).await;
    let beside = check_real("/sys/fs/cgroup/unified", CgroupVersion::V2).await;
    assert!(first || second || beside, "the machine has no usable cgroups");
}

/// Reads a file of a cgroup from the hierarchy that has it.
fn read_real(real: &RealCgroup, cgroup: &str, file: &str) -> Option<String> {
    let folders = real.cgroups.hierarchies.iter().map(|one| one.root().join(&cgroup[1..]));
    let text = folders.filter_map(|folder| fs::read_to_string(folder.join(file)).ok()).next()?;
    Some(text.trim().to_owned())
}

#[tokio::test]
#[ignore = "needs root"]
async fn real_v1_cgroups_accept_limits_and_changes() {
    let Some(cgroups) = real_cgroups("/sys/fs/cgroup", CgroupVersion::V1) else {
        // Fake files test the same on v2.
        println!("skipped: the machine has no v1 hierarchies");
        return;
    };
    let parent = format!("/podward-test-{}-limits", std::process::id());
    let pod = format!("{parent}/pod1");
    let real = RealCgroup { cgroups, path: parent.clone(), child: None };
    let half = CgroupLimits { cpu_quota: Some(50_000), cpu_period: Some(100_000), ..CgroupLimits::default() };
    real.cgroups.ensure(&parent, &half).await.unwrap();
    let check = |limits: CgroupLimits| {
        let (real, pod) = (&real, &pod);
        async move {
            for _ in 0..2 {
                real.cgroups.ensure(pod, &limits).await.unwrap();
            }
            let page = i64::try_from(rustix::param::page_size()).unwrap();
            let memory = limits.memory.map(|bytes| bytes - bytes % page);
            for (file, expected) in [
                ("cpu.shares", limits.cpu_shares.map(|value| value.to_string())),
                ("cpu.cfs_quota_us", limits.cpu_quota.map(|value| value.to_string())),
                ("cpu.cfs_period_us", limits.cpu_period.map(|value| value.to_string())),
                ("memory.limit_in_bytes", memory.map(|value| value.to_string())),
                ("pids.max", limits.pids.map(|value| value.to_string())),
            ] {
                if let (Some(found), Some(expected)) = (read_real(real, pod, file), expected) {
                    assert_eq!(found, expected, "{file}");
                }
            }
        }
    };
    let first = CgroupLimits {
        cpu_shares: Some(102),
        cpu_quota: Some(40_000),
        cpu_period: Some(100_000),
        memory: Some((64 << 20) + 1),
        pids: Some(100),
        ..CgroupLimits::default()
    };
    check(first.clone()).await;
    let found = real.cgroups.limits(&pod).await.unwrap();
    assert_eq!((found.cpu_shares, found.memory), (Some(102), Some(64 << 20)));
    assert!(real.cgroups.memory_usage(&pod).await.is_ok());
    // The old quota in the new period would exceed the parent's: the quota must be set first.
    check(CgroupLimits { cpu_quota: Some(20_000), cpu_period: Some(50_000), ..first.clone() }).await;
    check(CgroupLimits { cpu_quota: Some(-1), ..first.clone() }).await;

    // Needs CPU bandwidth control.
    if read_real(&real, &pod, "cpu.cfs_quota_us").is_some() {
        let greedy = CgroupLimits { cpu_quota: Some(90_000), ..first };
        let error = real.cgroups.ensure(&pod, &greedy).await.unwrap_err();
        assert!(error.path.ends_with("cpu.cfs_quota_us"), "{error}");
    }
    real.cgroups.remove(&parent).await.unwrap();
}
