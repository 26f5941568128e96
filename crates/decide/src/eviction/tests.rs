mod pods;

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

#[expect(clippy::needless_pass_by_value, reason = "tests write the spec in place")]
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
}
