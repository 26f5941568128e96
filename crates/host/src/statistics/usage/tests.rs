use std::fs;

use model::usage::{DeviceUsage, ProcessUsage, Stall};

use super::*;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn v1(root: &Path) -> HostUsage {
    let names = ["cpu", "cpuacct", "memory", "pids", "blkio"];
    let controllers = names.iter().map(|name| ((*name).to_owned(), root.join(name))).collect();
    HostUsage::with(Cgroups::V1(controllers), root.join("proc"), root.join("sys"))
}

fn v2(root: &Path) -> HostUsage {
    HostUsage::with(Cgroups::V2(root.join("cgroup")), root.join("proc"), root.join("sys"))
}

fn fill_v1(root: &Path, path: &str) {
    let path_of = |controller: &str, file: &str| format!("{controller}/{path}/{file}");
    write(root, &path_of("cpuacct", "cpuacct.usage"), "5000000007\n");
    write(root, &path_of("cpuacct", "cpuacct.stat"), "user 400\nsystem 99\n");
    write(root, &path_of("cpuacct", "cgroup.procs"), "7\n");
    write(root, &path_of("cpu", "cpu.stat"), "nr_periods 5\nnr_throttled 2\nthrottled_time 30\n");
    write(root, &path_of("cpu", "cpu.shares"), "102\n");
    write(root, &path_of("cpu", "cpu.cfs_period_us"), "100000\n");
    write(root, &path_of("cpu", "cpu.cfs_quota_us"), "-1\n");
    let stat = "cache 1\npgfault 3\npgmajfault 1\ntotal_cache 100\ntotal_rss 200\ntotal_inactive_file 40\n\
                total_active_file 60\ntotal_pgfault 30\ntotal_swap 9\n";
    write(root, &path_of("memory", "memory.stat"), stat);
    write(root, &path_of("memory", "memory.usage_in_bytes"), "1040\n");
    write(root, &path_of("memory", "memory.limit_in_bytes"), "9223372036854771712\n");
    write(root, &path_of("memory", "memory.memsw.limit_in_bytes"), "4096\n");
    write(root, &path_of("memory", "memory.oom_control"), "oom_kill_disable 0\noom_kill 2\n");
    write(root, &path_of("pids", "pids.current"), "3\n");
    write(root, &path_of("pids", "pids.max"), "max\n");
    let bytes = "254:0 Read 4096\n254:0 Write 512\n254:0 Total 4608\nTotal 4608\n";
    write(root, &path_of("blkio", "blkio.throttle.io_service_bytes_recursive"), bytes);
    write(root, &path_of("blkio", "blkio.throttle.io_serviced_recursive"), "254:0 Read 2\n254:0 Write 1\n");
    write(root, "proc/7/limits", "Limit  Soft  Hard\nMax open files            1024   4096   files\n");
    write(root, "proc/diskstats", " 254       0 vda 10 1 20 3 40 5 60 7 0 9 11\n");
    fs::create_dir_all(root.join("proc/7/fd")).unwrap();
    let _ = std::os::unix::fs::symlink("socket:[1]", root.join("proc/7/fd/0"));
    let _ = std::os::unix::fs::symlink("/dev/null", root.join("proc/7/fd/1"));
}

#[tokio::test]
async fn reads_a_v1_cgroup_from_all_controllers() {
    let scratch = tempfile::tempdir().unwrap();
    fill_v1(scratch.path(), "kubepods/poda");
    let found = v1(scratch.path()).cgroups(vec!["/kubepods/poda".into(), "/gone".into()], Detail::Full).await;
    let usage = found[0].clone().unwrap();
    assert_eq!(found[1], None);
    assert_eq!(usage.cpu.total, 5_000_000_007);
    let memory = usage.memory;
    assert_eq!((memory.usage, memory.working_set, memory.rss, memory.cache), (1040, 1000, 200, 100));
    // Page faults are counted for the cgroup alone, swap includes its descendants.
    assert_eq!((memory.page_faults, memory.swap, memory.limit, memory.swap_limit), (3, 9, None, Some(4096)));
    let full = usage.full.unwrap();
    assert_eq!((full.cpu_user, full.cpu_system), (4_000_000_000, 990_000_000));
    assert_eq!((full.cpu_limit.periods, full.cpu_limit.throttled, full.cpu_quota), (5, 30, None));
    assert_eq!((full.threads, full.max_threads, full.oom_kills), (3, None, 2));
    let expected = ProcessUsage { count: 1, open_files: 2, sockets: 1, open_files_limit: Some(1024) };
    assert_eq!(full.processes, expected);
    let disk = DeviceUsage {
        device: "/dev/vda".into(),
        major: 254,
        minor: 0,
        read_bytes: 4096,
        written_bytes: 512,
        reads: 2,
        writes: 1,
    };
    assert_eq!(full.io, [disk]);
}

#[tokio::test]
async fn pod_cgroups_include_their_children() {
    let scratch = tempfile::tempdir().unwrap();
    for path in ["kubepods/poda", "kubepods/poda/c1", "kubepods/poda/c2"] {
        fill_v1(scratch.path(), path);
    }
    let usage = v1(scratch.path());
    let pod = PodCgroup { path: "/kubepods/poda".to_owned(), sandbox: "c2".to_owned() };
    for (detail, of_sandbox) in [(Detail::Basic, false), (Detail::Summary, false), (Detail::Full, true)] {
        let found = usage.pod_cgroups(vec![pod.clone()], detail).await;
        let children = found[0].clone().unwrap().children;
        let read: Vec<(&str, bool)> =
            children.iter().map(|(name, usage)| (name.as_str(), usage.cpu.total > 0)).collect();
        assert_eq!(read, [("c1", true), ("c2", of_sandbox)], "{detail:?}");
    }
}

fn fill_v2(root: &Path, path: &str) {
    let path_of = |file: &str| format!("cgroup/{path}/{file}");
    let cpu =
        "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\nnr_periods 4\nnr_throttled 1\nthrottled_usec 9\n";
    write(root, &path_of("cpu.stat"), cpu);
    write(root, &path_of("cpu.max"), "40000 100000\n");
    write(root, &path_of("cpu.weight"), "1\n");
    write(
        root,
        &path_of("cpu.pressure"),
        "some avg10=1.50 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
    );
    write(root, &path_of("memory.pressure"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=3\n");
    write(root, &path_of("io.pressure"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=4\n");
    write(
        root,
        &path_of("memory.stat"),
        "anon 200\nfile 100\nkernel 50\nfile_mapped 8\ninactive_file 40\npgfault 30\n",
    );
    write(root, &path_of("memory.current"), "1040\n");
    write(root, &path_of("memory.swap.current"), "9\n");
    write(root, &path_of("memory.max"), "2048\n");
    write(root, &path_of("memory.swap.max"), "max\n");
    write(root, &path_of("memory.events"), "max 6\noom_kill 4\n");
    write(root, &path_of("memory.events.local"), "oom_kill 1\n");
    write(root, &path_of("io.stat"), "254:0 rbytes=4096 wbytes=512 rios=2 wios=1 dbytes=0 dios=0\n");
    write(root, &path_of("cgroup.procs"), "");
}

#[tokio::test]
async fn reads_a_v2_cgroup() {
    let scratch = tempfile::tempdir().unwrap();
    fill_v2(scratch.path(), "kubepods.slice");
    let found = v2(scratch.path()).cgroups(vec!["/kubepods.slice".into()], Detail::Full).await;
    let usage = found[0].clone().unwrap();
    assert_eq!(usage.cpu.total, 5_000_000);
    let memory = usage.memory;
    assert_eq!((memory.usage, memory.working_set, memory.rss, memory.swap), (1040, 1000, 200, 9));
    assert_eq!((memory.limit, memory.swap_limit), (Some(2048), None));
    let pressure = usage.pressure.unwrap();
    assert_eq!(pressure.cpu.some, Stall { total: 77, avg10: 1.5, avg60: 0.0, avg300: 0.0 });
    assert_eq!((pressure.cpu.full.total, pressure.io.some.total), (5, 4));
    let full = usage.full.unwrap();
    assert_eq!((full.cpu_quota, full.cpu_period, full.cpu_shares), (Some(40_000), 100_000, 2));
    assert_eq!((full.cpu_limit.throttled, full.oom_kills), (9_000, 1));
    assert_eq!((full.io[0].read_bytes, full.io[0].writes), (4096, 1));
}

/// `container_memory_kernel_usage` and `container_memory_failcnt` are 0 on v2, whatever the kernel counts.
#[tokio::test]
async fn kernel_memory_and_failures_are_zero_on_v2() {
    for (kernel, statistics, events) in [
        (
            "5.10",
            "anon 4157440\nfile 0\nkernel_stack 16384\npercpu 0\nsock 0\nshmem 0\nslab 157696\npgfault 33\n",
            "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
        ),
        (
            "6.12",
            "anon 1929216\nfile 4096\nkernel 561152\nkernel_stack 32768\npagetables 122880\nsec_pagetables 0\nslab 307416\n",
            "low 0\nhigh 0\nmax 17\noom 1\noom_kill 1\noom_group_kill 0\n",
        ),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        fill_v2(scratch.path(), "pod");
        write(scratch.path(), "cgroup/pod/memory.stat", statistics);
        write(scratch.path(), "cgroup/pod/memory.events", events);
        let found = v2(scratch.path()).cgroups(vec!["/pod".into()], Detail::Full).await;
        let full = found[0].clone().unwrap().full.unwrap();
        assert_eq!((full.kernel_memory, full.memory_failures), (0, 0), "{kernel}");
    }
}

#[tokio::test]
async fn v2_root_counts_memory_that_is_not_free() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    fill_v2(root, "");
    for file in ["memory.current", "cpu.pressure", "memory.pressure", "io.pressure"] {
        fs::remove_file(root.join("cgroup").join(file)).unwrap();
    }
    let meminfo = "MemTotal: 100 kB\nMemFree: 40 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n";
    write(root, "proc/meminfo", meminfo);
    write(root, "proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=11\n");
    let found = v2(root).cgroups(vec!["/".into()], Detail::Summary).await;
    let usage = found[0].clone().unwrap();
    assert_eq!((usage.memory.usage, usage.memory.swap), (60 * 1024, 6 * 1024));
    assert_eq!(usage.memory.working_set, 60 * 1024 - 40);
    assert_eq!(usage.pressure.unwrap().cpu.some.total, 11);
}

#[tokio::test]
async fn network_of_a_cgroup_is_that_of_its_first_process() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    fill_v2(root, "pod");
    write(root, "cgroup/pod/cgroup.procs", "7\n8\n");
    let table = "Inter-|   Receive\n face |bytes\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n\
                 eth0: 10 2 3 4 0 0 0 0 50 6 7 8 0 0 0 0\n vethx: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n";
    write(root, "proc/7/net/dev", table);
    let found = v2(root).networks(vec!["/pod".into(), "/gone".into()]).await;
    let interfaces = found[0].clone().unwrap();
    assert_eq!(found[1], None);
    assert_eq!(interfaces.len(), 1);
    let one = &interfaces[0];
    assert_eq!((one.name.as_str(), one.received.bytes, one.received.dropped), ("eth0", 10, 4));
    assert_eq!((one.sent.bytes, one.sent.packets, one.sent.errors), (50, 6, 7));
}

#[tokio::test]
async fn reads_processes_boot_time_and_topology() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    write(root, "proc/sys/kernel/pid_max", "32768\n");
    write(root, "proc/sys/kernel/threads-max", "90000\n");
    write(root, "proc/loadavg", "0.5 0.4 0.3 2/260 1234\n");
    write(root, "proc/stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 5\n");
    write(root, "proc/self/cgroup", "0::/system.slice/podward.service\n");
    for cpu in 0..4 {
        write(root, &format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"), "0\n");
        write(root, &format!("sys/devices/system/cpu/cpu{cpu}/topology/core_id"), &format!("{}\n", cpu / 2));
    }
    fs::create_dir_all(root.join("sys/devices/system/cpu/cpufreq")).unwrap();
    let usage = v2(root);
    assert_eq!(usage.processes().await, Some(ProcessCount { max: 32_768, current: 260 }));
    assert_eq!(usage.booted_at().await, Some(Timestamp::from_secs(1_700_000_000)));
    assert_eq!(usage.own_cgroup().await.as_deref(), Some("/system.slice/podward.service"));
    assert_eq!(usage.topology().await, CpuTopology { logical: 4, cores: 2, sockets: 1 });
}

#[tokio::test]
async fn process_in_different_v1_cgroups_has_no_own_cgroup() {
    let scratch = tempfile::tempdir().unwrap();
    let usage = v1(scratch.path());
    write(scratch.path(), "proc/self/cgroup", "4:memory:/a\n2:cpu,cpuacct:/\n");
    assert_eq!(usage.own_cgroup().await, None);
    write(scratch.path(), "proc/self/cgroup", "4:memory:/a\n2:cpu,cpuacct:/a\n");
    assert_eq!(usage.own_cgroup().await.as_deref(), Some("/a"));
}

#[tokio::test]
async fn reads_usage_of_this_machine() {
    let version = crate::HostPodCgroups::detect(Path::new("/sys/fs/cgroup")).unwrap().version();
    let usage = HostUsage::new(Path::new("/sys/fs/cgroup"), version).unwrap();
    let found = usage.cgroups(vec!["/".into()], Detail::Full).await;
    let root = found[0].clone().unwrap();
    assert!(root.cpu.total > 0 && root.memory.usage > root.memory.working_set, "{root:?}");
    assert!(usage.disks().await.iter().any(|disk| disk.room.capacity > 0));
    assert!(usage.processes().await.is_some_and(|count| count.current > 0));
}
