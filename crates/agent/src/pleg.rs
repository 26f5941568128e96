//! The pod lifecycle event generator: watches the runtime and publishes what it saw.
//!
//! It learns of changes from hints (a finished action, the runtime's event stream, the exit of a container's
//! process) and from a whole list as the safety net. A hint only makes it look at one pod again. It is the one
//! writer of observations; after publishing one it emits events that wake the sync loop. Looks run side by
//! side, each with a deadline: a pod that cannot be observed is published as such and holds up nobody.

mod event_stream;
mod exits;
mod last_words;
mod lists;
mod look;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use decide::runtime_events::{Record, container_life, diff, sandbox_life};
use model::{
    ContainerId, ContainerState, ContainerSummary, ListMark, Moment, Observation, ObservedPod, PodEvent,
    PodLists, PodUid, SandboxSummary,
};
use ports::clock::Clock;
use ports::process_watch::ProcessWatch;
use ports::runtime::{Runtime, RuntimeError};
use ports::termination_messages::TerminationMessages;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::observation::{Observations, ObserveRequest};
use crate::runtime_health::RuntimeHealth;
use event_stream::StreamNews;
use exits::{Exits, NoticedExit};

/// How often and how patiently the runtime is watched.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Time between whole lists.
    pub relist_period: Duration,
    /// The same while the runtime's event stream works.
    pub relist_period_with_events: Duration,
    /// Deadline of one look at one pod.
    pub look_deadline: Duration,
    /// How many pods are looked at side by side.
    pub looks_at_once: usize,
    /// Whether images that are mounted are asked for their ids.
    pub image_volume_digests: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            relist_period: Duration::from_secs(1),
            relist_period_with_events: Duration::from_secs(60),
            look_deadline: Duration::from_secs(10),
            looks_at_once: 16,
            image_volume_digests: false,
        }
    }
}

/// What the generator needs.
pub struct Parts {
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Exits of processes.
    pub processes: Arc<dyn ProcessWatch>,
    /// Last words of containers.
    pub messages: Arc<dyn TerminationMessages>,
    /// Where observations go.
    pub observations: Observations,
    /// Where events go.
    pub events: mpsc::Sender<PodEvent>,
    /// Told when the runtime does not answer.
    pub health: RuntimeHealth,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Timings.
    pub settings: Settings,
}

type Lists = (Vec<SandboxSummary>, Vec<ContainerSummary>);

/// Runs until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    let (news, mut stream_news) = mpsc::unbounded_channel();
    let stream = event_stream::follow(Arc::clone(&parts.runtime), news, cancel.clone());
    let mut generator = Generator::new(parts);
    let watching = async {
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = generator.step(&mut stream_news) => {}
            }
        }
    };
    tokio::join!(stream, watching);
}

struct Known {
    record: Record,
    moment: Moment,
    /// How many of its objects the list at hand showed unchanged.
    unchanged: usize,
}

/// Who waits for a look that begins later than a moment.
type Waiter = (Moment, oneshot::Sender<Arc<ObservedPod>>);

/// A look that is under way.
struct Flight {
    waiters: Vec<Waiter>,
    again: bool,
}

struct LookEnded {
    uid: PodUid,
    result: Result<ObservedPod, String>,
    moment: Moment,
    took: Duration,
}

struct ListEnded {
    lists: Result<PodLists, RuntimeError>,
    /// What was known to be settled when the lists were asked for.
    known: Option<ListMark>,
    moment: Moment,
    took: Duration,
}

struct Generator {
    parts: Parts,
    known: HashMap<PodUid, Known>,
    owners: HashMap<ContainerId, PodUid>,
    flights: HashMap<PodUid, Flight>,
    failed: HashSet<PodUid>,
    looks: JoinSet<LookEnded>,
    look_ids: HashMap<tokio::task::Id, (PodUid, Moment)>,
    lists: JoinSet<ListEnded>,
    exits: Exits,
    outbox: VecDeque<PodEvent>,
    slots: Arc<Semaphore>,
    events_work: bool,
    next_list: Instant,
    last_list: Option<Instant>,
    /// The mark of lists that say exactly what is known; nothing else was learnt since.
    settled: Option<ListMark>,
}

impl Generator {
    fn new(parts: Parts) -> Self {
        let slots = Arc::new(Semaphore::new(parts.settings.looks_at_once.max(1)));
        let exits = Exits::new(Arc::clone(&parts.processes));
        parts.metrics.pleg.uses("polling");
        Self {
            parts,
            known: HashMap::new(),
            owners: HashMap::new(),
            flights: HashMap::new(),
            failed: HashSet::new(),
            looks: JoinSet::new(),
            look_ids: HashMap::new(),
            lists: JoinSet::new(),
            exits,
            outbox: VecDeque::new(),
            slots,
            events_work: false,
            next_list: Instant::now(),
            last_list: None,
            settled: None,
        }
    }

    async fn step(&mut self, stream_news: &mut mpsc::UnboundedReceiver<StreamNews>) {
        let events = self.parts.events.clone();
        tokio::select! {
            permit = events.reserve(), if !self.outbox.is_empty() => {
                if let (Ok(permit), Some(event)) = (permit, self.outbox.pop_front()) {
                    permit.send(event);
                }
            }
            Some(request) = self.parts.observations.requests.recv() => self.on_request(request),
            Some(ended) = self.looks.join_next_with_id() => self.on_look_joined(ended),
            Some(exit) = self.exits.next() => self.on_exit(exit),
            Some(news) = stream_news.recv() => self.on_stream(news),
            Some(ended) = self.lists.join_next() => match ended {
                Ok(ended) => self.on_list(ended),
                Err(error) => {
                    tracing::error!(%error, "listing the runtime's pods broke off");
                    self.plan_next_list();
                }
            },
            () = tokio::time::sleep_until(self.next_list), if self.lists.is_empty() => self.start_list(),
        }
    }

    // === looks at one pod ===

    fn on_request(&mut self, request: ObserveRequest) {
        let waiter = request.reply.map(|reply| (request.after, reply));
        if let Some(flight) = self.flights.get_mut(&request.uid) {
            flight.again = true;
            flight.waiters.extend(waiter);
        } else {
            let moment = self.parts.observations.moments.next();
            self.start_look(&request.uid, None, moment, waiter.into_iter().collect());
        }
    }

    /// Looks at a pod with what a list said of it; if a look is under way, another one follows it.
    fn look_listed(&mut self, uid: &PodUid, lists: Lists, moment: Moment) {
        match self.flights.get_mut(uid) {
            Some(flight) => flight.again = true,
            None => self.start_look(uid, Some(lists), moment, Vec::new()),
        }
    }

    fn start_look(&mut self, uid: &PodUid, listed: Option<Lists>, moment: Moment, waiters: Vec<Waiter>) {
        self.flights.insert(uid.clone(), Flight { waiters, again: false });
        let runtime = Arc::clone(&self.parts.runtime);
        let messages = Arc::clone(&self.parts.messages);
        let previous = self.parts.observations.rows.reader().get(uid);
        let slots = Arc::clone(&self.slots);
        let deadline = self.parts.settings.look_deadline;
        let image_volume_digests = self.parts.settings.image_volume_digests;
        let task_uid = uid.clone();
        let task = self.looks.spawn(async move {
            let _slot = slots.acquire_owned().await;
            let started = Instant::now();
            let world = look::World { runtime: &*runtime, messages: &*messages, image_volume_digests };
            let look = look::look(&world, &task_uid, listed, previous, moment);
            let result = match tokio::time::timeout(deadline, look).await {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(_) => Err(format!("no answer within {deadline:?}")),
            };
            LookEnded { uid: task_uid, result, moment, took: started.elapsed() }
        });
        self.look_ids.insert(task.id(), (uid.clone(), moment));
    }

    fn on_look_joined(&mut self, joined: Result<(tokio::task::Id, LookEnded), tokio::task::JoinError>) {
        match joined {
            Ok((id, ended)) => {
                self.look_ids.remove(&id);
                self.on_look(ended);
            }
            Err(error) => {
                tracing::error!(%error, "a look at a pod broke off");
                // Whoever waits for it gets an answer: without one it would ask again at once, for ever.
                if let Some((uid, moment)) = self.look_ids.remove(&error.id()) {
                    let result = Err("the look broke off".to_owned());
                    self.on_look(LookEnded { uid, result, moment, took: Duration::ZERO });
                }
            }
        }
    }

    fn on_look(&mut self, ended: LookEnded) {
        self.parts.metrics.pleg.pod_relist_duration.observe(ended.took.as_secs_f64());
        let previous = self.parts.observations.rows.reader().get(&ended.uid);
        let row = match ended.result {
            Ok(observed) => {
                self.failed.remove(&ended.uid);
                self.publish(observed, previous.as_deref())
            }
            Err(reason) => self.publish_failure(&ended.uid, reason, previous.as_deref(), ended.moment),
        };
        self.parts.metrics.pleg.unobservable_pods.set_count(self.failed.len());
        self.answer(&ended.uid, &row);
    }

    fn publish(&mut self, observed: ObservedPod, previous: Option<&ObservedPod>) -> Arc<ObservedPod> {
        self.settled = None;
        let uid = observed.uid.clone();
        let mut record = Record::empty();
        for sandbox in &observed.sandboxes {
            record.add(ContainerId::from(sandbox.id.as_str()), sandbox_life(sandbox.state));
        }
        for container in &observed.containers {
            record.add(container.id.clone(), container_life(container.state));
        }
        if let Some(previous) = previous {
            self.drop_owners(previous);
        }
        let row = Arc::new(observed);
        if row.is_absent() {
            self.forget(&uid);
            return row;
        }
        self.take_owners(&row);
        self.watch_exits(&row);
        let old = self
            .known
            .insert(uid.clone(), Known { record: record.clone(), moment: row.moment, unchanged: 0 });
        let old = old.map(|known| known.record).unwrap_or_default();
        self.parts.observations.rows.set(&uid, Arc::clone(&row));
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
        self.settled = None;
        if self.failed.insert(uid.clone()) {
            tracing::warn!(pod = %uid, %reason, "a pod cannot be observed");
            self.next_list = self.next_list.min(Instant::now() + self.parts.settings.relist_period);
        }
        self.parts.health.doubt();
        let mut row = previous.cloned().unwrap_or_else(|| {
            let nameless = model::PodFullName { namespace: String::new(), name: String::new() };
            ObservedPod::absent(uid.clone(), nameless, moment)
        });
        row.moment = moment;
        row.observation = Observation::Failed(reason);
        let row = Arc::new(row);
        if previous.is_some() {
            self.parts.observations.rows.set(uid, Arc::clone(&row));
        }
        row
    }

    fn answer(&mut self, uid: &PodUid, row: &Arc<ObservedPod>) {
        let Some(mut flight) = self.flights.remove(uid) else { return };
        let mut unserved = Vec::new();
        for (after, reply) in flight.waiters.drain(..) {
            if row.moment > after {
                // The worker may have been stopped meanwhile.
                let _ = reply.send(Arc::clone(row));
            } else {
                unserved.push((after, reply));
            }
        }
        if flight.again || !unserved.is_empty() {
            let moment = self.parts.observations.moments.next();
            self.start_look(uid, None, moment, unserved);
        }
    }

    // === hints ===

    fn hint(&mut self, uid: PodUid) {
        let after = self.parts.observations.moments.next();
        self.on_request(ObserveRequest { uid, after, reply: None });
    }

    fn on_exit(&mut self, exit: NoticedExit) {
        let row = self.parts.observations.rows.reader().get(&exit.uid);
        let runs = row.is_some_and(|row| {
            row.containers.iter().any(|c| c.id == exit.container && c.state == ContainerState::Running)
        });
        if !runs {
            return;
        }
        // The runtime learns of the exit a little later than we do.
        if exit.tries == 0 {
            self.parts.metrics.pleg.exits_noticed.inc();
        } else {
            self.hint(exit.uid.clone());
        }
        self.exits.check_again(exit);
    }

    fn watch_exits(&mut self, row: &ObservedPod) {
        let running = |id: &ContainerId| {
            row.containers.iter().any(|c| c.id == *id && c.state == ContainerState::Running)
        };
        self.exits.retain(&row.uid, running);
        for container in &row.containers {
            if let (ContainerState::Running, Some(pid)) = (container.state, container.pid) {
                self.exits.watch(&row.uid, &container.id, pid);
            }
        }
    }

    fn on_stream(&mut self, news: StreamNews) {
        let metrics = &self.parts.metrics;
        match news {
            StreamNews::Opened => {
                metrics.pleg.streams_opened.inc();
                metrics.pleg.uses("events");
                tracing::info!("following the runtime's event stream");
                self.events_work = true;
                self.next_list = Instant::now();
            }
            StreamNews::Event(event) => {
                let age = self.parts.clock.now().since(event.created_at);
                metrics.pleg.event_latency.observe(age.as_secs_f64());
                let owner = event.pod_uid.or_else(|| self.owners.get(&event.container_id).cloned());
                match owner {
                    Some(uid) => self.hint(uid),
                    // A container nobody has seen yet: only a list can tell whose it is.
                    None => self.next_list = Instant::now(),
                }
            }
            StreamNews::Cut { reason, failures } => {
                metrics.pleg.stream_errors.inc();
                metrics.pleg.uses("polling");
                if self.events_work || failures == event_stream::TRIES {
                    tracing::warn!(%reason, failures, "the runtime's event stream failed; polling instead");
                }
                self.events_work = false;
                self.next_list = self.next_list.min(Instant::now() + self.parts.settings.relist_period);
            }
            StreamNews::Unsupported => {
                tracing::info!("the runtime has no event stream; polling, and watching container processes");
                metrics.pleg.uses("polling");
                self.events_work = false;
                self.next_list = self.next_list.min(Instant::now() + self.parts.settings.relist_period);
            }
        }
    }

    // === books ===

    fn take_owners(&mut self, row: &ObservedPod) {
        for id in ids(row) {
            self.owners.insert(id, row.uid.clone());
        }
    }

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
