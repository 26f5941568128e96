use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::test_objects::pod;

fn periods(of: &[(i32, u64)]) -> Periods {
    let all: Vec<Period> = of.iter().map(|(priority, seconds)| period(*priority, *seconds)).collect();
    Periods::of(&all, Duration::ZERO, Duration::ZERO).unwrap()
}

fn period(priority: i32, seconds: u64) -> Period {
    Period { priority, seconds }
}

fn prioritized(priority: Option<i32>) -> Pod {
    pod(json!({"containers": [], "priority": priority}))
}

fn view(phase: WorkerPhase) -> WorkerView {
    WorkerView {
        uid: "u".into(),
        full_name: pod(json!({"containers": []})).full_name,
        phase,
        started: true,
        passed: true,
        restart_requested: false,
        orphan: false,
        is_static: false,
        problems: Default::default(),
        last_error: None,
        rejection: None,
    }
}

#[test]
fn the_plain_fields_make_two_groups() {
    let of = |whole, critical| {
        let seconds = Duration::from_secs;
        Periods::of(&[], seconds(whole), seconds(critical)).map(|periods| periods.iter().collect::<Vec<_>>())
    };
    assert_eq!(of(0, 0), None);
    assert_eq!(of(30, 10), Some(vec![period(0, 20), period(CRITICAL_PRIORITY, 10)]));
    assert_eq!(of(30, 0), Some(vec![period(0, 30), period(CRITICAL_PRIORITY, 0)]));
    assert_eq!(of(5, 10), None, "refused by the configuration's own checks already");
    let cut = Periods::of(&[], Duration::from_millis(2900), Duration::from_millis(1500)).unwrap();
    assert_eq!(cut.whole(), Duration::from_secs(2), "whole seconds only");
}

#[test]
fn periods_by_priority_are_sorted_and_summed() {
    let all = periods(&[(100, 10), (0, 180), (10_000, 20)]);
    let order: Vec<i32> = all.iter().map(|period| period.priority).collect();
    assert_eq!(order, [0, 100, 10_000]);
    assert_eq!(all.whole(), Duration::from_secs(210));
    assert!(periods(&[(0, u64::MAX), (1, u64::MAX)]).whole() <= Duration::from_secs(LONGEST_GRACE_SECONDS));
}

#[test]
fn a_pod_is_in_the_highest_group_that_is_not_above_it() {
    let all = periods(&[(0, 1), (100, 2), (1000, 3)]);
    for (priority, place) in [
        (None, 0),
        (Some(i32::MIN), 0),
        (Some(-1), 0),
        (Some(0), 0),
        (Some(99), 0),
        (Some(100), 1),
        (Some(101), 1),
        (Some(999), 1),
        (Some(1000), 2),
        (Some(i32::MAX), 2),
    ] {
        assert_eq!(all.place_of(&prioritized(priority)), place, "{priority:?}");
    }
    assert_eq!(periods(&[(500, 1)]).place_of(&prioritized(None)), 0);
}

#[test]
fn a_pod_has_its_own_time_but_not_more_than_its_group() {
    for (group, own, grace, late_after) in [
        (20, Some(30), 20, 30),
        (20, Some(20), 20, 30),
        (20, Some(5), 5, 10),
        (20, None, 20, 30),
        (0, Some(30), 1, 10),
        (20, Some(0), 1, 10),
        (20, Some(-4), 1, 10),
    ] {
        let pod = pod(json!({"containers": [], "terminationGracePeriodSeconds": own}));
        let ending = period(0, group).ending_of(&pod);
        assert_eq!(ending.order.grace_override, Some(grace), "{group} {own:?}");
        assert_eq!(ending.late_after, Duration::from_secs(late_after), "{group} {own:?}");
        let rejection = ending.order.rejection.unwrap();
        assert_eq!((rejection.reason.as_str(), rejection.message.as_str()), (REASON, MESSAGE));
        assert!(!rejection.is_at_admission());
    }
}

#[test]
fn pods_that_were_missed_end_with_the_next_group_and_none_ends_twice() {
    let all = periods(&[(0, 1), (100, 2)]);
    let named = |name: &str, priority| {
        let mut pod = prioritized(Some(priority));
        pod.uid = name.into();
        pod.full_name.name = name.into();
        Arc::new(pod)
    };
    let pods = [named("late", 0), named("high", 100), named("done", 0)];
    let names = |place| {
        let due = due(&all, place, &pods, |pod| pod.full_name.name == "done");
        due.iter().map(|pod| pod.full_name.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["late"]);
    assert_eq!(names(1), ["high", "late"]);
}

#[test]
fn only_pods_that_are_not_over_are_ended() {
    use WorkerPhase::{Finished, Syncing, Terminated, Terminating};
    let told = |phase: &str| {
        let mut pod = prioritized(None);
        pod.status.phase = Some(phase.to_owned());
        pod
    };
    for (phase, worker, active) in [
        ("Running", Some(Syncing), true),
        ("Running", None, true),
        ("Failed", None, false),
        ("Succeeded", Some(Syncing), false),
        ("Failed", Some(Terminating), true),
        ("Running", Some(Terminating), true),
        ("Running", Some(Terminated), false),
        ("Running", Some(Finished), false),
    ] {
        let worker = worker.map(view);
        assert_eq!(is_active(&told(phase), worker.as_ref()), active, "{phase} {worker:?}");
    }
}

#[test]
fn a_pod_is_gone_when_its_mounts_are() {
    use WorkerPhase::{Finished, Syncing, Terminated, Terminating};
    for (wanted, worker, left) in [
        (true, Some(Syncing), Remainder::Running),
        (true, Some(Terminating), Remainder::Running),
        (false, Some(Terminating), Remainder::Running),
        (true, Some(Terminated), Remainder::Mounts),
        (true, Some(Finished), Remainder::Nothing),
        (true, None, Remainder::Running),
        (false, None, Remainder::Nothing),
    ] {
        let pod = prioritized(None);
        let wanted = wanted.then_some(&pod);
        assert_eq!(remainder(wanted, worker.map(view).as_ref()), left, "{wanted:?} {worker:?}");
    }
}

proptest! {
    /// Upstream's rule in its own words: the lower neighbour, kept within the list.
    #[test]
    fn groups_are_ordered_as_priorities_are(
        priorities in proptest::collection::btree_set(-5..5i32, 1..6),
        one in -7..7i32,
        other in -7..7i32,
    ) {
        let all: Vec<(i32, u64)> = priorities.iter().map(|priority| (*priority, 1)).collect();
        let all = periods(&all);
        let (low, high) = (one.min(other), one.max(other));
        prop_assert!(all.place_of(&prioritized(Some(low))) <= all.place_of(&prioritized(Some(high))));
        let expected = priorities.iter().filter(|priority| **priority <= one).count().saturating_sub(1);
        prop_assert_eq!(all.place_of(&prioritized(Some(one))), expected);
    }
}
