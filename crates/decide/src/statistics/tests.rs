use model::metric_family::MetricFamily;
use model::statistics::ClaimReference;
use model::usage::{
    CgroupUsage, CpuUsage, DiskUse, FilesystemRoom, FullUsage, InterfaceUsage, MemoryUsage, Traffic,
    WritableLayer,
};
use model::{ContainerState, ObservedPod, PodFullName, SandboxState, Timestamp};
use serde_json::{Value, json};

use super::cadvisor::{CadvisorReadings, cadvisor_families};
use super::claims::claim_families;
use super::locations::{Measure, volume_locations};
use super::readings::{PodReading, Reading, RunningContainer, RunningPod, arrange, id_in_cgroup_name};
use super::resource::resource_families;
use super::summary::{EnvironmentReading, NodeReading, PodFilesReading, VolumeReading, summary};
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::{container, observed, pod, sandbox};
use crate::volumes::ClaimedVolume;

const SECOND: i64 = 1_700_000_000;

fn reading(path: &str, cpu: u64) -> Reading {
    let memory = MemoryUsage { usage: 100, working_set: 80, rss: 60, ..MemoryUsage::default() };
    let usage = CgroupUsage {
        time: Timestamp::from_secs(SECOND),
        created_at: Timestamp::from_secs(SECOND - 10),
        cpu: CpuUsage { total: cpu },
        memory,
        processes: Some(1),
        full: Some(Box::default()),
        ..CgroupUsage::default()
    };
    Reading { path: path.to_owned(), usage, nano_cores: Some(7) }
}

fn running() -> RunningPod {
    RunningPod {
        uid: "u-1".into(),
        full_name: PodFullName { namespace: "default".into(), name: "web".into() },
        sandbox: "s1".into(),
        started_at: Timestamp::from_secs(SECOND - 20),
        containers: vec![RunningContainer {
            name: "main".into(),
            id: "c1".into(),
            created_at: Timestamp::from_nanos(SECOND * 1_000_000_000 + 500_000_000),
            image: "demo:1".into(),
        }],
    }
}

fn pod_reading() -> PodReading {
    let children = vec![
        reading("/kubepods/podu-1/cri-containerd-s1.scope", 1),
        reading("/kubepods/podu-1/cri-containerd-c1.scope", 2_000_000_000),
        reading("/kubepods/podu-1/crio-conmon-c1.scope", 5),
    ];
    let mut found = arrange(running(), Some(reading("/kubepods/podu-1", 3_000_000_000)), children);
    let received = Traffic { bytes: 10, ..Traffic::default() };
    found.network = Some(vec![InterfaceUsage { name: "eth0".into(), received, sent: Traffic::default() }]);
    found
}

fn node() -> NodeReading {
    NodeReading {
        name: "node-a".into(),
        root: Some(reading("/", 9_000_000_000)),
        system: vec![("kubelet", reading("/agent", 3)), ("pods", reading("/kubepods", 4))],
        agent_started_at: Timestamp::from_secs(SECOND - 5),
        booted_at: Some(Timestamp::from_secs(SECOND - 1000)),
        memory: 1000,
        swap: 0,
    }
}

/// Families as text: `name{label="value"} value@milliseconds`.
fn lines(families: &[MetricFamily], name: &str) -> Vec<String> {
    let family = families.iter().find(|family| family.name == name);
    let series = family.into_iter().flat_map(|family| &family.series);
    series
        .map(|one| {
            let labels: Vec<String> =
                one.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let time = one.time.map(|time| format!("@{}", time.as_nanos() / 1_000_000)).unwrap_or_default();
            format!("{} {}{time}", labels.join(","), one.value)
        })
        .collect()
}

#[test]
fn finds_container_id_in_cgroup_name() {
    for (name, id) in [
        ("c1", Some("c1")),
        ("cri-containerd-c1.scope", Some("c1")),
        ("crio-c1.scope", Some("c1")),
        ("crio-conmon-c1.scope", None),
    ] {
        assert_eq!(id_in_cgroup_name(name), id, "{name}");
    }
    let found = pod_reading();
    assert_eq!(found.sandbox.unwrap().usage.cpu.total, 1);
    assert_eq!(found.containers[0].as_ref().unwrap().usage.cpu.total, 2_000_000_000);
}

fn seen(state: ContainerState, sandbox_state: SandboxState) -> ObservedPod {
    let containers =
        vec![container("c2", "main", 1, state), container("c1", "main", 0, ContainerState::Exited)];
    observed(vec![sandbox("s1", 0, sandbox_state)], containers)
}

#[test]
fn pods_with_a_running_container_have_statistics() {
    let found = |container, sandbox| super::readings::running_pods([seen(container, sandbox)].iter()).len();
    assert_eq!(found(ContainerState::Running, SandboxState::Ready), 1);
    assert_eq!(found(ContainerState::Exited, SandboxState::Ready), 0);
    assert_eq!(found(ContainerState::Running, SandboxState::NotReady), 0);
    let pods = super::readings::running_pods([seen(ContainerState::Running, SandboxState::Ready)].iter());
    assert_eq!(pods[0].containers.len(), 1);
    assert_eq!(pods[0].containers[0].id.as_str(), "c2");
}

#[test]
fn pods_without_running_container_have_only_cgroups() {
    let found = |container, sandbox| super::readings::present_pods([seen(container, sandbox)].iter()).len();
    assert_eq!(found(ContainerState::Exited, SandboxState::Ready), 1);
    assert_eq!(found(ContainerState::Running, SandboxState::NotReady), 0);
    let mut waiting = pod_reading();
    waiting.pod.containers.clear();
    waiting.containers.clear();
    let waiting = [waiting];
    assert!(summary(&node(), &waiting, None).pods.is_empty());
    assert_eq!(lines(&resource_families(&node(), &waiting), "pod_cpu_usage_seconds_total").len(), 0);
    let families = cadvisor_families(&node(), &waiting, &CadvisorReadings::default());
    let cpu = lines(&families, "container_cpu_usage_seconds_total");
    let of_pod = cpu.iter().filter(|line| line.contains("pod=web"));
    assert_eq!(of_pod.count(), 2, "{cpu:?}");
    let received = lines(&families, "container_network_receive_bytes_total");
    assert!(received.iter().any(|line| line.contains("pod=web")), "{received:?}");
}

#[test]
fn resource_metrics_have_reading_timestamps() {
    let families = resource_families(&node(), &[pod_reading()]);
    let names: Vec<&str> = families.iter().map(|family| family.name).collect();
    assert_eq!(
        names,
        [
            "container_cpu_usage_seconds_total",
            "container_memory_working_set_bytes",
            "container_start_time_seconds",
            "container_swap_usage_bytes",
            "node_cpu_usage_seconds_total",
            "node_memory_working_set_bytes",
            "node_swap_usage_bytes",
            "pod_cpu_usage_seconds_total",
            "pod_memory_working_set_bytes",
            "pod_swap_usage_bytes",
            "resource_scrape_error",
        ]
    );
    let cpu = lines(&families, "container_cpu_usage_seconds_total");
    assert_eq!(cpu, ["container=main,namespace=default,pod=web 2@1700000000000"]);
    let start = lines(&families, "container_start_time_seconds");
    assert_eq!(start, ["container=main,namespace=default,pod=web 1700000000.5"]);
    assert_eq!(lines(&families, "resource_scrape_error"), [" 0"]);
    let without = resource_families(&NodeReading::default(), &[]);
    assert_eq!(lines(&without, "resource_scrape_error"), [" 1"]);
}

fn environment_reading() -> EnvironmentReading {
    let room = FilesystemRoom { capacity: 1000, available: 400, used: 500, inodes: 100, inodes_free: 60 };
    let volume = |name: &str, is_local, bytes| VolumeReading {
        name: name.into(),
        claim: None,
        time: Timestamp::from_secs(SECOND),
        room,
        used: Some(DiskUse { bytes, inodes: 2 }),
        is_abnormal: None,
        is_local,
    };
    let files = PodFilesReading {
        logs: [("main".to_owned(), DiskUse { bytes: 4, inodes: 1 })].into(),
        others: DiskUse { bytes: 8, inodes: 1 },
        volumes: vec![volume("data", true, 16), volume("memory", false, 32)],
        is_complete: true,
    };
    let layer = WritableLayer { time: Timestamp::from_secs(SECOND), used: DiskUse { bytes: 64, inodes: 8 } };
    EnvironmentReading {
        time: Timestamp::from_secs(SECOND),
        node_fs: Some(room),
        image_fs: Some((room, DiskUse { bytes: 90, inodes: 9 })),
        container_fs: Some((room, DiskUse { bytes: 90, inodes: 9 })),
        layers: [("c1".into(), layer)].into(),
        files: [("u-1".into(), files)].into(),
        ..EnvironmentReading::default()
    }
}

fn shown(environment: Option<&EnvironmentReading>) -> Value {
    serde_json::to_value(summary(&node(), &[pod_reading()], environment)).unwrap()
}

#[test]
fn summary_has_upstreams_fields() {
    let shown = shown(Some(&environment_reading()));
    let keys = |pointer: &str| -> Vec<String> {
        shown.pointer(pointer).unwrap().as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(
        keys("/node"),
        ["cpu", "fs", "io", "memory", "nodeName", "runtime", "startTime", "swap", "systemContainers"]
    );
    assert_eq!(
        keys("/pods/0"),
        [
            "containers",
            "cpu",
            "ephemeral-storage",
            "io",
            "memory",
            "network",
            "podRef",
            "process_stats",
            "startTime",
            "swap",
            "volume"
        ]
    );
    assert_eq!(
        keys("/pods/0/containers/0"),
        ["cpu", "io", "logs", "memory", "name", "rootfs", "startTime", "swap"]
    );
    assert_eq!(shown.pointer("/node/memory/availableBytes"), Some(&json!(920)));
    let started =
        |at: usize| shown.pointer(&format!("/node/systemContainers/{at}/startTime")).unwrap().clone();
    let at = |seconds| json!(Timestamp::from_secs(seconds).to_api_time());
    assert_eq!((started(0), started(1)), (at(SECOND - 5), at(SECOND - 10)));
    // Nothing is limited, so nothing is said of what is left.
    assert_eq!(shown.pointer("/pods/0/memory/availableBytes"), None);
    let network = shown.pointer("/pods/0/network").unwrap();
    assert_eq!((&network["name"], &network["rxBytes"]), (&json!("eth0"), &json!(10)));
    assert_eq!(network["interfaces"][0]["rxBytes"], json!(10));
    let stall = json!({"total": 0, "avg10": 0.0, "avg60": 0.0, "avg300": 0.0});
    assert_eq!(shown.pointer("/pods/0/cpu/psi"), Some(&json!({"full": stall, "some": stall})));
    assert_eq!(shown.pointer("/pods/0/startTime"), Some(&json!("2023-11-14T22:13:00Z")));
}

#[test]
fn ephemeral_storage_sums_layers_logs_hosts_file_and_local_volumes() {
    let shown = shown(Some(&environment_reading()));
    let storage = shown.pointer("/pods/0/ephemeral-storage").unwrap();
    assert_eq!(storage["usedBytes"], json!(64 + 4 + 8 + 16));
    assert_eq!(storage["inodesUsed"], json!(8 + 1 + 1 + 2));
    assert_eq!(storage["availableBytes"], json!(400));
}

#[test]
fn basic_summary_has_only_cpu_and_memory() {
    let shown = shown(None);
    let pod = shown.pointer("/pods/0").unwrap().as_object().unwrap();
    let keys: Vec<&str> = pod.keys().map(String::as_str).collect();
    assert_eq!(keys, ["containers", "cpu", "memory", "podRef", "startTime", "swap"]);
}

#[test]
fn cadvisor_series_have_cgroup_pod_and_container_labels() {
    let mut pod = pod_reading();
    if let Some(Some(container)) = pod.containers.first_mut() {
        container.usage.full = Some(Box::new(FullUsage { cpu_quota: Some(40_000), ..FullUsage::default() }));
    }
    let environment = CadvisorReadings {
        sandbox_images: [("s1".into(), "pause:1".to_owned())].into(),
        classes: vec![reading("/kubepods", 4)],
        now: Timestamp::from_secs(SECOND + 1),
        ..CadvisorReadings::default()
    };
    let families = cadvisor_families(&node(), &[pod], &environment);
    let cpu = lines(&families, "container_cpu_usage_seconds_total");
    assert_eq!(cpu.len(), 6, "{cpu:?}");
    let main = "container=main,cpu=total,id=/kubepods/podu-1/cri-containerd-c1.scope,image=demo:1,name=c1,\
                namespace=default,pod=web 2@1700000000000";
    assert!(cpu.contains(&main.to_owned()), "{cpu:?}");
    let sandbox = lines(&families, "container_network_receive_bytes_total");
    let expected = "container=,id=/kubepods/podu-1/cri-containerd-s1.scope,image=pause:1,interface=eth0,name=s1,\
                    namespace=default,pod=web 10@1700000000000";
    assert_eq!(sandbox, [expected]);
    // Only limited cgroups have periods; limits and start times have no time of reading.
    assert_eq!(lines(&families, "container_cpu_cfs_periods_total").len(), 1);
    assert_eq!(lines(&families, "container_spec_cpu_quota").len(), 1);
    assert!(lines(&families, "container_start_time_seconds").iter().all(|line| !line.contains('@')));
    let limits = lines(&families, "container_spec_memory_limit_bytes");
    assert!(limits.contains(&"container=,id=/,image=,name=,namespace=,pod= 1000".to_owned()), "{limits:?}");
}

#[test]
fn locates_volumes_by_kind() {
    let object = pod(json!({
        "containers": [{"name": "main", "image": "x", "volumeMounts": [
            {"name": "data", "mountPath": "/a"}, {"name": "memory", "mountPath": "/b"},
            {"name": "host", "mountPath": "/c"}, {"name": "settings", "mountPath": "/d"},
        ]}],
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            {"name": "host", "hostPath": {"path": "/"}},
            {"name": "settings", "configMap": {"name": "x"}},
            {"name": "unused", "emptyDir": {}},
        ],
    }));
    let places = volume_locations(&object, &settings(), &Default::default());
    let found: Vec<(&str, Measure, bool)> =
        places.iter().map(|place| (place.name.as_str(), place.measure.clone(), place.is_local)).collect();
    let expected = [
        ("data", Measure::Files, true),
        ("memory", Measure::Files, false),
        ("settings", Measure::Files, true),
    ];
    assert_eq!(found, expected);
}

/// Where the device of a claimed volume is, and how it is measured.
fn device_place(source: &Value) -> (String, Measure) {
    let object = pod(json!({
        "containers": [{"name": "main", "image": "x", "volumeDevices": [{"name": "disk", "devicePath": "/d"}]}],
        "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "c"}}],
    }));
    let mut spec = json!({"volumeMode": "Block", "claimRef": {"uid": "claim-uid"}});
    for (key, value) in source.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let volume = json!({"metadata": {"name": "pv"}, "spec": spec});
    let claim = json!({
        "metadata": {"name": "c", "namespace": "default", "uid": "claim-uid"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
    });
    let claimed = ClaimedVolume {
        claim: serde_json::from_value(claim).unwrap(),
        volume: serde_json::from_value(volume).unwrap(),
    };
    let mut places = volume_locations(&object, &settings(), &[("disk".to_owned(), claimed)].into());
    let place = places.remove(0);
    assert_eq!(place.claim.unwrap().name, "c");
    (place.path.display().to_string(), place.measure)
}

#[test]
fn block_devices_have_statistics() {
    let local = device_place(&json!({"local": {"path": "/dev/sdx"}}));
    assert_eq!(local, ("/dev/sdx".to_owned(), Measure::Device));
    let driven = device_place(&json!({"csi": {"driver": "d", "volumeHandle": "h"}}));
    let path = "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pv/u";
    let measure = Measure::DrivenDevice { driver: "d".into(), handle: "h".into() };
    assert_eq!(driven, (path.to_owned(), measure));
}

#[test]
fn claim_of_several_pods_appears_once() {
    let volume = VolumeReading {
        name: "data".into(),
        claim: Some(ClaimReference { name: "claim".into(), namespace: "default".into() }),
        time: Timestamp::ZERO,
        room: FilesystemRoom { capacity: 9, ..FilesystemRoom::default() },
        used: None,
        is_abnormal: Some(true),
        is_local: false,
    };
    let files = PodFilesReading { volumes: vec![volume], ..PodFilesReading::default() };
    let families = claim_families([&files, &files].into_iter());
    assert_eq!(families.len(), 7);
    let abnormal = lines(&families, "kubelet_volume_stats_health_status_abnormal");
    assert_eq!(abnormal, ["namespace=default,persistentvolumeclaim=claim 1"]);
    let capacity = lines(&families, "kubelet_volume_stats_capacity_bytes");
    assert_eq!(capacity, ["namespace=default,persistentvolumeclaim=claim 9"]);
}
