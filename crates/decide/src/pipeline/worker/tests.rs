use model::{Moment, PodSource};
use proptest::prelude::*;

use super::*;

fn pod(uid: &str) -> Arc<Pod> {
    let mut object = k8s_openapi::api::core::v1::Pod::default();
    object.metadata.uid = Some(uid.into());
    object.metadata.name = Some("n".into());
    object.spec = Some(k8s_openapi::api::core::v1::PodSpec {
        termination_grace_period_seconds: Some(30),
        ..Default::default()
    });
    Pod::from_object(object, PodSource::File).unwrap().shared()
}

fn command(kind: UpdateKind) -> WorkerCommand {
    WorkerCommand {
        kind,
        target: WorkerTarget::Desired(pod("u")),
        kill: None,
        seen_at: Timestamp::from_secs(1),
    }
}

fn kill(seconds: u64) -> WorkerCommand {
    WorkerCommand {
        kill: Some(KillOptions { grace_override: Some(seconds), rejection: None }),
        ..command(UpdateKind::Kill)
    }
}

const RUNNING: SyncOutcome = SyncOutcome::Running { problems: ContainerProblems::new(), retry_at: None };

fn running() -> Worker {
    let mut worker =
        Worker::from_first_command(&command(UpdateKind::Create), PodPresence::NotRunning).unwrap();
    assert!(matches!(worker.next_work(), Some(Work::Sync { kind: UpdateKind::Create, .. })));
    assert_eq!(worker.sync_ended(Ok(RUNNING)), NextSync::Later { retry_at: None });
    worker
}

#[test]
fn walks_from_create_to_finished() {
    let mut worker = running();
    assert_eq!(worker.receive(&command(UpdateKind::Kill)), Reaction::Interrupt);
    assert!(matches!(worker.next_work(), Some(Work::Terminate { grace_seconds: 30, .. })));
    assert_eq!(worker.terminate_ended(Ok(())), NextSync::Now);
    assert!(matches!(worker.next_work(), Some(Work::CleanUp { .. })));
    assert_eq!(worker.clean_up_ended(Ok(())), NextSync::Never);
    assert_eq!(worker.phase(), WorkerPhase::Finished);
}

#[test]
fn runs_one_sync_at_a_time_and_newest_command_wins() {
    let mut worker =
        Worker::from_first_command(&command(UpdateKind::Create), PodPresence::NotRunning).unwrap();
    assert!(worker.next_work().is_some());
    worker.receive(&command(UpdateKind::Update));
    worker.receive(&command(UpdateKind::Sync));
    assert!(worker.next_work().is_none());
    assert_eq!(worker.sync_ended(Ok(RUNNING)), NextSync::Now);
    assert!(matches!(worker.next_work(), Some(Work::Sync { kind: UpdateKind::Sync, .. })));
}

#[test]
fn rejected_pod_is_terminated_after_sync() {
    let mut worker =
        Worker::from_first_command(&command(UpdateKind::Create), PodPresence::NotRunning).unwrap();
    worker.next_work();
    let reason = crate::pipeline::deadline::deadline_exceeded();
    assert_eq!(worker.sync_ended(Ok(SyncOutcome::Rejected(reason.clone()))), NextSync::Now);
    assert_eq!(worker.view().rejection, Some(reason));
    assert!(matches!(worker.next_work(), Some(Work::Terminate { .. })));
}

#[test]
fn failed_sync_keeps_the_stage() {
    let mut worker = running();
    worker.receive(&command(UpdateKind::Kill));
    worker.next_work();
    let failure = SyncFailure::RuntimeUnavailable("unavailable".into());
    assert_eq!(worker.terminate_ended(Err(failure.clone())), NextSync::AfterFailure(failure));
    assert!(worker.next_work().is_none());
    worker.retry(Timestamp::from_secs(2));
    assert!(matches!(worker.next_work(), Some(Work::Terminate { .. })));
}

#[test]
fn shorter_grace_interrupts_and_longer_one_does_not() {
    let mut worker = running();
    worker.receive(&kill(20));
    worker.next_work();
    assert_eq!(worker.receive(&kill(40)), Reaction::None);
    assert_eq!(worker.receive(&kill(5)), Reaction::Interrupt);
    worker.terminate_ended(Err(SyncFailure::Interrupted));
    assert!(matches!(worker.next_work(), Some(Work::Terminate { grace_seconds: 5, .. })));
}

#[test]
fn create_during_termination_requests_restart_after_termination() {
    let mut worker = running();
    worker.receive(&command(UpdateKind::Kill));
    assert_eq!(worker.receive(&command(UpdateKind::Create)), Reaction::None);
    assert!(worker.view().restart_requested);
    assert_eq!(worker.phase(), WorkerPhase::Terminating);
}

#[test]
fn orphan_can_only_be_killed() {
    let observed = ObservedPod::absent("o".into(), pod("o").full_name.clone(), Moment::START);
    let mut order =
        WorkerCommand { target: WorkerTarget::Orphan(Arc::new(observed)), ..command(UpdateKind::Sync) };
    assert!(Worker::from_first_command(&order, PodPresence::Running).is_none());
    order.kind = UpdateKind::Kill;
    let mut worker = Worker::from_first_command(&order, PodPresence::Running).unwrap();
    assert!(matches!(worker.next_work(), Some(Work::TerminateOrphan { grace_seconds: 1, .. })));
    assert_eq!(worker.terminate_ended(Ok(())), NextSync::Never);
}

#[test]
fn pod_that_finished_before_agent_start_is_only_cleaned_up() {
    let mut finished = Pod::clone(&pod("u"));
    finished.status.phase = Some("Succeeded".into());
    let order =
        WorkerCommand { target: WorkerTarget::Desired(Arc::new(finished)), ..command(UpdateKind::Create) };
    let mut worker = Worker::from_first_command(&order, PodPresence::NotRunning).unwrap();
    assert!(matches!(worker.next_work(), Some(Work::CleanUp { .. })));
    assert_eq!(
        Worker::from_first_command(&order, PodPresence::Running).unwrap().phase(),
        WorkerPhase::Terminating
    );
}

#[test]
fn only_unstarted_static_pods_wait_for_their_name() {
    let worker = Worker::from_first_command(&command(UpdateKind::Create), PodPresence::NotRunning).unwrap();
    assert!(worker.waits_for_name());
    assert!(!running().waits_for_name());
}

#[derive(Clone, Debug)]
enum Input {
    Command(UpdateKind, Option<u64>),
    Retry,
    Run { ok: bool, finished: bool },
}

fn any_input() -> impl Strategy<Value = Input> {
    let kind = prop_oneof![
        Just(UpdateKind::Create),
        Just(UpdateKind::Update),
        Just(UpdateKind::Sync),
        Just(UpdateKind::Kill)
    ];
    prop_oneof![
        (kind, proptest::option::of(0u64..60)).prop_map(|(kind, grace)| Input::Command(kind, grace)),
        Just(Input::Retry),
        (any::<bool>(), any::<bool>()).prop_map(|(ok, finished)| Input::Run { ok, finished }),
    ]
}

proptest! {
    #[test]
    fn never_goes_backwards_and_grace_only_shrinks(inputs in proptest::collection::vec(any_input(), 1..40)) {
        let mut worker = Worker::from_first_command(&command(UpdateKind::Create), PodPresence::NotRunning).unwrap();
        let (mut phase, mut grace) = (worker.phase(), u64::MAX);
        for input in inputs {
            match input {
                Input::Command(kind, seconds) => {
                    let options = KillOptions { grace_override: seconds, rejection: None };
                    let kill = (kind == UpdateKind::Kill).then_some(options);
                    worker.receive(&WorkerCommand { kill, ..command(kind) });
                }
                Input::Retry => worker.retry(Timestamp::from_secs(3)),
                Input::Run { ok, finished } => match worker.next_work() {
                    None => {}
                    Some(Work::Sync { .. }) => {
                        prop_assert_eq!(worker.phase(), WorkerPhase::Syncing);
                        worker.sync_ended(if ok {
                            Ok(if finished { SyncOutcome::Completed } else { RUNNING })
                        } else {
                            Err(SyncFailure::RuntimeUnavailable("x".into()))
                        });
                    }
                    Some(Work::Terminate { grace_seconds, .. } | Work::TerminateOrphan { grace_seconds, .. }) => {
                        prop_assert!(grace_seconds <= grace && grace_seconds >= 1);
                        grace = grace_seconds;
                        worker.terminate_ended(if ok { Ok(()) } else { Err(SyncFailure::Interrupted) });
                    }
                    Some(Work::CleanUp { .. }) => {
                        worker.clean_up_ended(if ok { Ok(()) } else { Err(SyncFailure::Interrupted) });
                    }
                },
            }
            prop_assert!(worker.phase() >= phase);
            phase = worker.phase();
        }
    }

    /// A killed pod finishes if its syncs succeed, whatever happened before.
    #[test]
    fn killed_pod_always_finishes(inputs in proptest::collection::vec(any_input(), 0..20)) {
        let mut worker = running();
        for input in inputs {
            if let Input::Command(kind, _) = input {
                worker.receive(&command(kind));
            }
        }
        worker.receive(&command(UpdateKind::Kill));
        for _ in 0..4 {
            worker.retry(Timestamp::from_secs(9));
            match worker.next_work() {
                Some(Work::Sync { .. }) => prop_assert!(false, "synced a killed pod"),
                Some(Work::Terminate { .. } | Work::TerminateOrphan { .. }) => { worker.terminate_ended(Ok(())); }
                Some(Work::CleanUp { .. }) => { worker.clean_up_ended(Ok(())); }
                None => {}
            }
        }
        prop_assert_eq!(worker.phase(), WorkerPhase::Finished);
    }
}
