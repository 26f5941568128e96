//! The pod lifecycle event generator: observes the runtime and publishes the observed pods.
//!
//! It detects changes through hints (a finished action, the runtime's event stream, the exit of a container's process)
//! and through a periodic relist as the safety net. A hint only triggers an observation of one pod. The generator is the
//! only writer of observations; after publishing one it emits events that wake the sync loop. Observations run in
//! parallel, each with a timeout: a pod that cannot be observed is published as failed and does not block others.

mod event_stream;
mod exit_watcher;
mod observe;
mod relist;
mod termination_message;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use decide::pipeline::runtime_events::{PodRecord, container_pleg_state, diff, sandbox_pleg_state};
use model::{
    ContainerId, ContainerState, ContainerSummary, ListMark, Moment, Observation, ObservedPod, PodEvent,
    PodLists, PodUid, SandboxSummary,
};
use ports::clock::Clock;
use ports::host::process_watch::ProcessWatch;
use ports::host::termination_messages::TerminationMessages;
use ports::runtime::{Runtime, RuntimeError};
use timing::WorkQueue;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::node::runtime_health::RuntimeHealth;
use crate::pipeline::observation::{Observations, ObserveRequest};
use event_stream::StreamUpdate;
use exit_watcher::{ExitWatcher, NoticedExit};

#[derive(Clone, Copy, Debug)]
pub struct PlegSettings {
    pub relist_period: Duration,
    /// The period while the runtime's event stream works.
    pub relist_period_with_events: Duration,
    /// Timeout of one observation of one pod.
    pub observe_timeout: Duration,
    pub max_parallel_observations: usize,
    /// Whether the ids of mounted images are read from the runtime.
    pub image_volume_digests: bool,
}

impl Default for PlegSettings {
    fn default() -> Self {
        Self {
            relist_period: Duration::from_secs(1),
            relist_period_with_events: Duration::from_secs(60),
            observe_timeout: Duration::from_secs(10),
            max_parallel_observations: 16,
            image_volume_digests: false,
        }
    }
}

pub struct PlegDeps {
    pub runtime: Arc<dyn Runtime>,
    pub processes: Arc<dyn ProcessWatch>,
    pub messages: Arc<dyn TerminationMessages>,
    pub observations: Observations,
    pub events: mpsc::Sender<PodEvent>,
    /// Notified of failed and successful relists.
    pub health: RuntimeHealth,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub settings: PlegSettings,
}

type Lists = (Vec<SandboxSummary>, Vec<ContainerSummary>);

/// Runs until cancelled.
pub async fn run(deps: PlegDeps, cancel: CancellationToken) {
    // Unbounded: this task polls both ends, so a queued update is received in the next step.
    let (stream_sender, mut stream_updates) = mpsc::unbounded_channel();
    let stream = event_stream::follow(Arc::clone(&deps.runtime), stream_sender);
    let mut generator = Generator::new(deps);
    let generating = async {
        loop {
            generator.step(&mut stream_updates).await;
        }
    };
    cancel.run_until_cancelled(futures::future::join(stream, generating)).await;
}

struct TrackedPod {
    record: PodRecord,
    moment: Moment,
    /// The number of its objects that are unchanged in the current relist.
    unchanged: usize,
}

/// A request for an observation that begins later than a moment.
type Waiter = (Moment, oneshot::Sender<Arc<ObservedPod>>);

struct ObservationResult {
    uid: PodUid,
    result: Result<ObservedPod, String>,
    moment: Moment,
    took: Duration,
}

struct RelistResult {
    lists: Result<PodLists, RuntimeError>,
    /// The settled mark when the relist began.
    tracked: Option<ListMark>,
    moment: Moment,
    took: Duration,
}

struct Generator {
    deps: PlegDeps,
    tracked: HashMap<PodUid, TrackedPod>,
    owners: HashMap<ContainerId, PodUid>,
    /// Pods to observe. A hint during an observation causes another one afterwards.
    queue: WorkQueue<PodUid>,
    waiters: HashMap<PodUid, Vec<Waiter>>,
    failed: HashSet<PodUid>,
    observing: JoinSet<ObservationResult>,
    observing_ids: HashMap<tokio::task::Id, (PodUid, Moment)>,
    relists: JoinSet<RelistResult>,
    exit_watcher: ExitWatcher,
    outbox: VecDeque<PodEvent>,
    slots: Arc<Semaphore>,
    stream_is_open: bool,
    next_relist: Instant,
    last_relist_started: Option<Instant>,
    /// The mark of the last relist that matched all published pods, if nothing was published since.
    settled_mark: Option<ListMark>,
}

impl Generator {
    fn new(deps: PlegDeps) -> Self {
        let slots = Arc::new(Semaphore::new(deps.settings.max_parallel_observations.max(1)));
        let exit_watcher = ExitWatcher::new(Arc::clone(&deps.processes));
        deps.metrics.pleg.uses("polling");
        Self {
            deps,
            tracked: HashMap::new(),
            owners: HashMap::new(),
            queue: WorkQueue::default(),
            waiters: HashMap::new(),
            failed: HashSet::new(),
            observing: JoinSet::new(),
            observing_ids: HashMap::new(),
            relists: JoinSet::new(),
            exit_watcher,
            outbox: VecDeque::new(),
            slots,
            stream_is_open: false,
            next_relist: Instant::now(),
            last_relist_started: None,
            settled_mark: None,
        }
    }

    async fn step(&mut self, stream_updates: &mut mpsc::UnboundedReceiver<StreamUpdate>) {
        let events = self.deps.events.clone();
        tokio::select! {
            permit = events.reserve(), if !self.outbox.is_empty() => {
                if let (Ok(permit), Some(event)) = (permit, self.outbox.pop_front()) {
                    permit.send(event);
                }
            }
            Some(request) = self.deps.observations.requests.recv() => self.on_request(request),
            Some(ended) = self.observing.join_next_with_id() => self.on_observation_joined(ended),
            Some(exit) = self.exit_watcher.next() => self.on_exit(exit),
            Some(update) = stream_updates.recv() => self.on_stream(update),
            Some(ended) = self.relists.join_next() => match ended {
                Ok(ended) => self.on_relist(ended),
                Err(error) => {
                    tracing::error!(%error, "relist task panicked");
                    self.schedule_relist();
                }
            },
            () = tokio::time::sleep_until(self.next_relist), if self.relists.is_empty() => self.start_relist(),
        }
    }

    // === observations of one pod ===

    fn on_request(&mut self, request: ObserveRequest) {
        if let Some(reply) = request.reply {
            self.waiters.entry(request.uid.clone()).or_default().push((request.after, reply));
        }
        self.queue.push(request.uid);
        self.start_queued_observations();
    }

    fn start_queued_observations(&mut self) {
        while let Some(uid) = self.queue.pop() {
            let moment = self.deps.observations.moments.next();
            self.start_observation(&uid, None, moment);
        }
    }

    /// Observes a pod that a relist reported as changed. If it is being observed, another observation follows.
    fn observe_listed(&mut self, uid: &PodUid, lists: Lists, moment: Moment) {
        if self.queue.begin(uid) {
            self.start_observation(uid, Some(lists), moment);
        }
    }

    fn start_observation(&mut self, uid: &PodUid, listed: Option<Lists>, moment: Moment) {
        let runtime = Arc::clone(&self.deps.runtime);
        let messages = Arc::clone(&self.deps.messages);
        let previous = self.deps.observations.rows.reader().get(uid);
        let slots = Arc::clone(&self.slots);
        let timeout = self.deps.settings.observe_timeout;
        let image_volume_digests = self.deps.settings.image_volume_digests;
        let task_uid = uid.clone();
        let task = self.observing.spawn(async move {
            let _slot = slots.acquire_owned().await;
            let started = Instant::now();
            let deps =
                observe::ObserveDeps { runtime: &*runtime, messages: &*messages, image_volume_digests };
            let observe = observe::observe_pod(&deps, &task_uid, listed, previous, moment);
            let result = match tokio::time::timeout(timeout, observe).await {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(_) => Err(format!("no answer within {timeout:?}")),
            };
            ObservationResult { uid: task_uid, result, moment, took: started.elapsed() }
        });
        self.observing_ids.insert(task.id(), (uid.clone(), moment));
    }

    fn on_observation_joined(
        &mut self,
        joined: Result<(tokio::task::Id, ObservationResult), tokio::task::JoinError>,
    ) {
        match joined {
            Ok((id, ended)) => {
                self.observing_ids.remove(&id);
                self.on_observation(ended);
            }
            Err(error) => {
                tracing::error!(%error, "observation task panicked");
                // Answers the waiters: without an answer they would repeat the request in an endless loop.
                if let Some((uid, moment)) = self.observing_ids.remove(&error.id()) {
                    let result = Err("observation task panicked".to_owned());
                    self.on_observation(ObservationResult { uid, result, moment, took: Duration::ZERO });
                }
            }
        }
    }

    fn on_observation(&mut self, ended: ObservationResult) {
        self.deps.metrics.pleg.pod_relist_duration.observe(ended.took.as_secs_f64());
        let previous = self.deps.observations.rows.reader().get(&ended.uid);
        let row = match ended.result {
            Ok(observed) => {
                self.failed.remove(&ended.uid);
                self.publish(observed, previous.as_deref())
            }
            Err(reason) => self.publish_failure(&ended.uid, reason, previous.as_deref(), ended.moment),
        };
        self.deps.metrics.pleg.unobservable_pods.set_count(self.failed.len());
        self.answer(&ended.uid, &row);
    }

    fn publish(&mut self, observed: ObservedPod, previous: Option<&ObservedPod>) -> Arc<ObservedPod> {
        self.settled_mark = None;
        let uid = observed.uid.clone();
        let mut record = PodRecord::empty();
        for sandbox in &observed.sandboxes {
            record.add(ContainerId::from(sandbox.id.as_str()), sandbox_pleg_state(sandbox.state));
        }
        for container in &observed.containers {
            record.add(container.id.clone(), container_pleg_state(container.state));
        }
        if let Some(previous) = previous {
            self.drop_owners(previous);
        }
        let row = Arc::new(observed);
        if row.is_absent() {
            self.remove_pod(&uid);
            return row;
        }
        self.owners.extend(ids(&row).map(|id| (id, uid.clone())));
        self.watch_exits(&row);
        let old = self
            .tracked
            .insert(uid.clone(), TrackedPod { record: record.clone(), moment: row.moment, unchanged: 0 });
        let old = old.map(|tracked| tracked.record).unwrap_or_default();
        self.deps.observations.rows.set(&uid, Arc::clone(&row));
        self.outbox.extend(diff(&uid, &old, &record));
        row
    }

    fn publish_failure(
        &mut self,
        uid: &PodUid,
        reason: String,
        previous: Option<&ObservedPod>,
        moment: Moment,
    ) -> Arc<ObservedPod> {
        self.settled_mark = None;
        if self.failed.insert(uid.clone()) {
            tracing::warn!(pod = %uid, %reason, "failed to observe pod");
            self.relist_within_period();
        }
        self.deps.health.request_check();
        let mut row = previous.cloned().unwrap_or_else(|| {
            let nameless = model::PodFullName { namespace: String::new(), name: String::new() };
            ObservedPod::absent(uid.clone(), nameless, moment)
        });
        row.moment = moment;
        row.observation = Observation::Failed(reason);
        let row = Arc::new(row);
        if previous.is_some() {
            self.deps.observations.rows.set(uid, Arc::clone(&row));
        }
        row
    }

    fn answer(&mut self, uid: &PodUid, row: &Arc<ObservedPod>) {
        let mut unserved = Vec::new();
        for (after, reply) in self.waiters.remove(uid).unwrap_or_default() {
            if row.moment > after {
                // Fails if the requester has stopped waiting.
                let _ = reply.send(Arc::clone(row));
            } else {
                unserved.push((after, reply));
            }
        }
        self.queue.done(uid);
        if !unserved.is_empty() {
            self.waiters.insert(uid.clone(), unserved);
            self.queue.push(uid.clone());
        }
        self.start_queued_observations();
    }

    // === hints ===

    fn hint(&mut self, uid: PodUid) {
        let after = self.deps.observations.moments.next();
        self.on_request(ObserveRequest { uid, after, reply: None });
    }

    fn on_exit(&mut self, exit: NoticedExit) {
        let row = self.deps.observations.rows.reader().get(&exit.uid);
        let runs = row.is_some_and(|row| {
            row.containers.iter().any(|c| c.id == exit.container && c.state == ContainerState::Running)
        });
        if !runs {
            return;
        }
        // The runtime notices the exit a little later than the agent.
        if exit.checks == 0 {
            self.deps.metrics.pleg.exits_noticed.inc();
        } else {
            self.hint(exit.uid.clone());
        }
        self.exit_watcher.check_again(exit);
    }

    fn watch_exits(&mut self, row: &ObservedPod) {
        let running = |id: &ContainerId| {
            row.containers.iter().any(|c| c.id == *id && c.state == ContainerState::Running)
        };
        self.exit_watcher.retain(&row.uid, running);
        for container in &row.containers {
            if let (ContainerState::Running, Some(pid)) = (container.state, container.pid) {
                self.exit_watcher.watch(&row.uid, &container.id, pid);
            }
        }
    }

    fn on_stream(&mut self, update: StreamUpdate) {
        let metrics = &self.deps.metrics;
        match update {
            StreamUpdate::Opened => {
                metrics.pleg.streams_opened.inc();
                metrics.pleg.uses("events");
                tracing::info!("opened the runtime's event stream");
                self.stream_is_open = true;
                self.next_relist = Instant::now();
            }
            StreamUpdate::Event(event) => {
                let age = self.deps.clock.now().since(event.created_at);
                metrics.pleg.event_latency.observe(age.as_secs_f64());
                let owner = event.pod_uid.or_else(|| self.owners.get(&event.container_id).cloned());
                match owner {
                    Some(uid) => self.hint(uid),
                    // A relist is needed to find the pod of an unknown container.
                    None => self.next_relist = Instant::now(),
                }
            }
            StreamUpdate::Failed { reason, failures } => {
                metrics.pleg.stream_errors.inc();
                if self.stream_is_open || failures == event_stream::FAST_RETRIES {
                    tracing::warn!(%reason, failures, "runtime event stream failed, falling back to polling");
                }
                self.fall_back_to_polling();
            }
            StreamUpdate::Unsupported => {
                tracing::info!("runtime has no event stream, polling and watching container processes");
                self.fall_back_to_polling();
            }
        }
    }

    fn fall_back_to_polling(&mut self) {
        self.deps.metrics.pleg.uses("polling");
        self.stream_is_open = false;
        self.relist_within_period();
    }

    fn relist_within_period(&mut self) {
        self.next_relist = self.next_relist.min(Instant::now() + self.deps.settings.relist_period);
    }

    // === owners of containers ===

    fn drop_owners(&mut self, row: &ObservedPod) {
        for id in ids(row) {
            self.owners.remove(&id);
        }
    }
}

fn ids(row: &ObservedPod) -> impl Iterator<Item = ContainerId> {
    let sandboxes = row.sandboxes.iter().map(|sandbox| ContainerId::from(sandbox.id.as_str()));
    sandboxes.chain(row.containers.iter().map(|container| container.id.clone()))
}

#[cfg(test)]
mod tests;
