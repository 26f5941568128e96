use std::path::Path;
use std::time::Duration;

use model::{CgroupSettings, CgroupVersion, HostCapabilities};
use serde_json::json;

use super::*;
use crate::test_objects::pod;

/// Typical settings for tests.
pub(crate) fn settings() -> NodeSettings {
    NodeSettings {
        name: "node-1".into(),
        addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        root_dir: "/var/lib/kubelet".into(),
        pod_logs_dir: "/var/log/pods".into(),
        memory_capacity: 8 << 30,
        cpu_count: 4,
        cgroups: CgroupSettings::default(),
        capabilities: HostCapabilities {
            cgroup_version: CgroupVersion::V2,
            swap_controller: true,
            hugepage_sizes: vec!["2MB".into(), "1GB".into()],
            masked_cpu_paths: vec!["/sys/devices/system/cpu/cpu3/thermal_throttle".into()],
            selinux: Some(model::ContainerLabels {
                process: "system_u:system_r:container_t:s0".into(),
                file: "system_u:object_r:container_file_t:s0".into(),
            }),
        },
        cgroup_root: "/".into(),
        cgroup_driver: CgroupDriver::Cgroupfs,
        cgroups_per_qos: true,
        pods_cpus: None,
        cpu_cfs_quota: true,
        cpu_cfs_quota_period: Duration::from_millis(100),
        single_process_oom_kill: false,
        pod_pids_limit: -1,
        cluster_dns: vec!["10.96.0.10".parse().unwrap()],
        cluster_domain: "cluster.local".into(),
        resolv_conf: "/etc/resolv.conf".into(),
        seccomp_default: false,
        resources: crate::cgroups::allocatable::tests::resources(),
        admission: crate::admission::tests::settings(),
        container_stop_signals: true,
        cpu_policy: model::CpuPolicy::None,
        memory_policy: model::MemoryManagerPolicy::None,
        gates: model::PodGates::default(),
    }
}

#[test]
fn directories_match_upstream_layout() {
    let paths = PodPaths::new(&settings());
    let pod = pod(json!({"containers": []}));
    assert_eq!(paths.pod_dir(&pod.uid), Path::new("/var/lib/kubelet/pods/u"));
    assert_eq!(
        paths.volume_dir(&pod.uid, "kubernetes.io/empty-dir", "data"),
        Path::new("/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/data")
    );
    assert_eq!(PodPaths::container_dir_relative("c"), Path::new("containers/c"));
    assert_eq!(PodPaths::hosts_file_relative(), Path::new("etc-hosts"));
    assert_eq!(paths.log_dir(&pod), Path::new("/var/log/pods/default_p_u"));
    assert_eq!(PodPaths::container_log_relative("c", 3), "c/3.log");
}

#[test]
fn truncates_long_log_link_names() {
    let pod = pod(json!({"containers": []}));
    assert_eq!(PodPaths::log_link_name(&pod, "c", &"abc".into()), "p_default_c-abc.log");
    let long = PodPaths::log_link_name(&pod, &"c".repeat(300), &"abc".into());
    assert_eq!(long.len(), 255);
    assert!(long.starts_with("p_default_ccc") && long.ends_with("c.log"));
}

#[test]
fn cgroup_path_depends_on_qos_class_and_driver() {
    let resources = [
        ("BestEffort", json!({})),
        ("Burstable", json!({"requests": {"cpu": "1"}})),
        (
            "Guaranteed",
            json!({"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}),
        ),
    ];
    let plain = ["/kubepods/besteffort/poda-b", "/kubepods/burstable/poda-b", "/kubepods/poda-b"];
    let slices = [
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice",
        "/kubepods.slice/kubepods-poda_b.slice",
    ];
    for (index, (class, resources)) in resources.into_iter().enumerate() {
        let mut pod = pod(json!({"containers": [{"name": "c", "resources": resources}]}));
        pod.uid = "a-b".into();
        let mut settings = settings();
        assert_eq!(pod_cgroup(&pod, &settings), plain[index], "{class}");
        settings.cgroup_driver = CgroupDriver::Systemd;
        assert_eq!(pod_cgroup(&pod, &settings), slices[index], "{class}");
    }
}

#[test]
fn cgroup_path_starts_with_configured_root() {
    let pod = pod(json!({"containers": []}));
    let mut settings = settings();
    settings.cgroup_root = "/edge-box/agent".into();
    assert_eq!(pod_cgroup(&pod, &settings), "/edge-box/agent/kubepods/besteffort/podu");
    settings.cgroup_driver = CgroupDriver::Systemd;
    assert!(
        pod_cgroup(&pod, &settings)
            .starts_with("/edge_box.slice/edge_box-agent.slice/edge_box-agent-kubepods")
    );
    settings.cgroups_per_qos = false;
    assert_eq!(pod_cgroup(&pod, &settings), "");
}
