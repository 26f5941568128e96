#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

const GI: u64 = 1 << 30;

fn one(resources: Value) -> Pod {
    pod(json!({"containers": [{"name": "c", "image": "i", "resources": resources}]}))
}

fn of_container(pod: &Pod) -> LinuxResources {
    container_resources(pod, &pod.spec.containers[0], &settings())
}

#[test]
fn cpu_shares_follow_request_within_kernel_range() {
    for (milli, shares) in
        [(0, 2), (1, 2), (2, 2), (100, 102), (1000, 1024), (2500, 2560), (i64::MAX, 262_144)]
    {
        assert_eq!(cpu_shares(milli), shares, "{milli}");
    }
}

#[test]
fn cfs_quota_is_at_least_one_millisecond() {
    for (milli, period, quota) in [
        (0, 100_000, 0),
        (1, 100_000, 1000),
        (250, 100_000, 25_000),
        (2000, 100_000, 200_000),
        (500, 5000, 2500),
    ] {
        assert_eq!(cfs_quota(milli, period), quota, "{milli} in {period}");
    }
}

#[test]
fn container_gets_shares_quota_and_memory() {
    let pod = one(json!({"requests": {"cpu": "250m"}, "limits": {"cpu": "500m", "memory": "64Mi"}}));
    let resources = of_container(&pod);
    assert_eq!(resources.cpu_shares, 256);
    assert_eq!((resources.cpu_quota, resources.cpu_period), (50_000, 100_000));
    assert_eq!(resources.memory_limit_bytes, 64 << 20);
    assert!(resources.hugepages.iter().all(|page| page.limit == 0));
}

#[test]
fn missing_cpu_request_defaults_to_limit_but_zero_does_not() {
    assert_eq!(of_container(&one(json!({"limits": {"cpu": "1"}}))).cpu_shares, 1024);
    assert_eq!(of_container(&one(json!({"requests": {"cpu": "0"}, "limits": {"cpu": "1"}}))).cpu_shares, 2);
    assert_eq!(of_container(&one(json!({}))).cpu_shares, 2);
}

#[test]
fn disabled_cfs_quota_sets_neither_quota_nor_period() {
    let mut settings = settings();
    settings.cpu_cfs_quota = false;
    let pod = one(json!({"limits": {"cpu": "1"}}));
    let resources = container_resources(&pod, &pod.spec.containers[0], &settings);
    assert_eq!((resources.cpu_quota, resources.cpu_period), (0, 0));
    settings.cpu_cfs_quota = true;
    settings.cpu_cfs_quota_period = Duration::from_millis(5);
    let resources = container_resources(&pod, &pod.spec.containers[0], &settings);
    assert_eq!((resources.cpu_quota, resources.cpu_period), (5000, 5000));
}

#[test]
fn pod_level_limits_replace_missing_container_limits() {
    let pod = pod(json!({
        "resources": {"limits": {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}},
        "containers": [{"name": "c", "resources": {"limits": {"memory": "1Mi", "hugepages-2Mi": "2Mi"}}}],
    }));
    let resources = of_container(&pod);
    assert_eq!((resources.cpu_quota, resources.memory_limit_bytes), (200_000, 1 << 20));
    let pages: Vec<_> =
        resources.hugepages.iter().map(|page| (page.page_size.as_str(), page.limit)).collect();
    assert_eq!(pages, [("2MB", 2 << 20), ("1GB", GI)]);
}

#[test]
fn omits_page_sizes_that_the_node_lacks() {
    let pod = one(json!({"limits": {"hugepages-64Ki": "64Ki", "hugepages-2Mi": "2Mi"}}));
    let pages: Vec<_> =
        of_container(&pod).hugepages.into_iter().map(|page| (page.page_size, page.limit)).collect();
    assert_eq!(pages, [("2MB".to_owned(), 2 << 20), ("1GB".to_owned(), 0)]);
}

#[test]
fn disables_swap_as_far_as_cgroup_version_supports() {
    let pod = one(json!({"limits": {"memory": "1Mi"}}));
    let mut settings = settings();
    settings.single_process_oom_kill = true;
    for (version, controller, limit, files) in [
        (CgroupVersion::V1, true, 1 << 20, ""),
        (CgroupVersion::V1, false, 0, ""),
        (CgroupVersion::V2, true, 0, "memory.swap.max"),
        (CgroupVersion::V2, false, 0, ""),
    ] {
        settings.capabilities.cgroup_version = version;
        settings.capabilities.swap_controller = controller;
        let resources = container_resources(&pod, &pod.spec.containers[0], &settings);
        assert_eq!(resources.memory_swap_limit_bytes, limit, "{version:?}, {controller}");
        let keys: Vec<_> = resources.unified.keys().map(String::as_str).collect();
        assert_eq!(keys.join(","), files, "{version:?}, {controller}");
        let sandbox = sandbox_resources(&pod, &settings);
        assert!(sandbox.memory_swap_limit_bytes == 0 && sandbox.unified.is_empty());
    }
}

#[test]
fn enables_oom_group_on_cgroup_v2_unless_disabled() {
    let pod = one(json!({}));
    let mut settings = settings();
    for (version, single, grouped) in [
        (CgroupVersion::V2, false, true),
        (CgroupVersion::V2, true, false),
        (CgroupVersion::V1, false, false),
    ] {
        settings.capabilities.cgroup_version = version;
        settings.single_process_oom_kill = single;
        let container = container_resources(&pod, &pod.spec.containers[0], &settings);
        for resources in [container, sandbox_resources(&pod, &settings)] {
            assert_eq!(resources.unified.contains_key("memory.oom.group"), grouped, "{version:?}, {single}");
        }
    }
}

#[test]
fn page_size_names_match_kernel() {
    for (bytes, name) in [(1 << 21, Some("2MB")), (1 << 30, Some("1GB")), (65536, Some("64KB")), (0, None)] {
        assert_eq!(page_size_name(bytes).as_deref(), name, "{bytes}");
    }
    assert_eq!(page_size_name(3_000_001), None);
}

#[test]
fn sandbox_totals_respect_order_of_init_containers() {
    let pod = pod(json!({
        "initContainers": [
            {"name": "first", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "3Gi"}}},
            {"name": "side", "restartPolicy": "Always",
             "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}},
            {"name": "last", "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}},
        ],
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}],
    }));
    assert_eq!(pod_requests(&pod)["cpu"].milli(), 2500);
    assert_eq!(pod_limits(&pod)["memory"].units(), 3 << 30);
    let resources = sandbox_resources(&pod, &settings());
    assert_eq!((resources.cpu_shares, resources.memory_limit_bytes), (2560, 3 << 30));
    assert_eq!(resources.oom_score_adj, 0);
}

#[test]
fn overhead_counts_as_request_and_limit() {
    assert_eq!(overhead_resources(&one(json!({})), &settings()), LinuxResources::default());
    let pod = pod(json!({"overhead": {"cpu": "100m", "memory": "10Mi"}, "containers": []}));
    let resources = overhead_resources(&pod, &settings());
    assert_eq!(
        (resources.cpu_shares, resources.cpu_quota, resources.memory_limit_bytes),
        (102, 10_000, 10 << 20)
    );
}

#[test]
fn pod_has_memory_limit_only_if_all_containers_have_one() {
    let some =
        json!({"name": "a", "resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Mi"}}});
    let none = json!({"name": "b"});
    let limit = |spec| declared_limit(&pod(spec), "memory").map(Amount::units);
    assert_eq!(limit(json!({"containers": [some]})), Some(1 << 30));
    assert_eq!(limit(json!({"containers": [some, none]})), None);
    assert_eq!(limit(json!({"containers": [some], "initContainers": [none]})), None);
    assert_eq!(limit(json!({"containers": [none]})), None);
    let of_pod = json!({"limits": {"memory": "2Gi"}});
    assert_eq!(limit(json!({"containers": [some, none], "resources": of_pod})), Some(2 << 30));
    let overhead = json!({"memory": "1Gi"});
    assert_eq!(limit(json!({"containers": [some], "overhead": overhead})), Some(2 << 30));
}

#[test]
fn oom_scores_rank_qos_classes() {
    let score = |pod: &Pod| oom_score_adj(pod, &pod.spec.containers[0], 10 * GI);
    assert_eq!(score(&one(json!({}))), 1000);
    let full = json!({"cpu": "1", "memory": "1Gi"});
    assert_eq!(score(&one(json!({"requests": full, "limits": full}))), -997);
    for (request, expected) in [("1", 999), ("1Gi", 900), ("5Gi", 500), ("10Gi", 3), ("20Gi", 3)] {
        assert_eq!(score(&one(json!({"requests": {"memory": request}}))), expected, "{request}");
    }
    let mut critical = one(json!({}));
    critical.spec.priority_class_name = Some("system-node-critical".into());
    assert_eq!(score(&critical), -997);
    critical.source = model::PodSource::Api;
    assert_eq!(score(&critical), 1000);
}

#[test]
fn sidecar_has_no_higher_oom_score_than_regular_containers() {
    let pod = pod(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [
            {"name": "a", "resources": {"requests": {"memory": "4Gi"}}},
            {"name": "b", "resources": {"requests": {"memory": "2Gi"}}},
        ],
    }));
    let sidecar = &pod.spec.init_containers.as_ref().unwrap()[0];
    assert_eq!(oom_score_adj(&pod, sidecar, 10 * GI), 800);
}

#[test]
fn unclaimed_pod_memory_is_shared_evenly() {
    let pod = pod(json!({
        "resources": {"requests": {"memory": "4Gi"}},
        "containers": [{"name": "a", "resources": {"requests": {"memory": "2Gi"}}}, {"name": "b"}],
    }));
    assert_eq!(oom_score_adj(&pod, &pod.spec.containers[0], 10 * GI), 700);
    assert_eq!(oom_score_adj(&pod, &pod.spec.containers[1], 10 * GI), 900);
}

proptest! {
    #[test]
    fn shares_and_quota_grow_with_the_request(a in 0_i64..1 << 40, b in 0_i64..1 << 40, period in 1000_i64..1_000_000) {
        let (low, high) = (a.min(b), a.max(b));
        prop_assert!(cpu_shares(low) <= cpu_shares(high));
        prop_assert!((MIN_CPU_SHARES..=MAX_CPU_SHARES).contains(&cpu_shares(high)));
        prop_assert!(cfs_quota(low, period) <= cfs_quota(high, period));
    }

    #[test]
    fn burstable_oom_scores_lie_between_the_other_classes(request in 1_u64.., capacity in any::<u64>()) {
        let pod = one(json!({"requests": {"memory": request.to_string()}}));
        let score = oom_score_adj(&pod, &pod.spec.containers[0], capacity);
        prop_assert!((3..=999).contains(&score));
    }
}
