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
use crate::node::node_status::Pressure;

const TRANSITION: Duration = Duration::from_secs(300);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + seconds)
}

fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn threshold(signal: Signal, value: &str) -> Threshold {
    Threshold {
        signal,
        value: ThresholdValue::parse(value).unwrap(),
        grace: Duration::ZERO,
        min_reclaim: None,
    }
}

fn observations(signal: Signal, available: i64, capacity: i64, time: i64) -> SignalObservations {
    [(signal, SignalObservation { available, capacity, at: at(time) })].into()
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
fn parses_thresholds_from_configuration() {
    let hard = map(&[
        ("memory.available", "100Mi"),
        ("nodefs.available", "10%"),
        ("pid.available", "1k"),
        ("imagefs.available", "0%"),
        ("imagefs.inodesFree", "100%"),
    ]);
    let reclaim = map(&[("memory.available", "1Gi")]);
    let minute = Duration::from_secs(60);
    let mut configured = ThresholdConfig {
        hard: Some(&hard),
        soft: vec![("memory.available", "200Mi", minute)],
        min_reclaim: Some(&reclaim),
        limits_pods: true,
    };
    let found = thresholds(&configured);
    let shown: Vec<_> = found.iter().map(|own| (own.signal.as_str(), own.value, own.grace)).collect();
    let hundred = ThresholdValue::Binary(100 << 20);
    assert_eq!(
        shown,
        [
            ("memory.available", hundred, Duration::ZERO),
            ("nodefs.available", ThresholdValue::Fraction(0.1), Duration::ZERO),
            ("pid.available", ThresholdValue::Decimal(1000), Duration::ZERO),
            ("memory.available", ThresholdValue::Binary(200 << 20), minute),
            ("allocatableMemory.available", hundred, Duration::ZERO),
        ]
    );
    let with_reclaim = found.iter().filter(|own| own.min_reclaim == Some(ThresholdValue::Binary(1 << 30)));
    assert_eq!(with_reclaim.count(), 3);
    configured.limits_pods = false;
    assert!(thresholds(&configured).iter().all(|own| own.signal != Signal::AllocatableMemoryAvailable));
    assert_eq!(thresholds(&ThresholdConfig::default()), []);
}

#[test]
fn signal_names_round_trip() {
    for signal in Signal::ALL {
        assert_eq!(Signal::from_name(signal.as_str()), Some(signal));
    }
    assert_eq!(Signal::from_name("disk.free"), None);
}

#[test]
fn container_filesystem_inherits_thresholds_of_its_disk() {
    let configured = vec![
        threshold(Signal::NodeFsAvailable, "10%"),
        Threshold { grace: Duration::from_secs(9), ..threshold(Signal::NodeFsInodesFree, "5%") },
        threshold(Signal::ImageFsAvailable, "15%"),
        threshold(Signal::ContainerFsAvailable, "1Gi"),
        threshold(Signal::ContainerFsInodesFree, "7"),
    ];
    let of_containers = |layout| {
        let all = with_container_filesystem(configured.clone(), layout);
        let is_own = |own: &&Threshold| own.signal.as_str().starts_with("containerfs");
        all.iter().filter(is_own).map(|own| (own.signal, own.value, own.grace.as_secs())).collect::<Vec<_>>()
    };
    let of_node = [
        (Signal::ContainerFsAvailable, ThresholdValue::Fraction(0.1), 0),
        (Signal::ContainerFsInodesFree, ThresholdValue::Fraction(0.05), 9),
    ];
    assert_eq!(of_containers(DiskLayout::Single), of_node);
    assert_eq!(of_containers(DiskLayout::SplitImageFs), of_node);
    let of_images = [(Signal::ContainerFsAvailable, ThresholdValue::Fraction(0.15), 0)];
    assert_eq!(of_containers(DiskLayout::DedicatedImageFs), of_images);
}

#[test]
fn disk_layout_follows_devices() {
    for (devices, expected) in [
        ((1, 1, 1), DiskLayout::Single),
        ((1, 2, 2), DiskLayout::DedicatedImageFs),
        ((1, 2, 1), DiskLayout::SplitImageFs),
        ((1, 1, 2), DiskLayout::SplitImageFs),
        ((1, 2, 3), DiskLayout::SplitImageFs),
    ] {
        assert_eq!(disk_layout(&devices.0, &devices.1, &devices.2), expected, "{devices:?}");
    }
}

#[test]
fn reclaim_actions_depend_on_disk_layout() {
    use ReclaimAction::{DeadContainers, UnusedImages};
    let [one, apart, split] = [DiskLayout::Single, DiskLayout::DedicatedImageFs, DiskLayout::SplitImageFs];
    let both: &[ReclaimAction] = &[DeadContainers, UnusedImages];
    let table: [(Signal, [&[ReclaimAction]; 3]); 5] = [
        (Signal::MemoryAvailable, [&[], &[], &[]]),
        (Signal::PidAvailable, [&[], &[], &[]]),
        (Signal::NodeFsAvailable, [both, &[], &[DeadContainers]]),
        (Signal::ImageFsInodesFree, [both, both, &[UnusedImages]]),
        (Signal::ContainerFsAvailable, [both, both, &[DeadContainers]]),
    ];
    for (signal, expected) in table {
        assert_eq!([one, apart, split].map(|layout| reclaim_actions(signal, layout)), expected, "{signal:?}");
    }
}

#[test]
fn signals_match_upstream() {
    let cgroup = |usage, working_set, limit| CgroupUsage {
        time: at(1),
        memory: MemoryUsage { usage, working_set, limit, ..MemoryUsage::default() },
        ..CgroupUsage::default()
    };
    let room = FilesystemRoom { capacity: 100, available: 40, used: 50, inodes: 10, inodes_free: 4 };
    let mut readings = NodeReadings {
        at: at(2),
        memory: 1000,
        root: Some(cgroup(900, 300, None)),
        pods: Some(cgroup(200, 150, Some(400))),
        disks: DiskReadings { node: Some(room), images: Some(room), containers: None },
        processes: Some(ProcessCount { max: 100, current: 99 }),
    };
    let shown = |found: &SignalObservations| -> Vec<_> {
        found.iter().map(|(signal, own)| (signal.as_str(), own.available, own.capacity)).collect()
    };
    assert_eq!(
        shown(&observe_signals(&readings)),
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
    readings = NodeReadings { pods: Some(cgroup(1, 1, None)), processes: None, root: None, ..readings };
    readings.disks = DiskReadings::default();
    assert_eq!(shown(&observe_signals(&readings)), []);
    // Usage above the capacity leaves nothing available.
    readings.root = Some(cgroup(2000, 1500, None));
    assert_eq!(shown(&observe_signals(&readings)), [("memory.available", 0, 1500)]);
}

#[test]
fn threshold_is_met_below_its_value() {
    let signal = Signal::NodeFsAvailable;
    for (value, available, is_met) in
        [("10%", 10, false), ("10%", 9, true), ("50", 50, false), ("50", 49, true), ("50", 0, true)]
    {
        let found = met_thresholds(
            &[threshold(signal, value)],
            &observations(signal, available, 100, 0),
            MinimumReclaim::Ignored,
        );
        assert_eq!(!found.is_empty(), is_met, "{value} of {available}");
    }
    let other = observations(Signal::PidAvailable, 0, 100, 0);
    assert_eq!(met_thresholds(&[threshold(signal, "50")], &other, MinimumReclaim::Ignored), []);
}

#[test]
fn soft_threshold_acts_after_grace_but_sets_condition_immediately() {
    let signal = Signal::MemoryAvailable;
    let soft = [Threshold { grace: Duration::from_secs(60), ..threshold(signal, "50") }];
    let mut tracker = ThresholdTracker::default();
    let mut update = |available, now| {
        tracker.update(&soft, observations(signal, available, 100, now), TRANSITION, at(now))
    };
    let first = update(40, 0);
    assert!(first.pressure.memory && first.act_on.is_empty());
    assert!(update(40, 59).act_on.is_empty());
    assert_eq!(update(40, 60).act_on, soft);
    // The grace period starts again after the threshold was no longer met.
    assert!(update(60, 70).act_on.is_empty());
    assert!(update(40, 80).act_on.is_empty());
    assert_eq!(update(40, 140).act_on, soft);
}

#[test]
fn threshold_is_resolved_after_minimum_reclaim() {
    let signal = Signal::NodeFsAvailable;
    let own = [Threshold { min_reclaim: ThresholdValue::parse("10%"), ..threshold(signal, "50") }];
    let mut tracker = ThresholdTracker::default();
    let mut update = |available, now| {
        let updated =
            tracker.update(&own, observations(signal, available, 100, now), Duration::from_secs(1), at(now));
        (updated.act_on.len(), updated.pressure.disk)
    };
    assert_eq!(update(55, 0), (0, false));
    assert_eq!(update(49, 10), (1, true));
    assert_eq!(update(59, 20), (1, true));
    assert_eq!(update(60, 30), (0, false));
    assert_eq!(update(55, 40), (0, false));
}

#[test]
fn condition_stays_for_the_transition_period() {
    let signal = Signal::PidAvailable;
    let own = [threshold(signal, "50")];
    let mut tracker = ThresholdTracker::default();
    let mut update = |available, now| {
        tracker.update(&own, observations(signal, available, 100, now), TRANSITION, at(now)).pressure
    };
    let short = Pressure { pid: true, ..Pressure::default() };
    assert_eq!(update(10, 0), short);
    assert_eq!(update(90, 1), short);
    assert_eq!(update(90, 299), short);
    assert_eq!(update(90, 300), Pressure::default());
}

#[test]
fn does_not_act_twice_on_one_observation() {
    let signal = Signal::MemoryAvailable;
    let own = [threshold(signal, "50")];
    let mut tracker = ThresholdTracker::default();
    let mut update = |time, now| {
        tracker.update(&own, observations(signal, 10, 100, time), TRANSITION, at(now)).act_on.len()
    };
    assert_eq!([update(0, 0), update(0, 1), update(2, 2)], [1, 0, 1]);
}

#[test]
fn memory_is_most_urgent() {
    let met = [Signal::NodeFsAvailable, Signal::PidAvailable, Signal::AllocatableMemoryAvailable];
    let ordered = sort_by_urgency(met.map(|signal| threshold(signal, "1")).into());
    let ordered: Vec<Signal> = ordered.iter().map(|own| own.signal).collect();
    assert_eq!(ordered, [met[2], met[0], met[1]]);
}

#[test]
fn soft_eviction_uses_the_shorter_grace_period() {
    let settings = EvictionSettings { max_pod_grace_seconds: 20, ..EvictionSettings::default() };
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
    /// A threshold is acted on only after its grace period, and only while its condition is true.
    #[test]
    fn acts_only_under_pressure(
        updates in proptest::collection::vec((0_i64..100, 1_i64..40), 1..30),
        grace in 0_u64..60,
        reclaim in 0_i64..30,
    ) {
        let signal = Signal::NodeFsAvailable;
        let own = Threshold {
            grace: Duration::from_secs(grace),
            min_reclaim: Some(ThresholdValue::Decimal(reclaim)),
            ..threshold(signal, "50")
        };
        let (mut tracker, mut now, mut since) = (ThresholdTracker::default(), 0, None);
        for (available, passed) in updates {
            now += passed;
            let updated = tracker.update(std::slice::from_ref(&own), observations(signal, available, 100, now), TRANSITION, at(now));
            if available >= 50 + reclaim {
                since = None;
            } else if available < 50 && since.is_none() {
                since = Some(now);
            }
            if available < 50 {
                prop_assert!(updated.pressure.disk);
            }
            if !updated.act_on.is_empty() {
                prop_assert!(updated.pressure.disk);
                prop_assert!(since.is_some_and(|since| now - since >= i64::try_from(grace).unwrap()));
            }
            prop_assert!(!updated.pressure.memory && !updated.pressure.pid);
        }
    }
}
