use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::statistics::{ContainerStatistics, FsStatistics, MemoryStatistics, PodStatistics};
use model::statistics::{ProcessStatistics, VolumeStatistics};
use model::usage::{CgroupUsage, FilesystemRoom, MemoryUsage, ProcessCount};
use model::{Pod, PodSource, Timestamp};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::node_status::Pressure;

const MIB: u64 = 1 << 20;
const TRANSITION: Duration = Duration::from_secs(300);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + seconds)
}

fn words(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn threshold(signal: Signal, value: &str) -> Threshold {
    Threshold { signal, value: Value::parse(value).unwrap(), grace: Duration::ZERO, min_reclaim: None }
}

fn seen(signal: Signal, available: i64, capacity: i64, time: i64) -> Observations {
    [(signal, Observed { available, capacity, at: at(time) })].into()
}

fn pod(name: &str, spec: Json) -> Pod {
    let object = json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": spec});
    Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap()
}

fn fs(bytes: u64, inodes: u64) -> Option<FsStatistics> {
    Some(FsStatistics { used_bytes: Some(bytes), inodes_used: Some(inodes), ..Default::default() })
}

fn memory(bytes: u64) -> Option<MemoryStatistics> {
    Some(MemoryStatistics { working_set_bytes: Some(bytes), ..Default::default() })
}

#[test]
fn words_become_thresholds() {
    let hard = words(&[
        ("memory.available", "100Mi"),
        ("nodefs.available", "10%"),
        ("pid.available", "1k"),
        ("imagefs.available", "0%"),
        ("imagefs.inodesFree", "100%"),
    ]);
    let reclaim = words(&[("memory.available", "1Gi")]);
    let minute = Duration::from_secs(60);
    let mut configured = Configured {
        hard: Some(&hard),
        soft: vec![("memory.available", "200Mi", minute)],
        min_reclaim: Some(&reclaim),
        limits_pods: true,
    };
    let found = thresholds(&configured);
    let shown: Vec<_> = found.iter().map(|own| (own.signal.as_str(), own.value, own.grace)).collect();
    let hundred = Value::Binary(100 << 20);
    assert_eq!(
        shown,
        [
            ("memory.available", hundred, Duration::ZERO),
            ("nodefs.available", Value::Share(0.1), Duration::ZERO),
            ("pid.available", Value::Decimal(1000), Duration::ZERO),
            ("memory.available", Value::Binary(200 << 20), minute),
            ("allocatableMemory.available", hundred, Duration::ZERO),
        ]
    );
    let with_reclaim = found.iter().filter(|own| own.min_reclaim == Some(Value::Binary(1 << 30)));
    assert_eq!(with_reclaim.count(), 3);
    configured.limits_pods = false;
    assert!(thresholds(&configured).iter().all(|own| own.signal != Signal::AllocatableMemoryAvailable));
    assert_eq!(thresholds(&Configured::default()), []);
}

#[test]
fn every_signal_has_its_word() {
    for signal in Signal::ALL {
        assert_eq!(Signal::named(signal.as_str()), Some(signal));
    }
    assert_eq!(Signal::named("disk.free"), None);
}

#[test]
fn containers_have_the_thresholds_of_their_disk() {
    let configured = vec![
        threshold(Signal::NodeFsAvailable, "10%"),
        Threshold { grace: Duration::from_secs(9), ..threshold(Signal::NodeFsInodesFree, "5%") },
        threshold(Signal::ImageFsAvailable, "15%"),
        threshold(Signal::ContainerFsAvailable, "1Gi"),
        threshold(Signal::ContainerFsInodesFree, "7"),
    ];
    let of_containers = |layout| {
        let all = with_container_disk(configured.clone(), layout);
        let is_own = |own: &&Threshold| own.signal.as_str().starts_with("containerfs");
        all.iter().filter(is_own).map(|own| (own.signal, own.value, own.grace.as_secs())).collect::<Vec<_>>()
    };
    let of_node = [
        (Signal::ContainerFsAvailable, Value::Share(0.1), 0),
        (Signal::ContainerFsInodesFree, Value::Share(0.05), 9),
    ];
    assert_eq!(of_containers(DiskLayout::One), of_node);
    assert_eq!(of_containers(DiskLayout::ImagesAndContainersApart), of_node);
    let of_images = [(Signal::ContainerFsAvailable, Value::Share(0.15), 0)];
    assert_eq!(of_containers(DiskLayout::ImagesApart), of_images);
}

#[test]
fn disks_are_told_apart_by_their_devices() {
    for (devices, expected) in [
        ((1, 1, 1), DiskLayout::One),
        ((1, 2, 2), DiskLayout::ImagesApart),
        ((1, 2, 1), DiskLayout::ImagesAndContainersApart),
        ((1, 1, 2), DiskLayout::ImagesAndContainersApart),
        ((1, 2, 3), DiskLayout::ImagesAndContainersApart),
    ] {
        assert_eq!(layout(&devices.0, &devices.1, &devices.2), expected, "{devices:?}");
    }
}

#[test]
fn what_can_be_given_up_depends_on_the_disks() {
    use Reclaim::{DeadContainers, UnusedImages};
    let [one, apart, split] =
        [DiskLayout::One, DiskLayout::ImagesApart, DiskLayout::ImagesAndContainersApart];
    let both: &[Reclaim] = &[DeadContainers, UnusedImages];
    let table: [(Signal, [&[Reclaim]; 3]); 5] = [
        (Signal::MemoryAvailable, [&[], &[], &[]]),
        (Signal::PidAvailable, [&[], &[], &[]]),
        (Signal::NodeFsAvailable, [both, &[], &[DeadContainers]]),
        (Signal::ImageFsInodesFree, [both, both, &[UnusedImages]]),
        (Signal::ContainerFsAvailable, [both, both, &[DeadContainers]]),
    ];
    for (signal, expected) in table {
        assert_eq!([one, apart, split].map(|layout| reclaims(signal, layout)), expected, "{signal:?}");
    }
}

#[test]
fn signals_are_read_as_upstream_reads_them() {
    let cgroup = |usage, working_set, limit| CgroupUsage {
        time: at(1),
        memory: MemoryUsage { usage, working_set, limit, ..MemoryUsage::default() },
        ..CgroupUsage::default()
    };
    let room = FilesystemRoom { capacity: 100, available: 40, used: 50, inodes: 10, inodes_free: 4 };
    let mut sight = NodeSight {
        at: at(2),
        memory: 1000,
        root: Some(cgroup(900, 300, None)),
        pods: Some(cgroup(200, 150, Some(400))),
        disks: DiskSight { node: Some(room), images: Some(room), containers: None },
        processes: Some(ProcessCount { max: 100, current: 99 }),
    };
    let shown = |found: &Observations| -> Vec<_> {
        found.iter().map(|(signal, own)| (signal.as_str(), own.available, own.capacity)).collect()
    };
    assert_eq!(
        shown(&observe(&sight)),
        [
            ("memory.available", 700, 1000),
            ("allocatableMemory.available", 250, 400),
            ("nodefs.available", 40, 100),
            ("nodefs.inodesFree", 4, 10),
            ("imagefs.available", 40, 100),
            ("imagefs.inodesFree", 4, 10),
            ("pid.available", 1, 100),
        ]
    );
    sight = NodeSight { pods: Some(cgroup(1, 1, None)), processes: None, root: None, ..sight };
    sight.disks = DiskSight::default();
    assert_eq!(shown(&observe(&sight)), []);
    // More in use than there is leaves nothing.
    sight.root = Some(cgroup(2000, 1500, None));
    assert_eq!(shown(&observe(&sight)), [("memory.available", 0, 1500)]);
}

#[test]
fn a_threshold_is_met_below_it() {
    let signal = Signal::NodeFsAvailable;
    for (value, available, is_met) in
        [("10%", 10, false), ("10%", 9, true), ("50", 50, false), ("50", 49, true), ("50", 0, true)]
    {
        let found =
            met(&[threshold(signal, value)], &seen(signal, available, 100, 0), MinimumReclaim::Ignored);
        assert_eq!(!found.is_empty(), is_met, "{value} of {available}");
    }
    let other = seen(Signal::PidAvailable, 0, 100, 0);
    assert_eq!(met(&[threshold(signal, "50")], &other, MinimumReclaim::Ignored), []);
}

#[test]
fn a_soft_threshold_counts_after_its_grace_and_its_condition_at_once() {
    let signal = Signal::MemoryAvailable;
    let soft = [Threshold { grace: Duration::from_secs(60), ..threshold(signal, "50") }];
    let mut watch = Watch::default();
    let mut look = |available, now| watch.step(&soft, seen(signal, available, 100, now), TRANSITION, at(now));
    let first = look(40, 0);
    assert!(first.pressure.memory && first.act_on.is_empty());
    assert!(look(40, 59).act_on.is_empty());
    assert_eq!(look(40, 60).act_on, soft);
    // Once there is enough, the time begins anew.
    assert!(look(60, 70).act_on.is_empty());
    assert!(look(40, 80).act_on.is_empty());
    assert_eq!(look(40, 140).act_on, soft);
}

#[test]
fn a_threshold_is_resolved_when_the_minimum_is_reclaimed() {
    let signal = Signal::NodeFsAvailable;
    let own = [Threshold { min_reclaim: Value::parse("10%"), ..threshold(signal, "50") }];
    let mut watch = Watch::default();
    let mut look = |available, now| {
        let step = watch.step(&own, seen(signal, available, 100, now), Duration::from_secs(1), at(now));
        (step.act_on.len(), step.pressure.disk)
    };
    assert_eq!(look(55, 0), (0, false));
    assert_eq!(look(49, 10), (1, true));
    assert_eq!(look(59, 20), (1, true));
    assert_eq!(look(60, 30), (0, false));
    assert_eq!(look(55, 40), (0, false));
}

#[test]
fn a_condition_outlives_its_cause_by_the_transition_period() {
    let signal = Signal::PidAvailable;
    let own = [threshold(signal, "50")];
    let mut watch = Watch::default();
    let mut look =
        |available, now| watch.step(&own, seen(signal, available, 100, now), TRANSITION, at(now)).pressure;
    let short = Pressure { pid: true, ..Pressure::default() };
    assert_eq!(look(10, 0), short);
    assert_eq!(look(90, 1), short);
    assert_eq!(look(90, 299), short);
    assert_eq!(look(90, 300), Pressure::default());
}

#[test]
fn nobody_acts_twice_on_one_measurement() {
    let signal = Signal::MemoryAvailable;
    let own = [threshold(signal, "50")];
    let mut watch = Watch::default();
    let mut look =
        |time, now| watch.step(&own, seen(signal, 10, 100, time), TRANSITION, at(now)).act_on.len();
    assert_eq!([look(0, 0), look(0, 1), look(2, 2)], [1, 0, 1]);
}

#[test]
fn memory_is_the_most_urgent() {
    let met = [Signal::NodeFsAvailable, Signal::PidAvailable, Signal::AllocatableMemoryAvailable];
    let ordered = by_urgency(met.map(|signal| threshold(signal, "1")).into());
    let ordered: Vec<Signal> = ordered.iter().map(|own| own.signal).collect();
    assert_eq!(ordered, [met[2], met[0], met[1]]);
}

#[test]
fn soft_evictions_leave_the_shorter_grace() {
    let settings = Settings { max_pod_grace_seconds: 20, ..Settings::default() };
    let hard = threshold(Signal::MemoryAvailable, "1");
    let soft = Threshold { grace: Duration::from_secs(5), ..hard.clone() };
    for (own, grace, expected) in
        [(&hard, json!(30), 1), (&soft, json!(30), 20), (&soft, json!(10), 10), (&soft, json!(null), 20)]
    {
        let pod = pod("p", json!({"containers": [], "terminationGracePeriodSeconds": grace}));
        assert_eq!(grace_seconds(own, &pod, &settings), expected, "{grace}");
    }
}

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
    /// Whatever is seen: what is acted on is met with its grace over, and has its condition.
    #[test]
    fn nothing_is_acted_on_without_pressure(
        looks in proptest::collection::vec((0_i64..100, 1_i64..40), 1..30),
        grace in 0_u64..60,
        reclaim in 0_i64..30,
    ) {
        let signal = Signal::NodeFsAvailable;
        let own = Threshold {
            grace: Duration::from_secs(grace),
            min_reclaim: Some(Value::Decimal(reclaim)),
            ..threshold(signal, "50")
        };
        let (mut watch, mut now, mut since) = (Watch::default(), 0, None);
        for (available, passed) in looks {
            now += passed;
            let step = watch.step(std::slice::from_ref(&own), seen(signal, available, 100, now), TRANSITION, at(now));
            if available >= 50 + reclaim {
                since = None;
            } else if available < 50 && since.is_none() {
                since = Some(now);
            }
            if available < 50 {
                prop_assert!(step.pressure.disk);
            }
            if !step.act_on.is_empty() {
                prop_assert!(step.pressure.disk);
                prop_assert!(since.is_some_and(|since| now - since >= i64::try_from(grace).unwrap()));
            }
            prop_assert!(!step.pressure.memory && !step.pressure.pid);
        }
    }

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
