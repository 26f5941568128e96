//! One worker per pod UID: takes commands, makes one pass at a time, and asks to be called again.
//!
//! What a worker does next is decided by `decide::worker`; a pass is made by the [`PodSyncer`] in a task of its
//! own, which exists only while there is work, so that an idle pod costs nothing but its state.

mod names;
mod span;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::requeue::{after_failure, after_success};
use decide::worker::{Next, Reaction, Remains, Work, Worker};
use model::{
    PodUid, SyncFailure, SyncOutcome, Timestamp, UpdateKind, WorkerCommand, WorkerTarget, WorkerView,
};
use ports::clock::Clock;
use ports::pod_syncer::{Interruption, PodSyncer};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::messages::{Requeue, WorkerMessage};
use crate::metrics::{Metrics, to_gauge};
use crate::observation::Observer;
use crate::published::Writer;
use crate::timeline::Timelines;
use names::Names;
use span::span_of;

/// What the workers need.
pub struct Parts {
    /// Commands from the sync loop.
    pub messages: mpsc::UnboundedReceiver<WorkerMessage>,
    /// Who makes the passes.
    pub syncer: Arc<dyn PodSyncer>,
    /// What others may know of the workers.
    pub views: Writer<WorkerView>,
    /// When workers look at their pods again at the latest; nobody is woken by it.
    pub next_passes: Writer<Timestamp>,
    /// How pods came to run.
    pub timelines: Arc<Timelines>,
    /// Where workers ask to be called again.
    pub requeues: mpsc::UnboundedSender<Requeue>,
    /// What the runtime holds.
    pub observer: Observer,
    /// Longest time between two passes over an unchanged pod.
    pub sync_frequency: Duration,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// Runs until cancelled; passes under way are dropped then, which is as safe as being killed.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    let mut workers = PodWorkers {
        parts,
        entries: HashMap::new(),
        names: Names::default(),
        passes: JoinSet::new(),
        pass_ids: HashMap::new(),
        passes_made: 0,
    };
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            Some(message) = workers.parts.messages.recv() => workers.on_message(message),
            Some(ended) = workers.passes.join_next_with_id() => workers.on_pass_joined(ended),
        }
    }
}

struct Entry {
    worker: Worker,
    interrupt: CancellationToken,
}

enum Ended {
    Sync(Result<SyncOutcome, SyncFailure>),
    Terminate(Result<(), SyncFailure>),
    CleanUp(Result<(), SyncFailure>),
}

struct Token(CancellationToken);

impl Interruption for Token {
    fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    fn requested(&self) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(self.0.cancelled())
    }
}

struct PodWorkers {
    parts: Parts,
    /// Boxed: a table has up to twice the places it needs, and workers are large.
    entries: HashMap<PodUid, Box<Entry>>,
    names: Names,
    passes: JoinSet<Ended>,
    pass_ids: HashMap<tokio::task::Id, (PodUid, &'static str, Instant)>,
    passes_made: u64,
}

impl PodWorkers {
    fn on_message(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Command(command) => self.on_command(&command),
            WorkerMessage::Retry(uid) => {
                if let Some(entry) = self.entries.get_mut(&uid) {
                    entry.worker.retry(self.parts.clock.now());
                    self.start(&uid);
                }
            }
            WorkerMessage::Forget(uid) => self.forget(&uid),
        }
    }

    fn on_command(&mut self, command: &WorkerCommand) {
        let uid = command.target.uid();
        match self.entries.get_mut(uid) {
            Some(entry) => {
                if entry.worker.receive(command) == Reaction::Interrupt {
                    entry.interrupt.cancel();
                }
            }
            None => {
                let alive = self.parts.observer.last(uid).is_some_and(|observed| observed.is_alive());
                let remains = if alive { Remains::Alive } else { Remains::Nothing };
                let Some(worker) = Worker::first(command, remains) else { return };
                if let WorkerTarget::Desired(pod) = &command.target {
                    self.parts.metrics.pods.containers_per_pod.observe(to_gauge(pod.spec.containers.len()));
                }
                if let (UpdateKind::Create, WorkerTarget::Desired(pod)) = (command.kind, &command.target) {
                    self.parts.timelines.accepted(pod, remains);
                    let waited = command.seen_at.since(pod.first_seen());
                    self.parts.metrics.pods.worker_start_duration.observe(waited.as_secs_f64());
                }
                let entry = Entry { worker, interrupt: CancellationToken::new() };
                self.entries.insert(uid.clone(), Box::new(entry));
            }
        }
        self.start(uid);
    }

    /// Starts the worker's next pass, if it has one and may.
    fn start(&mut self, uid: &PodUid) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        if entry.worker.needs_its_name() && !self.names.take(entry.worker.full_name(), uid) {
            self.publish(uid);
            return;
        }
        if let Some(work) = entry.worker.next_work() {
            entry.interrupt = CancellationToken::new();
            let token = Token(entry.interrupt.clone());
            let syncer = Arc::clone(&self.parts.syncer);
            let kind = kind_of(&work);
            let task = self.passes.spawn(traced_pass(syncer, work, token));
            self.pass_ids.insert(task.id(), (uid.clone(), kind, Instant::now()));
        }
        self.publish(uid);
    }

    fn on_pass_joined(&mut self, joined: Result<(tokio::task::Id, Ended), tokio::task::JoinError>) {
        let (id, ended) = match joined {
            Ok((id, ended)) => (id, Ok(ended)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some((uid, kind, started)) = self.pass_ids.remove(&id) else { return };
        self.parts.metrics.pods.pass_ended(kind, started.elapsed());
        let Some(entry) = self.entries.get_mut(&uid) else { return };
        let next = match ended {
            Ok(Ended::Sync(result)) => entry.worker.sync_ended(result),
            Ok(Ended::Terminate(result)) => entry.worker.terminate_ended(result),
            Ok(Ended::CleanUp(result)) => entry.worker.clean_up_ended(result),
            Err(error) => {
                tracing::error!(pod = %entry.worker.full_name(), %error, "a worker's pass broke off");
                let failure =
                    SyncFailure::Failed { message: error.to_string(), problems: Default::default() };
                entry.worker.pass_broke(failure)
            }
        };
        self.follow(&uid, next);
    }

    fn follow(&mut self, uid: &PodUid, next: Next) {
        let delay = match next {
            Next::Now => {
                self.start(uid);
                return;
            }
            Next::Later { retry_at } => {
                after_success(self.parts.sync_frequency, retry_at, self.parts.clock.now(), self.spread(uid))
            }
            Next::AfterFailure(failure) => {
                if let Some(entry) = self.entries.get(uid) {
                    tracing::warn!(pod = %entry.worker.full_name(), %uid, error = %failure, "pod sync failed; trying again");
                }
                after_failure(&failure, self.spread(uid))
            }
            Next::Done => {
                self.on_done(uid);
                return;
            }
        };
        self.parts.next_passes.set(uid, Arc::new(self.parts.clock.now().after(delay)));
        // Fails only while the agent stops.
        let _ = self.parts.requeues.send(Requeue { uid: uid.clone(), delay });
        self.publish(uid);
    }

    fn on_done(&mut self, uid: &PodUid) {
        let Some(entry) = self.entries.get(uid) else { return };
        tracing::info!(pod = %entry.worker.full_name(), %uid, "pod is finished");
        let next = self.names.release(entry.worker.full_name(), uid);
        self.publish(uid);
        if let Some(next) = next {
            self.start(&next);
        }
    }

    fn forget(&mut self, uid: &PodUid) {
        let finished =
            self.entries.get(uid).is_some_and(|entry| entry.worker.phase() == model::WorkerPhase::Finished);
        if finished {
            self.entries.remove(uid);
            self.parts.views.remove(uid);
            self.parts.next_passes.remove(uid);
            self.parts.timelines.forget(uid);
        }
    }

    fn publish(&self, uid: &PodUid) {
        if let Some(entry) = self.entries.get(uid) {
            let view = entry.worker.view();
            if self.parts.views.reader().get(uid).is_none_or(|old| *old != view) {
                self.parts.views.set(uid, Arc::new(view));
            }
        }
    }

    /// A number from 0 to 1 that differs between pods and passes, so that waits do not fall together.
    fn spread(&mut self, uid: &PodUid) -> f64 {
        self.passes_made = self.passes_made.wrapping_add(1);
        let mut hash = self.passes_made.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in uid.as_str().bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        f64::from(u32::try_from(hash >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }
}

fn kind_of(work: &Work) -> &'static str {
    match work {
        Work::Sync { kind, .. } => kind.as_str(),
        Work::Terminate { .. } | Work::TerminateOrphan { .. } => "kill",
        Work::CleanUp { .. } => "terminated",
    }
}

async fn traced_pass(syncer: Arc<dyn PodSyncer>, work: Work, interruption: Token) -> Ended {
    let span = span_of(&work);
    make_pass(syncer, work, interruption).instrument(span).await
}

async fn make_pass(syncer: Arc<dyn PodSyncer>, work: Work, interruption: Token) -> Ended {
    match work {
        Work::Sync { pod, kind, .. } => Ended::Sync(syncer.sync_pod(&pod, kind, &interruption).await),
        Work::Terminate { pod, grace_seconds } => {
            Ended::Terminate(syncer.sync_terminating_pod(&pod, grace_seconds).await)
        }
        Work::TerminateOrphan { observed, grace_seconds } => {
            Ended::Terminate(syncer.sync_terminating_orphan(&observed, grace_seconds).await)
        }
        Work::CleanUp { pod } => Ended::CleanUp(syncer.sync_terminated_pod(&pod).await),
    }
}
