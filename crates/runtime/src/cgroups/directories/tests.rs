use super::super::devices::default_device_rules;
use super::*;

fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root");
}

fn layout() -> CgroupLayout {
    CgroupLayout::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap()).unwrap()
}

fn make(name: &str) -> ContainerCgroup {
    let path = PathBuf::from(format!("podward-test/{name}-{}", std::process::id()));
    ContainerCgroup::make(&layout(), &path).unwrap()
}

#[test]
#[ignore = "needs root"]
fn limits_are_in_force_and_can_be_changed() {
    require_root();
    let cgroup = make("limits");
    let limits = |memory| Resources {
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory_limit: Some(memory),
        ..Resources::default()
    };
    for memory in [64 << 20, 16 << 20, 128 << 20, -1] {
        cgroup.apply(&limits(memory)).unwrap();
    }
    cgroup.apply(&limits(32 << 20)).unwrap();
    let read = |controller, file: &str| {
        fs::read_to_string(cgroup.directory_of(controller).unwrap().join(file)).unwrap()
    };
    match layout() {
        CgroupLayout::V1 { .. } => {
            assert_eq!(read("memory", "memory.limit_in_bytes").trim(), (32 << 20).to_string());
            assert_eq!(read("cpu", "cpu.shares").trim(), "512");
            assert_eq!(read("cpu", "cpu.cfs_quota_us").trim(), "50000");
        }
        CgroupLayout::V2 { .. } => {
            assert_eq!(read("memory", "memory.max").trim(), (32 << 20).to_string());
            assert_eq!(read("cpu", "cpu.weight").trim(), "59");
            assert_eq!(read("cpu", "cpu.max").trim(), "50000 100000");
        }
    }
    assert!(cgroup.oom_counter().unwrap().exists());
    cgroup.remove().unwrap();
    cgroup.remove().unwrap();
    assert!(cgroup.directories().iter().all(|directory| !directory.exists()));
}

#[test]
#[ignore = "needs root"]
fn removal_includes_cgroups_below() {
    require_root();
    let cgroup = make("below");
    for directory in cgroup.directories() {
        fs::create_dir_all(directory.join("a/b")).unwrap();
    }
    cgroup.remove().unwrap();
    assert!(cgroup.directories().iter().all(|directory| !directory.exists()));
}

#[test]
#[ignore = "needs root"]
fn device_list_has_exactly_the_rules() {
    require_root();
    let cgroup = make("devices");
    cgroup.restrict_devices(&default_device_rules()).unwrap();
    if let CgroupLayout::V1 { .. } = layout() {
        let list = fs::read_to_string(cgroup.directory_of("devices").unwrap().join("devices.list")).unwrap();
        let expected: Vec<String> = default_device_rules().iter().flat_map(DeviceRule::v1_lines).collect();
        assert_eq!(list.lines().collect::<Vec<_>>(), expected);
    }
    cgroup.remove().unwrap();
}
