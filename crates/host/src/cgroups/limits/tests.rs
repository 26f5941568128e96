use model::HugepageLimit;

use super::*;

const MI: i64 = 1 << 20;

fn all() -> CgroupLimits {
    CgroupLimits {
        cpus: None,
        cpu_shares: Some(102),
        cpu_quota: Some(50_000),
        cpu_period: Some(20_000),
        memory: Some(64 * MI),
        memory_min: Some(8 * MI),
        memory_low: Some(0),
        pids: Some(100),
        hugepages: HugepageLimits::Sizes(vec![HugepageLimit { page_size: "2MB".into(), limit: 4 << 20 }]),
    }
}

fn bound(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Creates files (name, content before, content after), applies limits and compares. A file that was not written
/// keeps its newline.
#[track_caller]
fn check(set: impl Fn(&Path) -> Result<(), FileError>, files: &[(&str, &str, &str)]) {
    let scratch = tempfile::tempdir().unwrap();
    for (name, before, _) in files {
        fs::write(scratch.path().join(name), before).unwrap();
    }
    set(scratch.path()).unwrap();
    for (name, _, after) in files {
        assert_eq!(fs::read_to_string(scratch.path().join(name)).unwrap(), *after, "{name}");
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), files.len(), "no file is created");
}

#[test]
fn sets_all_v1_limits_of_a_new_cgroup() {
    let names = bound(&["rw", "cpu", "cpuacct", "memory", "pids", "hugetlb"]);
    check(
        |cgroup| set_v1(cgroup, &names, &all()),
        &[
            ("cpu.shares", "1024\n", "102"),
            ("cpu.cfs_period_us", "100000\n", "20000"),
            ("cpu.cfs_quota_us", "-1\n", "50000"),
            ("memory.limit_in_bytes", "9223372036854771712\n", "67108864"),
            ("pids.max", "max\n", "100"),
            ("hugetlb.2MB.limit_in_bytes", "9223372036852678656\n", "4194304"),
            ("hugetlb.2MB.rsvd.limit_in_bytes", "9223372036852678656\n", "4194304"),
            ("hugetlb.1GB.limit_in_bytes", "9223372035781033984\n", "0"),
            ("hugetlb.2MB.usage_in_bytes", "0\n", "0\n"),
        ],
    );
}

#[test]
fn sets_all_v2_limits_of_a_new_cgroup() {
    check(
        |cgroup| set_v2(cgroup, &all()),
        &[
            ("cpu.weight", "100\n", "4"),
            ("cpu.max", "max 100000\n", "50000 20000"),
            ("memory.max", "max\n", "67108864"),
            ("memory.min", "0\n", "8388608"),
            ("memory.low", "4096\n", "0"),
            ("pids.max", "max\n", "100"),
            ("hugetlb.2MB.max", "max\n", "4194304"),
            ("hugetlb.2MB.rsvd.max", "max\n", "4194304"),
            ("hugetlb.1GB.max", "max\n", "0"),
            ("hugetlb.1GB.events", "max 0\n", "max 0\n"),
        ],
    );
}

#[test]
fn does_not_rewrite_unchanged_limits() {
    let odd = CgroupLimits { memory: Some(64 * MI + 1), ..all() };
    check(
        |cgroup| set_v1(cgroup, &bound(&["cpu", "memory", "pids", "hugetlb"]), &odd),
        &[
            ("cpu.shares", "102\n", "102\n"),
            ("cpu.cfs_period_us", "100000\n", "20000"),
            ("cpu.cfs_quota_us", "50000\n", "50000\n"),
            ("memory.limit_in_bytes", "67108864\n", "67108864\n"),
            ("pids.max", "100\n", "100\n"),
            ("hugetlb.2MB.limit_in_bytes", "4194304\n", "4194304\n"),
            ("hugetlb.1GB.limit_in_bytes", "0\n", "0\n"),
        ],
    );
    check(
        |cgroup| set_v2(cgroup, &odd),
        &[
            ("cpu.weight", "4\n", "4\n"),
            ("cpu.max", "50000 20000\n", "50000 20000\n"),
            ("memory.max", "67108864\n", "67108864\n"),
            ("pids.max", "100\n", "100\n"),
            ("hugetlb.2MB.max", "4194304\n", "4194304\n"),
        ],
    );
}

#[test]
fn absent_limits_do_not_change_files() {
    let none = CgroupLimits::default();
    let files = [("cpu.shares", "1024\n", "1024\n"), ("pids.max", "max\n", "max\n")];
    check(|cgroup| set_v1(cgroup, &bound(&["cpu", "memory", "pids"]), &none), &files);
    let files = [("cpu.weight", "100\n", "100\n"), ("cpu.max", "1000 5000\n", "1000 5000\n")];
    check(|cgroup| set_v2(cgroup, &none), &files);
}

#[test]
fn sets_cpus_on_cgroup_v2() {
    let limits = CgroupLimits { cpus: Some("0-1".parse().unwrap()), ..CgroupLimits::default() };
    check(|cgroup| set_v2(cgroup, &limits), &[("cpuset.cpus", "\n", "0-1")]);
    check(|cgroup| set_v2(cgroup, &limits), &[("cpuset.cpus", "0-1\n", "0-1\n")]);
    check(|cgroup| set_v1(cgroup, &bound(&["cpuset"]), &limits), &[("cpuset.cpus", "0\n", "0\n")]);
}

#[test]
fn unlimited_hugepages_reset_limits() {
    let unlimited = CgroupLimits { hugepages: HugepageLimits::Unlimited, ..CgroupLimits::default() };
    let v1 = [
        ("hugetlb.2MB.limit_in_bytes", "4194304\n", "4611686018427387904"),
        ("hugetlb.1GB.limit_in_bytes", "9223372035781033984\n", "9223372035781033984\n"),
    ];
    check(|cgroup| set_v1(cgroup, &bound(&["hugetlb"]), &unlimited), &v1);
    let v2 = [
        ("hugetlb.2MB.max", "0\n", "4611686018427387904"),
        ("hugetlb.1GB.max", "max\n", "4611686018427387904"),
    ];
    check(|cgroup| set_v2(cgroup, &unlimited), &v2);
    let unchanged = [("hugetlb.2MB.max", "5\n", "5\n")];
    check(|cgroup| set_v2(cgroup, &CgroupLimits::default()), &unchanged);
}

/// Creates files and compares the limits read from them.
#[track_caller]
fn check_read(
    read: impl Fn(&Path) -> Result<CgroupLimits, FileError>,
    files: &[(&str, &str)],
    expected: &CgroupLimits,
) {
    let scratch = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(scratch.path().join(name), text).unwrap();
    }
    assert_eq!(read(scratch.path()).unwrap(), *expected, "{files:?}");
}

#[test]
fn reads_limits_in_the_units_they_are_set_in() {
    let expected = CgroupLimits {
        cpu_shares: Some(2),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory: Some(64 * MI),
        ..CgroupLimits::default()
    };
    let v1 = [
        ("cpu.shares", "2\n"),
        ("cpu.cfs_quota_us", "50000\n"),
        ("cpu.cfs_period_us", "100000\n"),
        ("memory.limit_in_bytes", "67108864\n"),
    ];
    check_read(|cgroup| read_v1(cgroup, &bound(&["cpu", "memory"])), &v1, &expected);
    let v2 = [("cpu.weight", "1\n"), ("cpu.max", "50000 100000\n"), ("memory.max", "67108864\n")];
    check_read(read_v2, &v2, &expected);
    let unlimited = CgroupLimits { cpu_quota: Some(-1), memory: None, ..expected };
    let v1 = [
        ("cpu.shares", "2\n"),
        ("cpu.cfs_quota_us", "-1\n"),
        ("cpu.cfs_period_us", "100000\n"),
        ("memory.limit_in_bytes", "9223372036854771712\n"),
    ];
    check_read(|cgroup| read_v1(cgroup, &bound(&["cpu", "memory"])), &v1, &unlimited);
    let v2 = [("cpu.weight", "1\n"), ("cpu.max", "max 100000\n"), ("memory.max", "max\n")];
    check_read(read_v2, &v2, &unlimited);
    check_read(read_v2, &[], &CgroupLimits::default());
}

#[test]
fn converts_weights_to_shares_like_upstream() {
    for (weight, shares) in [(1, 2), (4, 80), (39, 998), (10_000, 262_144)] {
        assert_eq!(cpu_shares(weight), shares, "{weight}");
    }
}

#[test]
fn writes_no_quota_in_the_format_of_each_version() {
    let unlimited =
        CgroupLimits { cpu_quota: Some(-1), cpu_period: Some(100_000), ..CgroupLimits::default() };
    let files = [("cpu.cfs_quota_us", "5000\n", "-1"), ("cpu.cfs_period_us", "100000\n", "100000\n")];
    check(|cgroup| set_v1(cgroup, &bound(&["cpu"]), &unlimited), &files);
    check(|cgroup| set_v2(cgroup, &unlimited), &[("cpu.max", "5000 100000\n", "max 100000")]);
}

#[test]
fn skips_missing_controllers() {
    check(|cgroup| set_v1(cgroup, &bound(&["freezer", "cpu", "hugetlb"]), &all()), &[]);
    check(|cgroup| set_v2(cgroup, &all()), &[]);
    // A file of a controller that this hierarchy does not have stays unchanged.
    check(|cgroup| set_v1(cgroup, &bound(&["cpu"]), &all()), &[("pids.max", "max\n", "max\n")]);
}

#[test]
fn converts_shares_to_weights_like_upstream() {
    for (shares, weight) in [(0, 1), (2, 1), (102, 4), (1024, 39), (262_143, 9999), (262_144, 10_000)] {
        assert_eq!(cpu_weight(shares), weight, "{shares}");
    }
    assert_eq!(cpu_weight(u64::MAX), 10_000);
}

#[test]
fn parses_page_sizes_of_the_kernel() {
    for (name, bytes) in
        [("64KB", Some(1 << 16)), ("2MB", Some(1 << 21)), ("16GB", Some(1 << 34)), ("2M", None), ("MB", None)]
    {
        assert_eq!(page_bytes(name), bytes, "{name}");
    }
}
