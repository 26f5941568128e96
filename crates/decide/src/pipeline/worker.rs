//! The state machine of a pod's worker: syncing → terminating → terminated → finished, never backwards.
//!
//! ```text
//!             kill, deletion, end of pod          nothing runs           nothing left
//!   Syncing ────────────────────────────► Terminating ───────► Terminated ─────────► Finished
//!      │ sync failed: retry with delay        │ retry              │ retry              │ dropped by
//!      └─ sync done: again each minute        └ grace only shrinks └                    ▼ housekeeping
//! ```
//! A worker keeps only the newest command: a command replaces older ones that are still pending. A create for the same UID
//! that arrives during termination is recorded, and housekeeping creates a new worker afterwards.

use std::sync::Arc;

use model::{
    ContainerProblems, KillOptions, ObservedPod, Pod, PodFullName, PodUid, Rejection, SyncFailure,
    SyncOutcome, Timestamp, UpdateKind, WorkerCommand, WorkerPhase, WorkerPodKind, WorkerProgress,
    WorkerTarget, WorkerView,
};

use crate::pipeline::grace::{ORPHAN_GRACE_SECONDS, pod_grace};
use crate::status::status_report::is_terminal;

/// The state machine that owns one pod UID.
#[derive(Clone, Debug)]
pub struct Worker {
    uid: PodUid,
    full_name: PodFullName,
    target: WorkerTarget,
    stage: Stage,
    pending: Option<Pending>,
    activity: Activity,
    progress: WorkerProgress,
    restart_requested: bool,
    problems: ContainerProblems,
    last_error: Option<String>,
    rejection: Option<Rejection>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Syncing,
    Terminating { grace_seconds: u64 },
    Terminated,
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    kind: UpdateKind,
    seen_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Idle,
    Working,
}

/// One sync that a worker should run now.
#[derive(Clone, Debug)]
pub enum Work {
    /// Bring the pod to the state of its spec.
    Sync {
        pod: Arc<Pod>,
        kind: UpdateKind,
        /// When the agent received the event that caused this sync.
        seen_at: Timestamp,
    },
    /// Stop the pod.
    Terminate { pod: Arc<Pod>, grace_seconds: u64 },
    /// Stop a pod that exists only in the runtime.
    TerminateOrphan { observed: Arc<ObservedPod>, grace_seconds: u64 },
    /// Clean up after a stopped pod.
    CleanUp { pod: Arc<Pod> },
}

/// The result of one [`Work`].
#[derive(Debug)]
pub enum WorkResult {
    Sync(Result<SyncOutcome, SyncFailure>),
    /// Of [`Work::Terminate`] and [`Work::TerminateOrphan`]. `Ok` means that nothing of the pod runs.
    Terminate(Result<(), SyncFailure>),
    CleanUp(Result<(), SyncFailure>),
}

/// The effect of a command on a running sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    None,
    /// Cancel the sync: the pod must stop, or stop sooner.
    Interrupt,
}

/// When a worker wants its next sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextSync {
    Now,
    /// After a successful sync; `retry_at` may be earlier than the regular period.
    Later {
        retry_at: Option<Timestamp>,
    },
    AfterFailure(SyncFailure),
    Never,
}

/// Whether any container or sandbox of a pod runs when its first command arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPresence {
    Running,
    NotRunning,
}

impl Worker {
    /// Creates the worker for a pod's first command; `None` if the command is not valid for an orphan, which can only be
    /// killed.
    pub fn from_first_command(command: &WorkerCommand, presence: PodPresence) -> Option<Self> {
        let mut worker = Self {
            uid: command.target.uid().clone(),
            full_name: command.target.full_name().clone(),
            target: command.target.clone(),
            stage: Stage::Syncing,
            pending: None,
            activity: Activity::Idle,
            progress: WorkerProgress::NotStarted,
            restart_requested: false,
            problems: ContainerProblems::new(),
            last_error: None,
            rejection: None,
        };
        match &command.target {
            WorkerTarget::Orphan(_) if command.kind != UpdateKind::Kill => return None,
            WorkerTarget::Desired(pod) if is_terminal(&pod.status) && presence == PodPresence::NotRunning => {
                worker.stage = Stage::Terminated;
                worker.progress = WorkerProgress::Started;
                worker.pending = Some(Pending { kind: command.kind, seen_at: command.seen_at });
            }
            WorkerTarget::Orphan(_) | WorkerTarget::Desired(_) => {
                worker.receive(command);
            }
        }
        Some(worker)
    }

    pub fn receive(&mut self, command: &WorkerCommand) -> Reaction {
        if self.stage != Stage::Syncing && command.kind == UpdateKind::Create {
            self.restart_requested = true;
            return Reaction::None;
        }
        if let WorkerTarget::Desired(_) = command.target {
            self.target = command.target.clone();
        }
        match self.stage {
            Stage::Finished => Reaction::None,
            Stage::Terminated => {
                self.pending = Some(Pending { kind: command.kind, seen_at: command.seen_at });
                Reaction::None
            }
            Stage::Syncing if must_stop(command) => {
                self.pending = Some(Pending { kind: UpdateKind::Kill, seen_at: command.seen_at });
                self.terminate(command.kill.as_ref(), None);
                Reaction::Interrupt
            }
            Stage::Syncing => {
                self.pending = Some(Pending { kind: command.kind, seen_at: command.seen_at });
                Reaction::None
            }
            Stage::Terminating { grace_seconds } => {
                self.pending = Some(Pending { kind: command.kind, seen_at: command.seen_at });
                self.terminate(command.kill.as_ref(), Some(grace_seconds));
                if self.stage == (Stage::Terminating { grace_seconds }) {
                    Reaction::None
                } else {
                    Reaction::Interrupt
                }
            }
        }
    }

    /// Requests another sync without a new command.
    pub fn retry(&mut self, now: Timestamp) {
        if self.pending.is_none() && self.stage != Stage::Finished {
            self.pending = Some(Pending { kind: UpdateKind::Sync, seen_at: now });
        }
    }

    /// Whether the pod must wait until no other pod of the same name exists. Only static pods that have not started do.
    pub fn waits_for_name(&self) -> bool {
        self.pod_kind() == WorkerPodKind::StaticPod
            && self.progress == WorkerProgress::NotStarted
            && self.stage == Stage::Syncing
    }

    /// The sync to run now, if any. The caller runs one at a time and reports its end.
    pub fn next_work(&mut self) -> Option<Work> {
        if self.activity == Activity::Working {
            return None;
        }
        let Pending { kind, seen_at } = self.pending?;
        let work = match (&self.stage, &self.target) {
            (Stage::Syncing, WorkerTarget::Desired(pod)) => {
                Work::Sync { pod: Arc::clone(pod), kind, seen_at }
            }
            (Stage::Terminating { grace_seconds }, WorkerTarget::Desired(pod)) => {
                Work::Terminate { pod: Arc::clone(pod), grace_seconds: *grace_seconds }
            }
            (Stage::Terminating { grace_seconds }, WorkerTarget::Orphan(observed)) => {
                Work::TerminateOrphan { observed: Arc::clone(observed), grace_seconds: *grace_seconds }
            }
            (Stage::Terminated, WorkerTarget::Desired(pod)) => Work::CleanUp { pod: Arc::clone(pod) },
            (Stage::Syncing | Stage::Terminated, WorkerTarget::Orphan(_)) | (Stage::Finished, _) => {
                return None;
            }
        };
        self.pending = None;
        self.progress = self.progress.max(WorkerProgress::Started);
        self.activity = Activity::Working;
        Some(work)
    }

    /// Records the result of a [`Work::Sync`].
    pub fn sync_ended(&mut self, result: Result<SyncOutcome, SyncFailure>) -> NextSync {
        self.mark_idle();
        match result {
            Ok(outcome) => {
                self.last_error = None;
                let retry_at = match outcome {
                    SyncOutcome::Running { problems, retry_at } => {
                        self.problems = problems;
                        retry_at
                    }
                    SyncOutcome::Completed => self.terminate_after_sync(None),
                    SyncOutcome::Rejected(rejection) => self.terminate_after_sync(Some(rejection)),
                };
                if self.pending.is_some() { NextSync::Now } else { NextSync::Later { retry_at } }
            }
            Err(failure) => {
                if let SyncFailure::Failed { problems, .. } = &failure {
                    self.problems.clone_from(problems);
                }
                self.failed(failure)
            }
        }
    }

    /// Records the result of a [`Work::Terminate`] or [`Work::TerminateOrphan`].
    pub fn terminate_ended(&mut self, result: Result<(), SyncFailure>) -> NextSync {
        self.mark_idle();
        match result {
            Err(failure) => self.failed(failure),
            Ok(()) => {
                self.last_error = None;
                self.problems.clear();
                match self.target {
                    WorkerTarget::Desired(_) => {
                        self.stage = Stage::Terminated;
                        self.pending = Some(Pending { kind: UpdateKind::Sync, seen_at: Timestamp::ZERO });
                        NextSync::Now
                    }
                    WorkerTarget::Orphan(_) => self.finish(),
                }
            }
        }
    }

    /// Records the result of a [`Work::CleanUp`].
    pub fn clean_up_ended(&mut self, result: Result<(), SyncFailure>) -> NextSync {
        self.mark_idle();
        match result {
            Err(failure) => self.failed(failure),
            Ok(()) => self.finish(),
        }
    }

    /// Records that a sync ended without a result, because its task panicked.
    pub fn sync_aborted(&mut self, failure: SyncFailure) -> NextSync {
        self.mark_idle();
        self.failed(failure)
    }

    pub fn phase(&self) -> WorkerPhase {
        match self.stage {
            Stage::Syncing => WorkerPhase::Syncing,
            Stage::Terminating { .. } => WorkerPhase::Terminating,
            Stage::Terminated => WorkerPhase::Terminated,
            Stage::Finished => WorkerPhase::Finished,
        }
    }

    /// The published view of this worker.
    pub fn view(&self) -> WorkerView {
        WorkerView {
            uid: self.uid.clone(),
            full_name: self.full_name.clone(),
            phase: self.phase(),
            pod_kind: self.pod_kind(),
            progress: self.progress,
            restart_requested: self.restart_requested,
            problems: self.problems.clone(),
            last_error: self.last_error.clone(),
            rejection: self.rejection.clone(),
        }
    }

    pub fn full_name(&self) -> &PodFullName {
        &self.full_name
    }

    fn pod_kind(&self) -> WorkerPodKind {
        match &self.target {
            WorkerTarget::Desired(pod) if pod.is_static() => WorkerPodKind::StaticPod,
            WorkerTarget::Desired(_) => WorkerPodKind::ApiPod,
            WorkerTarget::Orphan(_) => WorkerPodKind::Orphan,
        }
    }

    fn mark_idle(&mut self) {
        self.activity = Activity::Idle;
        self.progress = WorkerProgress::SyncedOnce;
    }

    /// Terminates a pod whose sync found it completed or rejected, unless a command did so during the sync.
    fn terminate_after_sync(&mut self, rejection: Option<Rejection>) -> Option<Timestamp> {
        self.problems.clear();
        if self.stage == Stage::Syncing {
            self.terminate(Some(&KillOptions { grace_override: None, rejection }), None);
            self.pending.get_or_insert(Pending { kind: UpdateKind::Sync, seen_at: Timestamp::ZERO });
        }
        None
    }

    fn terminate(&mut self, kill: Option<&KillOptions>, current: Option<u64>) {
        let grace_seconds = match &self.target {
            WorkerTarget::Desired(pod) => pod_grace(current, pod, kill),
            WorkerTarget::Orphan(_) => {
                let requested =
                    kill.and_then(|options| options.grace_override).unwrap_or(ORPHAN_GRACE_SECONDS);
                requested.max(1).min(current.unwrap_or(u64::MAX))
            }
        };
        self.stage = Stage::Terminating { grace_seconds };
        if let Some(rejection) = kill.and_then(|options| options.rejection.clone()) {
            self.rejection.get_or_insert(rejection);
        }
    }

    fn failed(&mut self, failure: SyncFailure) -> NextSync {
        if failure != SyncFailure::Interrupted {
            self.last_error = Some(failure.to_string());
        }
        if self.pending.is_some() { NextSync::Now } else { NextSync::AfterFailure(failure) }
    }

    fn finish(&mut self) -> NextSync {
        self.stage = Stage::Finished;
        self.pending = None;
        self.last_error = None;
        NextSync::Never
    }
}

fn must_stop(command: &WorkerCommand) -> bool {
    let is_terminating = match &command.target {
        WorkerTarget::Desired(pod) => pod.is_deleted() || is_terminal(&pod.status),
        WorkerTarget::Orphan(_) => true,
    };
    is_terminating || command.kind == UpdateKind::Kill
}

#[cfg(test)]
mod tests;
