//! Tests of ranking, messages and limits.

use super::*;

const MIB: u64 = 1 << 20;

fn ranked(pods: Vec<PodUsage>, signal: Signal, layout: DiskLayout) -> Vec<String> {
    rank(pods, signal, layout).iter().map(|own| own.pod.name().to_owned()).collect()
}

/// A pod of one container that requests and uses memory in MiB.
fn memory_user(name: &str, priority: i32, request: u64, used: Option<u64>) -> PodUsage {
    let requests = json!({"requests": {"memory": format!("{request}Mi")}});
    let spec = json!({"priority": priority, "containers": [{"name": "c", "resources": requests}]});
    let used = used.map(|used| PodStatistics { memory: memory(used * MIB), ..Default::default() });
    PodUsage { pod: Arc::new(pod(name, spec)), used }
}

#[test]
fn memory_ranks_by_excess_then_priority_then_usage() {
    let pods = vec![
        memory_user("within", -5, 200, Some(150)),
        memory_user("over-important", 10, 100, Some(900)),
        memory_user("over-little", 0, 100, Some(101)),
        memory_user("over-much", 0, 100, Some(300)),
        memory_user("unknown", 1000, 100, None),
        memory_user("exact", 0, 100, Some(100)),
    ];
    let expected = ["unknown", "over-much", "over-little", "over-important", "within", "exact"];
    assert_eq!(ranked(pods, Signal::MemoryAvailable, DiskLayout::Single), expected);
}

#[test]
fn process_ids_rank_by_priority_then_process_count() {
    let with = |name: &str, priority: i32, count: u64| PodUsage {
        pod: Arc::new(pod(name, json!({"priority": priority, "containers": []}))),
        used: Some(PodStatistics {
            processes: Some(ProcessStatistics { process_count: count }),
            ..Default::default()
        }),
    };
    let pods = vec![with("few", 0, 1), with("important", 5, 1000), with("many", 0, 9)];
    assert_eq!(ranked(pods, Signal::PidAvailable, DiskLayout::Single), ["many", "few", "important"]);
}

/// A pod of one container, with the disk usage of its parts.
fn disk_user(name: &str, request: &str, [rootfs, logs, volume]: [u64; 3]) -> PodUsage {
    let requests = json!({"requests": {"ephemeral-storage": request}});
    let spec = json!({
        "containers": [{"name": "c", "resources": requests}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}],
    });
    let container = ContainerStatistics {
        name: "c".into(),
        rootfs: fs(rootfs, 1),
        logs: fs(logs, 1),
        ..Default::default()
    };
    let volumes = ["v", "m"].map(|name| VolumeStatistics {
        name: name.into(),
        fs: fs(volume, volume).unwrap(),
        ..Default::default()
    });
    let used = PodStatistics { containers: vec![container], volumes: volumes.into(), ..Default::default() };
    PodUsage { pod: Arc::new(pod(name, spec)), used: Some(used) }
}

#[test]
fn disks_rank_by_usage_of_the_full_filesystem() {
    let pods = || {
        vec![
            disk_user("rootfs", "10", [500, 1, 1]),
            disk_user("logs", "10", [1, 300, 1]),
            disk_user("volume", "10", [1, 1, 400]),
            disk_user("entitled", "2k", [600, 600, 600]),
        ]
    };
    let all = ["rootfs", "volume", "logs", "entitled"];
    assert_eq!(ranked(pods(), Signal::NodeFsAvailable, DiskLayout::Single), all);
    assert_eq!(ranked(pods(), Signal::ImageFsAvailable, DiskLayout::Single), all);
    let apart = DiskLayout::DedicatedImageFs;
    let of_node = ["volume", "logs", "rootfs", "entitled"];
    assert_eq!(ranked(pods(), Signal::NodeFsAvailable, apart), of_node);
    assert_eq!(ranked(pods(), Signal::ImageFsAvailable, apart), ["rootfs", "logs", "volume", "entitled"]);
    let split = DiskLayout::SplitImageFs;
    assert_eq!(ranked(pods(), Signal::ContainerFsAvailable, split), all);
    // No part of a pod is on that filesystem, so all are within their requests; the pod with the largest request is last.
    let none = ["rootfs", "logs", "volume", "entitled"];
    assert_eq!(ranked(pods(), Signal::ImageFsAvailable, split), none);
    // Any pod with files exceeds its inode request, which is always zero.
    assert_eq!(ranked(pods(), Signal::NodeFsInodesFree, DiskLayout::Single)[0], "volume");
}

#[test]
fn pods_whose_files_take_too_long_to_count_are_evicted_before_pods_within_their_requests() {
    let pods = |disk_use_is_partial| {
        let mut uncounted = disk_user("uncounted", "2k", [1, 1, 1]);
        uncounted.used.as_mut().unwrap().disk_use_is_partial = disk_use_is_partial;
        vec![disk_user("entitled", "2k", [600, 600, 600]), uncounted]
    };
    let first = |is_partial, signal, layout| ranked(pods(is_partial), signal, layout)[0].clone();
    let (node_fs, apart) = (Signal::NodeFsAvailable, DiskLayout::DedicatedImageFs);
    assert_eq!(first(false, node_fs, apart), "entitled");
    assert_eq!(first(true, node_fs, apart), "uncounted");
    // Volumes are not on the file system of the images, and memory has nothing to do with files.
    assert_eq!(first(true, Signal::ImageFsAvailable, apart), "entitled");
    assert_eq!(first(true, Signal::MemoryAvailable, apart), first(false, Signal::MemoryAvailable, apart));
}

#[test]
fn eviction_note_names_threshold_and_offending_containers() {
    let resources = |memory: &str| json!({"requests": {"memory": memory}});
    let spec = json!({
        "containers": [{"name": "big", "resources": resources("1Mi")}, {"name": "fits", "resources": resources("1Gi")}],
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
    });
    let container = |name: &str, bytes| ContainerStatistics {
        name: name.into(),
        memory: memory(bytes),
        rootfs: fs(1024, 1),
        logs: fs(1024, 1),
        ..Default::default()
    };
    let used = PodStatistics {
        containers: vec![container("big", 3 * MIB), container("fits", MIB), container("side", 1500)],
        ..Default::default()
    };
    let pod = pod("p", spec);
    let own = [threshold(Signal::NodeFsAvailable, "10%"), threshold(Signal::MemoryAvailable, "100Mi")];
    let observations = observations(Signal::MemoryAvailable, 64 << 10, 1 << 30, 0);
    let note = eviction_note(StarvedResource::Memory, &pod, Some(&used), &own, &observations);
    assert_eq!(
        note.message,
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Ki. \
         Container big was using 3Mi, request is 1Mi, has larger consumption of memory. \
         Container side was using 1500, request is 0, has larger consumption of memory. "
    );
    let annotations = map(&[
        ("offending_containers", "big,side"),
        ("offending_containers_usage", "3Mi,1500"),
        ("starved_resource", "memory"),
    ]);
    assert_eq!(note.annotations, annotations);
    let unknown = eviction_note(StarvedResource::Memory, &pod, None, &[], &observations);
    assert_eq!(
        (unknown.message.as_str(), unknown.annotations.len()),
        ("The node was low on resource: memory. ", 0)
    );
    let disk = eviction_note(StarvedResource::EphemeralStorage, &pod, Some(&used), &[], &observations);
    assert!(disk.message.contains(
        "Container fits was using 2Ki, request is 0, has larger consumption of ephemeral-storage. "
    ));
    let inodes = eviction_note(StarvedResource::Inodes, &pod, Some(&used), &[], &observations);
    assert_eq!(inodes.message, "The node was low on resource: inodes. ");
    assert_eq!(inodes.annotations["offending_containers"], "");
}

#[test]
fn eviction_note_names_pod_with_pod_level_requests() {
    let pod = pod("p", json!({"containers": [], "resources": {"requests": {"memory": "1Mi"}}}));
    let used = PodStatistics { memory: memory(2 * MIB), ..Default::default() };
    let note = eviction_note(StarvedResource::Memory, &pod, Some(&used), &[], &SignalObservations::new());
    let expected = "The node was low on resource: memory. \
         Pod p was using 2Mi, request is 1Mi, has larger consumption of memory. ";
    assert_eq!(note.message, expected);
    assert_eq!(
        (&*note.annotations["offending_pod"], &*note.annotations["offending_pod_usage"]),
        ("p", "2Mi")
    );
}

fn limited(volume: Option<&str>, containers: &[Option<&str>]) -> Pod {
    let container = |(index, limit): (usize, &Option<&str>)| {
        let limits = limit.map(|limit| json!({"limits": {"ephemeral-storage": limit}}));
        json!({"name": format!("c{index}"), "resources": limits})
    };
    let containers: Vec<Json> = containers.iter().enumerate().map(container).collect();
    pod("p", json!({"containers": containers, "volumes": [{"name": "v", "emptyDir": {"sizeLimit": volume}}]}))
}

#[test]
fn measures_only_pods_with_limits() {
    for (pod, expected) in [
        (limited(None, &[None]), RequiredMeasurements::Nothing),
        (limited(Some("1Mi"), &[None]), RequiredMeasurements::Volumes),
        (limited(None, &[None, Some("1Mi")]), RequiredMeasurements::Everything),
    ] {
        assert_eq!(required_measurements(&pod), expected);
    }
}

#[test]
fn reports_first_exceeded_limit() {
    let used = |volume: u64, whole: u64, rootfs: u64, logs: u64| PodStatistics {
        volumes: vec![VolumeStatistics {
            name: "v".into(),
            fs: fs(volume, 1).unwrap(),
            ..Default::default()
        }],
        ephemeral_storage: fs(whole, 1),
        containers: vec![ContainerStatistics {
            name: "c0".into(),
            rootfs: fs(rootfs, 1),
            logs: fs(logs, 1),
            ..Default::default()
        }],
        ..Default::default()
    };
    let volume = "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ";
    let whole = "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. ";
    let container = "Container c0 exceeded its local ephemeral storage limit \"1Mi\". ";
    let one = DiskLayout::Single;
    let both = [Some("1Mi"), Some("2Mi")];
    let cases = [
        (limited(Some("1024Ki"), &[None]), used(MIB + 1, 0, 0, 0), one, Some(("emptydirfs.limit", volume))),
        (limited(Some("1Mi"), &[None]), used(MIB, 9 * MIB, 9 * MIB, 0), one, None),
        (limited(Some("0"), &[None]), used(MIB, 0, 0, 0), one, None),
        (limited(None, &both), used(9 * MIB, 3 * MIB + 1, 0, 0), one, Some(("ephemeralpodfs.limit", whole))),
        (
            limited(None, &both),
            used(0, 3 * MIB, MIB, 1),
            one,
            Some(("ephemeralcontainerfs.limit", container)),
        ),
        (limited(None, &both), used(0, 3 * MIB, MIB, 1), DiskLayout::DedicatedImageFs, None),
        (limited(None, &both), used(0, 3 * MIB, MIB, 0), one, None),
        (limited(None, &[None]), used(9, 9, 9, 9), one, None),
    ];
    for (pod, used, layout, expected) in cases {
        let found = exceeded_limit(&pod, &used, layout);
        let found = found.as_ref().map(|own| (own.signal, own.message.as_str()));
        assert_eq!(found, expected);
    }
}

proptest! {
    /// A pod within its request never precedes one that exceeds its request.
    #[test]
    fn pod_within_its_request_ranks_after_others(
        pods in proptest::collection::vec((-3_i32..3, 0_u64..50, 0_u64..50), 1..12),
    ) {
        let pods = pods.into_iter().enumerate();
        let pods = pods.map(|(at, (priority, request, used))| memory_user(&at.to_string(), priority, request, Some(used)));
        let pods: Vec<PodUsage> = pods.collect();
        let exceeds = |own: &PodUsage| {
            let used = own.used.as_ref().unwrap().memory.as_ref().unwrap().working_set_bytes.unwrap();
            let request = crate::pod_resources::resources::pod_requests(&own.pod)["memory"].units();
            i64::try_from(used).unwrap() > request
        };
        let ordered = rank(pods.clone(), Signal::MemoryAvailable, DiskLayout::Single);
        prop_assert_eq!(ordered.len(), pods.len());
        let order: Vec<(bool, i32)> = ordered.iter().map(|own| (!exceeds(own), own.pod.spec.priority.unwrap())).collect();
        prop_assert!(order.is_sorted(), "{:?}", order);
    }
}
