//! Which pods go, and what is told of them.

use super::*;

const MIB: u64 = 1 << 20;

fn ranked(pods: Vec<PodUse>, signal: Signal, layout: DiskLayout) -> Vec<String> {
    rank(pods, signal, layout).iter().map(|own| own.pod.name().to_owned()).collect()
}

/// A pod of one container that requests and uses memory in MiB.
fn eater(name: &str, priority: i32, request: u64, used: Option<u64>) -> PodUse {
    let requests = json!({"requests": {"memory": format!("{request}Mi")}});
    let spec = json!({"priority": priority, "containers": [{"name": "c", "resources": requests}]});
    let used = used.map(|used| PodStatistics { memory: memory(used * MIB), ..Default::default() });
    PodUse { pod: Arc::new(pod(name, spec)), used }
}

#[test]
fn memory_takes_who_exceeds_its_request_then_low_priority_then_the_largest() {
    let pods = vec![
        eater("within", -5, 200, Some(150)),
        eater("over-important", 10, 100, Some(900)),
        eater("over-little", 0, 100, Some(101)),
        eater("over-much", 0, 100, Some(300)),
        eater("unknown", 1000, 100, None),
        eater("exact", 0, 100, Some(100)),
    ];
    let expected = ["unknown", "over-much", "over-little", "over-important", "within", "exact"];
    assert_eq!(ranked(pods, Signal::MemoryAvailable, DiskLayout::One), expected);
}

#[test]
fn process_ids_take_low_priority_then_the_most_processes() {
    let with = |name: &str, priority: i32, count: u64| PodUse {
        pod: Arc::new(pod(name, json!({"priority": priority, "containers": []}))),
        used: Some(PodStatistics {
            processes: Some(ProcessStatistics { process_count: count }),
            ..Default::default()
        }),
    };
    let pods = vec![with("few", 0, 1), with("important", 5, 1000), with("many", 0, 9)];
    assert_eq!(ranked(pods, Signal::PidAvailable, DiskLayout::One), ["many", "few", "important"]);
}

/// A pod of one container, with what its parts take of disks.
fn writer(name: &str, request: &str, [rootfs, logs, volume]: [u64; 3]) -> PodUse {
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
    PodUse { pod: Arc::new(pod(name, spec)), used: Some(used) }
}

#[test]
fn disks_take_who_uses_most_of_the_disk_that_is_full() {
    let pods = || {
        vec![
            writer("rootfs", "10", [500, 1, 1]),
            writer("logs", "10", [1, 300, 1]),
            writer("volume", "10", [1, 1, 400]),
            writer("entitled", "2k", [600, 600, 600]),
        ]
    };
    let all = ["rootfs", "volume", "logs", "entitled"];
    assert_eq!(ranked(pods(), Signal::NodeFsAvailable, DiskLayout::One), all);
    assert_eq!(ranked(pods(), Signal::ImageFsAvailable, DiskLayout::One), all);
    let apart = DiskLayout::ImagesApart;
    let of_node = ["volume", "logs", "rootfs", "entitled"];
    assert_eq!(ranked(pods(), Signal::NodeFsAvailable, apart), of_node);
    assert_eq!(ranked(pods(), Signal::ImageFsAvailable, apart), ["rootfs", "logs", "volume", "entitled"]);
    let split = DiskLayout::ImagesAndContainersApart;
    assert_eq!(ranked(pods(), Signal::ContainerFsAvailable, split), all);
    // Nothing of a pod lies there, so all are within their requests; the one that requests most goes last.
    let none = ["rootfs", "logs", "volume", "entitled"];
    assert_eq!(ranked(pods(), Signal::ImageFsAvailable, split), none);
    // Whoever has files exceeds its request of inodes, which nobody can make.
    assert_eq!(ranked(pods(), Signal::NodeFsInodesFree, DiskLayout::One)[0], "volume");
}

#[test]
fn the_note_names_threshold_and_offenders() {
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
    let seen = seen(Signal::MemoryAvailable, 64 << 10, 1 << 30, 0);
    let note = eviction_note(Starved::Memory, &pod, Some(&used), &own, &seen);
    assert_eq!(
        note.message,
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Ki. \
         Container big was using 3Mi, request is 1Mi, has larger consumption of memory. \
         Container side was using 1500, request is 0, has larger consumption of memory. "
    );
    let annotations = words(&[
        ("offending_containers", "big,side"),
        ("offending_containers_usage", "3Mi,1500"),
        ("starved_resource", "memory"),
    ]);
    assert_eq!(note.annotations, annotations);
    let unknown = eviction_note(Starved::Memory, &pod, None, &[], &seen);
    assert_eq!(
        (unknown.message.as_str(), unknown.annotations.len()),
        ("The node was low on resource: memory. ", 0)
    );
    let disk = eviction_note(Starved::EphemeralStorage, &pod, Some(&used), &[], &seen);
    assert!(disk.message.contains(
        "Container fits was using 2Ki, request is 0, has larger consumption of ephemeral-storage. "
    ));
    let inodes = eviction_note(Starved::Inodes, &pod, Some(&used), &[], &seen);
    assert_eq!(inodes.message, "The node was low on resource: inodes. ");
    assert_eq!(inodes.annotations["offending_containers"], "");
}

#[test]
fn a_pod_with_requests_of_its_own_is_named_as_a_whole() {
    let pod = pod("p", json!({"containers": [], "resources": {"requests": {"memory": "1Mi"}}}));
    let used = PodStatistics { memory: memory(2 * MIB), ..Default::default() };
    let note = eviction_note(Starved::Memory, &pod, Some(&used), &[], &Observations::new());
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
fn only_pods_with_limits_are_measured() {
    for (pod, expected) in [
        (limited(None, &[None]), LimitReadings::Nothing),
        (limited(Some("1Mi"), &[None]), LimitReadings::Volumes),
        (limited(None, &[None, Some("1Mi")]), LimitReadings::Everything),
    ] {
        assert_eq!(limit_readings(&pod), expected);
    }
}

#[test]
fn the_first_limit_that_is_broken_is_told() {
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
    let one = DiskLayout::One;
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
        (limited(None, &both), used(0, 3 * MIB, MIB, 1), DiskLayout::ImagesApart, None),
        (limited(None, &both), used(0, 3 * MIB, MIB, 0), one, None),
        (limited(None, &[None]), used(9, 9, 9, 9), one, None),
    ];
    for (pod, used, layout, expected) in cases {
        let found = broken_limit(&pod, &used, layout);
        let found = found.as_ref().map(|own| (own.signal, own.message.as_str()));
        assert_eq!(found, expected);
    }
}

proptest! {
    /// Whoever comes first is never a pod that keeps to its request while another one does not.
    #[test]
    fn a_pod_within_its_request_goes_after_all_others(
        pods in proptest::collection::vec((-3_i32..3, 0_u64..50, 0_u64..50), 1..12),
    ) {
        let pods = pods.into_iter().enumerate();
        let pods = pods.map(|(at, (priority, request, used))| eater(&at.to_string(), priority, request, Some(used)));
        let pods: Vec<PodUse> = pods.collect();
        let exceeds = |own: &PodUse| {
            let used = own.used.as_ref().unwrap().memory.as_ref().unwrap().working_set_bytes.unwrap();
            let request = crate::resources::pod_requests(&own.pod)["memory"].units();
            i64::try_from(used).unwrap() > request
        };
        let ordered = rank(pods.clone(), Signal::MemoryAvailable, DiskLayout::One);
        prop_assert_eq!(ordered.len(), pods.len());
        let order: Vec<(bool, i32)> = ordered.iter().map(|own| (!exceeds(own), own.pod.spec.priority.unwrap())).collect();
        prop_assert!(order.is_sorted(), "{:?}", order);
    }
}
