//! One worker per pod UID: receives commands, runs one sync at a time, and requeues itself.
//!
//! `decide::pipeline::worker` decides what a worker does next. Each piece of work runs through [`RunWork`] in a separate
//! task that exists only while there is work, so that an idle pod costs only its state.

mod full_name_locks;
mod span;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::pipeline::requeue::{delay_after_failure, delay_after_success};
use decide::pipeline::worker::{NextSync, PodPresence, Reaction, Work, WorkResult, Worker};
use futures::future::BoxFuture;
use model::{PodUid, SyncFailure, Timestamp, UpdateKind, WorkerCommand, WorkerTarget, WorkerView};
use ports::clock::Clock;
use timing::fraction_of;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::metrics::{Metrics, to_gauge};
use crate::pipeline::messages::WorkerMessage;
use crate::pipeline::observation::Observer;
use crate::pipeline::requeues::RequeueSender;
use crate::pipeline::tables::Writer;
use crate::pipeline::timeline::Timelines;
use full_name_locks::FullNameLocks;
use span::span_of;

/// Runs one piece of work for one pod. A function, because stages do not import each other.
///
/// Work is idempotent: it may be repeated at any time, also after the agent was killed in the middle. It ends early with
/// `SyncFailure::Interrupted` when the token is cancelled, because a newer command waits.
pub type RunWork = Arc<dyn Fn(Work, CancellationToken) -> BoxFuture<'static, WorkResult> + Send + Sync>;

pub struct PodWorkersDeps {
    pub messages: mpsc::UnboundedReceiver<WorkerMessage>,
    pub run_work: RunWork,
    /// Published view of each worker.
    pub views: Writer<WorkerView>,
    /// When each worker syncs its pod next at the latest. The table has no listeners.
    pub next_syncs: Writer<Timestamp>,
    pub timelines: Arc<Timelines>,
    pub requeues: RequeueSender,
    pub observer: Observer,
    /// The longest time between two syncs of an unchanged pod.
    pub sync_frequency: Duration,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

/// Runs until cancelled. Running syncs are then dropped, which is as safe as a kill of the agent.
pub async fn run(deps: PodWorkersDeps, cancel: CancellationToken) {
    let mut workers = PodWorkers {
        deps,
        entries: HashMap::new(),
        name_locks: FullNameLocks::default(),
        syncs: JoinSet::new(),
        sync_ids: HashMap::new(),
        sync_count: 0,
    };
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            Some(message) = workers.deps.messages.recv() => workers.on_message(message),
            Some(ended) = workers.syncs.join_next_with_id() => workers.on_sync_joined(ended),
        }
    }
}

struct Entry {
    worker: Worker,
    interrupt: CancellationToken,
}

struct PodWorkers {
    deps: PodWorkersDeps,
    /// Boxed: a hash map has up to twice the slots it needs, and workers are large.
    entries: HashMap<PodUid, Box<Entry>>,
    name_locks: FullNameLocks,
    syncs: JoinSet<WorkResult>,
    sync_ids: HashMap<tokio::task::Id, (PodUid, &'static str, Instant)>,
    sync_count: u64,
}

impl PodWorkers {
    fn on_message(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Command(command) => self.on_command(&command),
            WorkerMessage::Retry(uid) => {
                if let Some(entry) = self.entries.get_mut(&uid) {
                    entry.worker.retry(self.deps.clock.now());
                    self.start(&uid);
                }
            }
            WorkerMessage::Remove(uid) => self.remove(&uid),
            // Fails if the sync loop no longer waits.
            WorkerMessage::Flush(reply) => drop(reply.send(())),
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
                let alive = self.deps.observer.last(uid).is_some_and(|observed| observed.is_alive());
                let presence = if alive { PodPresence::Running } else { PodPresence::NotRunning };
                let Some(worker) = Worker::from_first_command(command, presence) else { return };
                if let WorkerTarget::Desired(pod) = &command.target {
                    self.deps.metrics.pods.containers_per_pod.observe(to_gauge(pod.spec.containers.len()));
                }
                if let (UpdateKind::Create, WorkerTarget::Desired(pod)) = (command.kind, &command.target) {
                    self.deps.timelines.record_accepted(pod, presence);
                    let waited = command.seen_at.since(pod.first_seen());
                    self.deps.metrics.pods.worker_start_duration.observe(waited.as_secs_f64());
                }
                let entry = Entry { worker, interrupt: CancellationToken::new() };
                self.entries.insert(uid.clone(), Box::new(entry));
            }
        }
        self.start(uid);
    }

    /// Starts the worker's next work, if it has any and holds the lock of its full name.
    fn start(&mut self, uid: &PodUid) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        if entry.worker.waits_for_name() && !self.name_locks.acquire(entry.worker.full_name(), uid) {
            self.publish(uid);
            return;
        }
        if let Some(work) = entry.worker.next_work() {
            entry.interrupt = CancellationToken::new();
            let (kind, span) = (kind_of(&work), span_of(&work));
            let running = (self.deps.run_work)(work, entry.interrupt.clone());
            let task = self.syncs.spawn(running.instrument(span));
            self.sync_ids.insert(task.id(), (uid.clone(), kind, Instant::now()));
        }
        self.publish(uid);
    }

    fn on_sync_joined(&mut self, joined: Result<(tokio::task::Id, WorkResult), tokio::task::JoinError>) {
        let (id, ended) = match joined {
            Ok((id, ended)) => (id, Ok(ended)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some((uid, kind, started)) = self.sync_ids.remove(&id) else { return };
        self.deps.metrics.pods.worker_duration.observe([kind], started.elapsed());
        let Some(entry) = self.entries.get_mut(&uid) else { return };
        let next = match ended {
            Ok(WorkResult::Sync(result)) => entry.worker.sync_ended(result),
            Ok(WorkResult::Terminate(result)) => entry.worker.terminate_ended(result),
            Ok(WorkResult::CleanUp(result)) => entry.worker.clean_up_ended(result),
            Err(error) => {
                tracing::error!(pod = %entry.worker.full_name(), %error, "pod sync task panicked");
                let failure =
                    SyncFailure::Failed { message: error.to_string(), problems: Default::default() };
                entry.worker.sync_aborted(failure)
            }
        };
        self.schedule_next(&uid, next);
    }

    fn schedule_next(&mut self, uid: &PodUid, next: NextSync) {
        let delay = match next {
            NextSync::Now => {
                self.start(uid);
                return;
            }
            NextSync::Later { retry_at } => delay_after_success(
                self.deps.sync_frequency,
                retry_at,
                self.deps.clock.now(),
                self.jitter(uid),
            ),
            NextSync::AfterFailure(failure) => {
                if let Some(entry) = self.entries.get(uid) {
                    tracing::warn!(pod = %entry.worker.full_name(), %uid, error = %failure, "pod sync failed, retrying");
                }
                delay_after_failure(&failure, self.jitter(uid))
            }
            NextSync::Never => {
                self.on_finished(uid);
                return;
            }
        };
        self.deps.next_syncs.set(uid, Arc::new(self.deps.clock.now().after(delay)));
        self.deps.requeues.requeue(uid, delay);
        self.publish(uid);
    }

    fn on_finished(&mut self, uid: &PodUid) {
        let Some(entry) = self.entries.get(uid) else { return };
        tracing::info!(pod = %entry.worker.full_name(), %uid, "pod is finished");
        let next = self.name_locks.release(entry.worker.full_name(), uid);
        self.publish(uid);
        if let Some(next) = next {
            self.start(&next);
        }
    }

    fn remove(&mut self, uid: &PodUid) {
        let finished =
            self.entries.get(uid).is_some_and(|entry| entry.worker.phase() == model::WorkerPhase::Finished);
        if finished {
            self.entries.remove(uid);
            self.deps.views.remove(uid);
            self.deps.next_syncs.remove(uid);
            self.deps.timelines.remove(uid);
        }
    }

    fn publish(&self, uid: &PodUid) {
        if let Some(entry) = self.entries.get(uid) {
            let view = entry.worker.view();
            if self.deps.views.reader().get(uid).is_none_or(|old| *old != view) {
                self.deps.views.set(uid, Arc::new(view));
            }
        }
    }

    /// A jitter fraction in `0..1` that differs between pods and syncs.
    fn jitter(&mut self, uid: &PodUid) -> f64 {
        self.sync_count = self.sync_count.wrapping_add(1);
        fraction_of(&(uid, self.sync_count))
    }
}

fn kind_of(work: &Work) -> &'static str {
    match work {
        Work::Sync { kind, .. } => kind.as_str(),
        Work::Terminate { .. } | Work::TerminateOrphan { .. } => "kill",
        Work::CleanUp { .. } => "terminated",
    }
}
