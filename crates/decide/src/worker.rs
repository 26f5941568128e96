//! The life of a pod's worker: syncing → terminating → terminated → finished, never backwards.
//!
//! ```text
//!             kill, deletion, end of pod          nothing runs           nothing left
//!   Syncing ────────────────────────────► Terminating ───────► Terminated ─────────► Finished
//!      │ pass failed: again later             │ again later        │ again later        │ forgotten by
//!      └─ pass done: again each minute        └ grace only shrinks └                    ▼ housekeeping
//! ```
//! A worker remembers only the newest command: older ones that were not worked on yet are replaced. A create for
//! the same UID that comes after termination began is remembered and starts a new worker afterwards.

use std::sync::Arc;

use model::{
    ContainerProblems, KillOptions, ObservedPod, Pod, PodFullName, PodUid, Rejection, SyncFailure,
    SyncOutcome, Timestamp, UpdateKind, WorkerCommand, WorkerPhase, WorkerTarget, WorkerView,
};

use crate::grace::{ORPHAN_GRACE_SECONDS, pod_grace};

/// One pod's worker.
#[derive(Clone, Debug)]
pub struct Worker {
    uid: PodUid,
    full_name: PodFullName,
    target: WorkerTarget,
    stage: Stage,
    pending: Option<Pending>,
    activity: Activity,
    started: bool,
    passed: bool,
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

/// One pass that a worker should make now.
#[derive(Clone, Debug)]
pub enum Work {
    /// Make the pod run as its spec says.
    Sync {
        /// The pod.
        pod: Arc<Pod>,
        /// Why.
        kind: UpdateKind,
        /// When the cause was seen.
        seen_at: Timestamp,
    },
    /// Stop the pod.
    Terminate {
        /// The pod.
        pod: Arc<Pod>,
        /// Within this time.
        grace_seconds: u64,
    },
    /// Stop a pod that only the runtime knows.
    TerminateOrphan {
        /// What the runtime holds.
        observed: Arc<ObservedPod>,
        /// Within this time.
        grace_seconds: u64,
    },
    /// Clean up after a stopped pod.
    CleanUp {
        /// The pod.
        pod: Arc<Pod>,
    },
}

/// What a command means for a pass that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing.
    None,
    /// It should end early: the pod must stop, or stop faster.
    Interrupt,
}

/// When a worker wants to be called again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once.
    Now,
    /// After its pass went well; `retry_at` may ask for an earlier time than the usual period.
    Later {
        /// Not later than this.
        retry_at: Option<Timestamp>,
    },
    /// After a failure.
    AfterFailure(SyncFailure),
    /// Never.
    Done,
}

/// What is known of a pod when its first command arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Something of it runs.
    Alive,
    /// Nothing of it runs.
    Nothing,
}

impl Worker {
    /// The worker for a pod's first command, `None` when the command asks for nothing (an orphan can only be
    /// killed).
    #[must_use]
    pub fn first(command: &WorkerCommand, remains: Remains) -> Option<Self> {
        let mut worker = Self {
            uid: command.target.uid().clone(),
            full_name: command.target.full_name().clone(),
            target: command.target.clone(),
            stage: Stage::Syncing,
            pending: None,
            activity: Activity::Idle,
            started: false,
            passed: false,
            restart_requested: false,
            problems: ContainerProblems::new(),
            last_error: None,
            rejection: None,
        };
        match &command.target {
            WorkerTarget::Orphan(_) if command.kind != UpdateKind::Kill => return None,
            WorkerTarget::Desired(pod) if ended_elsewhere(pod) && remains == Remains::Nothing => {
                worker.stage = Stage::Terminated;
                worker.started = true;
                worker.pending = Some(Pending { kind: command.kind, seen_at: command.seen_at });
            }
            WorkerTarget::Orphan(_) | WorkerTarget::Desired(_) => {
                worker.receive(command);
            }
        }
        Some(worker)
    }

    /// Takes a command.
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

    /// Asks for another pass without anything new.
    pub fn retry(&mut self, now: Timestamp) {
        if self.pending.is_none() && self.stage != Stage::Finished {
            self.pending = Some(Pending { kind: UpdateKind::Sync, seen_at: now });
        }
    }

    /// Whether the pod waits for another one of the same name: only static pods that have not begun do.
    #[must_use]
    pub fn needs_its_name(&self) -> bool {
        let is_static = matches!(&self.target, WorkerTarget::Desired(pod) if pod.is_static());
        is_static && !self.started && self.stage == Stage::Syncing
    }

    /// The pass to make now, if any. The caller makes exactly one at a time and reports its end.
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
        self.started = true;
        self.activity = Activity::Working;
        Some(work)
    }

    /// Takes the end of a [`Work::Sync`] pass.
    pub fn sync_ended(&mut self, result: Result<SyncOutcome, SyncFailure>) -> Next {
        self.rest();
        match result {
            Ok(outcome) => {
                self.problems = outcome.problems;
                self.last_error = None;
                if self.stage == Stage::Syncing && outcome.finished {
                    self.terminate(
                        Some(&KillOptions { grace_override: None, rejection: outcome.rejection }),
                        None,
                    );
                    self.pending.get_or_insert(Pending { kind: UpdateKind::Sync, seen_at: Timestamp::ZERO });
                }
                if self.pending.is_some() { Next::Now } else { Next::Later { retry_at: outcome.retry_at } }
            }
            Err(failure) => {
                if let SyncFailure::Failed { problems, .. } = &failure {
                    self.problems.clone_from(problems);
                }
                self.failed(failure)
            }
        }
    }

    /// Takes the end of a [`Work::Terminate`] or [`Work::TerminateOrphan`] pass.
    pub fn terminate_ended(&mut self, result: Result<(), SyncFailure>) -> Next {
        self.rest();
        match result {
            Err(failure) => self.failed(failure),
            Ok(()) => {
                self.last_error = None;
                self.problems.clear();
                match self.target {
                    WorkerTarget::Desired(_) => {
                        self.stage = Stage::Terminated;
                        self.pending = Some(Pending { kind: UpdateKind::Sync, seen_at: Timestamp::ZERO });
                        Next::Now
                    }
                    WorkerTarget::Orphan(_) => self.finish(),
                }
            }
        }
    }

    /// Takes the end of a [`Work::CleanUp`] pass.
    pub fn clean_up_ended(&mut self, result: Result<(), SyncFailure>) -> Next {
        self.rest();
        match result {
            Err(failure) => self.failed(failure),
            Ok(()) => self.finish(),
        }
    }

    /// Takes the end of a pass that broke off without a result.
    pub fn pass_broke(&mut self, failure: SyncFailure) -> Next {
        self.rest();
        self.failed(failure)
    }

    /// How far the worker is.
    #[must_use]
    pub fn phase(&self) -> WorkerPhase {
        match self.stage {
            Stage::Syncing => WorkerPhase::Syncing,
            Stage::Terminating { .. } => WorkerPhase::Terminating,
            Stage::Terminated => WorkerPhase::Terminated,
            Stage::Finished => WorkerPhase::Finished,
        }
    }

    /// What others may know.
    #[must_use]
    pub fn view(&self) -> WorkerView {
        WorkerView {
            uid: self.uid.clone(),
            full_name: self.full_name.clone(),
            phase: self.phase(),
            started: self.started,
            passed: self.passed,
            restart_requested: self.restart_requested,
            orphan: matches!(self.target, WorkerTarget::Orphan(_)),
            is_static: matches!(&self.target, WorkerTarget::Desired(pod) if pod.is_static()),
            problems: self.problems.clone(),
            last_error: self.last_error.clone(),
            rejection: self.rejection.clone(),
        }
    }

    /// The pod's namespace and name.
    #[must_use]
    pub fn full_name(&self) -> &PodFullName {
        &self.full_name
    }

    fn rest(&mut self) {
        self.activity = Activity::Idle;
        self.passed = true;
    }

    fn terminate(&mut self, kill: Option<&KillOptions>, current: Option<u64>) {
        let grace_seconds = match &self.target {
            WorkerTarget::Desired(pod) => pod_grace(current, pod, kill),
            WorkerTarget::Orphan(_) => {
                let asked = kill.and_then(|options| options.grace_override).unwrap_or(ORPHAN_GRACE_SECONDS);
                asked.max(1).min(current.unwrap_or(u64::MAX))
            }
        };
        self.stage = Stage::Terminating { grace_seconds };
        if let Some(rejection) = kill.and_then(|options| options.rejection.clone()) {
            self.rejection.get_or_insert(rejection);
        }
    }

    fn failed(&mut self, failure: SyncFailure) -> Next {
        if failure != SyncFailure::Interrupted {
            self.last_error = Some(failure.to_string());
        }
        if self.pending.is_some() { Next::Now } else { Next::AfterFailure(failure) }
    }

    fn finish(&mut self) -> Next {
        self.stage = Stage::Finished;
        self.pending = None;
        self.last_error = None;
        Next::Done
    }
}

/// Whether the source already shows the pod at its end (an API pod that finished before this agent started).
fn ended_elsewhere(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// Whether a change of nothing but the status concerns the worker: somebody else has ended the pod.
#[must_use]
pub fn ends_by_status(pod: &Pod) -> bool {
    ended_elsewhere(pod)
}

fn must_stop(command: &WorkerCommand) -> bool {
    let over = match &command.target {
        WorkerTarget::Desired(pod) => pod.is_deleted() || ended_elsewhere(pod),
        WorkerTarget::Orphan(_) => true,
    };
    over || command.kind == UpdateKind::Kill
}

#[cfg(test)]
mod tests;
