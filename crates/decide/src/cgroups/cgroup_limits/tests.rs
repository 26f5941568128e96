#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

const MI: i64 = 1 << 20;

fn limits(spec: Value) -> CgroupLimits {
    pod_cgroup_limits(&pod(spec), &settings())
}

/// Shares, quota and memory in MiB of a pod on a node with the default period.
#[track_caller]
fn check(spec: Value, shares: u64, quota: Option<i64>, memory: Option<i64>) {
    let expected = CgroupLimits {
        cpu_shares: Some(shares),
        cpu_quota: quota,
        cpu_period: quota.map(|_| 100_000),
        memory: memory.map(|mebibytes| mebibytes * MI),
        hugepages: HugepageLimits::Sizes(Vec::new()),
        ..CgroupLimits::default()
    };
    assert_eq!(limits(spec), expected);
}

fn container(requests: Value, limits: Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
}

fn sidecar(requests: Value, limits: Value) -> Value {
    let mut sidecar = container(requests, limits);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

fn both(cpu: &str, memory: &str) -> Value {
    json!({"cpu": cpu, "memory": memory})
}

#[test]
fn guaranteed_pod_gets_shares_quota_and_memory() {
    let one = container(both("500m", "64Mi"), both("500m", "64Mi"));
    check(json!({"containers": [one]}), 512, Some(50_000), Some(64));
    check(json!({"containers": [one, one]}), 1024, Some(100_000), Some(128));
}

#[test]
fn burstable_pod_gets_limit_only_if_all_containers_have_one() {
    let full = container(both("100m", "16Mi"), both("500m", "64Mi"));
    let no_cpu = container(both("100m", "16Mi"), json!({"memory": "64Mi"}));
    let no_memory = container(both("100m", "16Mi"), json!({"cpu": "500m"}));
    let zero = container(both("100m", "16Mi"), both("0", "64Mi"));
    check(json!({"containers": [full]}), 102, Some(50_000), Some(64));
    check(json!({"containers": [full, no_cpu]}), 204, None, Some(128));
    check(json!({"containers": [full, no_memory]}), 204, Some(100_000), None);
    check(json!({"containers": [full, {"name": "none"}]}), 102, None, None);
    check(json!({"containers": [full, zero]}), 204, None, Some(128));
    check(json!({"containers": [full], "initContainers": [no_memory]}), 102, Some(50_000), None);
}

#[test]
fn best_effort_pod_has_minimum_weight_despite_overhead() {
    check(json!({"containers": [{"name": "c"}]}), 2, None, None);
    check(json!({"containers": [{"name": "c"}], "overhead": both("1", "1Gi")}), 2, None, None);
}

#[test]
fn init_containers_count_if_larger_than_sum_of_regular_ones() {
    let small = container(both("100m", "16Mi"), both("200m", "32Mi"));
    let large = container(both("1", "16Mi"), both("2", "16Mi"));
    check(json!({"containers": [small, small], "initContainers": [large]}), 1024, Some(200_000), Some(64));
    // They run one after the other, so the largest counts.
    check(json!({"containers": [small], "initContainers": [large, large]}), 1024, Some(200_000), Some(32));
}

#[test]
fn sidecars_add_to_regular_and_later_init_containers() {
    let main = container(both("100m", "16Mi"), both("200m", "32Mi"));
    let side = sidecar(both("100m", "16Mi"), both("100m", "32Mi"));
    let large = container(both("900m", "16Mi"), both("900m", "16Mi"));
    check(json!({"containers": [main], "initContainers": [side]}), 204, Some(30_000), Some(64));
    check(json!({"containers": [main], "initContainers": [side, large]}), 1024, Some(100_000), Some(64));
    check(json!({"containers": [main], "initContainers": [large, side]}), 921, Some(90_000), Some(64));
    // An init container without limits counts as limited if a sidecar before it is.
    let open = json!({"name": "open"});
    check(json!({"containers": [main], "initContainers": [side, open]}), 204, Some(30_000), Some(64));
    check(json!({"containers": [main], "initContainers": [open, side]}), 204, None, None);
}

#[test]
fn pod_level_resources_replace_the_sums() {
    let main = container(both("100m", "16Mi"), json!({"memory": "32Mi"}));
    let of_pod = |requests: Value, limits: Value| {
        let resources = json!({"requests": requests, "limits": limits});
        json!({"containers": [main, {"name": "open"}], "resources": resources})
    };
    check(of_pod(both("1", "64Mi"), both("2", "128Mi")), 1024, Some(200_000), Some(128));
    check(of_pod(both("1", "64Mi"), both("1", "64Mi")), 1024, Some(100_000), Some(64));
    check(of_pod(json!({"cpu": "1"}), json!({"cpu": "1"})), 1024, Some(100_000), None);
}

#[test]
fn overhead_is_added_to_requests_and_existing_limits() {
    let overhead = both("250m", "10Mi");
    let full = container(both("250m", "16Mi"), both("500m", "64Mi"));
    check(json!({"containers": [full], "overhead": overhead}), 512, Some(75_000), Some(74));
    let open = container(both("250m", "16Mi"), json!({}));
    check(json!({"containers": [open], "overhead": overhead}), 512, None, None);
}

#[test]
fn disabled_cfs_quota_removes_the_quota() {
    let mut settings = settings();
    settings.cpu_cfs_quota = false;
    let full = container(both("500m", "64Mi"), both("500m", "64Mi"));
    let limits = pod_cgroup_limits(&pod(json!({"containers": [full]})), &settings);
    assert_eq!(
        (limits.cpu_quota, limits.cpu_period, limits.memory),
        (Some(-1), Some(100_000), Some(64 * MI))
    );
    let limits = pod_cgroup_limits(&pod(json!({"containers": [{"name": "c"}]})), &settings);
    assert_eq!((limits.cpu_quota, limits.cpu_period), (None, None));
}

#[test]
fn quota_follows_period_of_node() {
    let mut settings = settings();
    settings.cpu_cfs_quota_period = Duration::from_millis(20);
    let full = container(json!({}), both("500m", "64Mi"));
    let limits = pod_cgroup_limits(&pod(json!({"containers": [full]})), &settings);
    assert_eq!((limits.cpu_quota, limits.cpu_period), (Some(10_000), Some(20_000)));
}

#[test]
fn process_limit_comes_from_node_settings() {
    for (setting, pids) in [(-1, None), (0, None), (100, Some(100))] {
        let mut settings = settings();
        settings.pod_pids_limit = setting;
        let limits = pod_cgroup_limits(&pod(json!({"containers": [{"name": "c"}]})), &settings);
        assert_eq!(limits.pids, pids, "{setting}");
    }
}

#[test]
fn hugepages_are_limited_to_requests_per_size() {
    let pages = |requests: Value| container(requests.clone(), requests);
    let limits = limits(json!({
        "containers": [
            pages(json!({"hugepages-2Mi": "4Mi", "cpu": "1"})),
            pages(json!({"hugepages-2048Ki": "2Mi", "hugepages-1Gi": "1Gi"})),
        ],
        "initContainers": [pages(json!({"hugepages-1Gi": "2Gi"}))],
    }));
    let HugepageLimits::Sizes(sizes) = limits.hugepages else { panic!("no sizes") };
    let found: Vec<_> = sizes.iter().map(|page| (page.page_size.as_str(), page.limit)).collect();
    assert_eq!(found, [("1GB", 2 << 30), ("2MB", 6 << 20)]);
}
