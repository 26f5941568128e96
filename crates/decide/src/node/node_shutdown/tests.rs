use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::test_objects::{pod, worker_view};

fn periods(of: &[(i32, u64)]) -> ShutdownPeriods {
    let all: Vec<ShutdownPeriod> = of.iter().map(|(priority, seconds)| period(*priority, *seconds)).collect();
    ShutdownPeriods::of(&all, Duration::ZERO, Duration::ZERO).unwrap()
}

fn period(priority: i32, seconds: u64) -> ShutdownPeriod {
    ShutdownPeriod { priority, seconds }
}

fn prioritized(priority: Option<i32>) -> Pod {
    pod(json!({"containers": [], "priority": priority}))
}

fn view(phase: WorkerPhase) -> WorkerView {
    worker_view("u", phase)
}

#[test]
fn derives_two_groups_from_plain_settings() {
    let of = |total, critical| {
        let seconds = Duration::from_secs;
        ShutdownPeriods::of(&[], seconds(total), seconds(critical))
            .map(|periods| periods.iter().collect::<Vec<_>>())
    };
    assert_eq!(of(0, 0), None);
    assert_eq!(of(30, 10), Some(vec![period(0, 20), period(SYSTEM_CRITICAL_PRIORITY, 10)]));
    assert_eq!(of(30, 0), Some(vec![period(0, 30), period(SYSTEM_CRITICAL_PRIORITY, 0)]));
    assert_eq!(of(5, 10), None, "rejected by configuration validation");
    let cut = ShutdownPeriods::of(&[], Duration::from_millis(2900), Duration::from_millis(1500)).unwrap();
    assert_eq!(cut.total(), Duration::from_secs(2), "total seconds only");
}

#[test]
fn sorts_and_sums_periods_by_priority() {
    let all = periods(&[(100, 10), (0, 180), (10_000, 20)]);
    let priorities: Vec<i32> = all.iter().map(|period| period.priority).collect();
    assert_eq!(priorities, [0, 100, 10_000]);
    assert_eq!(all.total(), Duration::from_secs(210));
    assert!(periods(&[(0, u64::MAX), (1, u64::MAX)]).total() <= Duration::from_secs(MAX_GRACE_SECONDS));
}

#[test]
fn assigns_pod_to_highest_group_not_above_its_priority() {
    let all = periods(&[(0, 1), (100, 2), (1000, 3)]);
    for (priority, group) in [
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
        assert_eq!(all.group_of(&prioritized(priority)), group, "{priority:?}");
    }
    assert_eq!(periods(&[(500, 1)]).group_of(&prioritized(None)), 0);
}

#[test]
fn grace_period_is_capped_by_group_period() {
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
        let plan = period(0, group).kill_plan(&pod);
        assert_eq!(plan.options.grace_override, Some(grace), "{group} {own:?}");
        assert_eq!(plan.late_after, Duration::from_secs(late_after), "{group} {own:?}");
        let rejection = plan.options.rejection.unwrap();
        assert_eq!((rejection.reason.as_str(), rejection.message.as_str()), (REASON, MESSAGE));
        assert_eq!(rejection.kind, RejectionKind::NodeShutdown);
    }
}

#[test]
fn terminates_late_pods_with_next_group_only_once() {
    let all = periods(&[(0, 1), (100, 2)]);
    let named = |name: &str, priority| {
        let mut pod = prioritized(Some(priority));
        pod.uid = name.into();
        pod.full_name.name = name.into();
        Arc::new(pod)
    };
    let pods = [named("late", 0), named("high", 100), named("done", 0)];
    let names = |group| {
        let due = pods_to_terminate(&all, group, &pods, |pod| pod.full_name.name == "done");
        due.iter().map(|pod| pod.full_name.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["late"]);
    assert_eq!(names(1), ["high", "late"]);
}

#[test]
fn only_non_terminal_pods_are_active() {
    use WorkerPhase::{Finished, Syncing, Terminated, Terminating};
    let pod_in_phase = |phase: &str| {
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
        assert_eq!(is_active(&pod_in_phase(phase), worker.as_ref()), active, "{phase} {worker:?}");
    }
}

#[test]
fn nothing_remains_after_unmount() {
    use WorkerPhase::{Finished, Syncing, Terminated, Terminating};
    for (desired, worker, expected) in [
        (true, Some(Syncing), Remainder::Running),
        (true, Some(Terminating), Remainder::Running),
        (false, Some(Terminating), Remainder::Running),
        (true, Some(Terminated), Remainder::Mounts),
        (true, Some(Finished), Remainder::Nothing),
        (true, None, Remainder::Running),
        (false, None, Remainder::Nothing),
    ] {
        let pod = prioritized(None);
        let desired = desired.then_some(&pod);
        assert_eq!(remainder(desired, worker.map(view).as_ref()), expected, "{desired:?} {worker:?}");
    }
}

proptest! {
    /// Upstream's rule: the group with the next lower priority, clamped to the list.
    #[test]
    fn group_order_follows_priorities(
        priorities in proptest::collection::btree_set(-5..5i32, 1..6),
        one in -7..7i32,
        other in -7..7i32,
    ) {
        let all: Vec<(i32, u64)> = priorities.iter().map(|priority| (*priority, 1)).collect();
        let all = periods(&all);
        let (low, high) = (one.min(other), one.max(other));
        prop_assert!(all.group_of(&prioritized(Some(low))) <= all.group_of(&prioritized(Some(high))));
        let expected = priorities.iter().filter(|priority| **priority <= one).count().saturating_sub(1);
        prop_assert_eq!(all.group_of(&prioritized(Some(one))), expected);
    }
}
