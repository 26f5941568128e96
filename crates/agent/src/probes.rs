//! Probes: asks containers how they are, at their times, and publishes what that means.
//!
//! One queue holds the next time of every probe that has one; a task exists only while a check is made. When, what
//! and what it means is decided in `decide::probe`. Verdicts are kept on disk, so that a restarted agent goes on
//! with them.

mod checkpoint;
mod checks;
mod rows;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use decide::probe::{Finding, Next};
use model::{
    EventSubject, Pod, PodGates, PodUid, ProbeKind, ProbeVerdict, ProbeVerdicts, RecordedEvent, Timestamp,
    WorkerPhase, WorkerView,
};
use ports::checkpoints::Checkpoints;
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::outbound::Outbound;
use ports::runtime::Containers;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::messages::ProbeResult;
use crate::metrics::Metrics;
use crate::observation::Observer;
use crate::published::{Reader, Writer};
use crate::timeline::Timelines;
use checkpoint::Saved;
use checks::{Checker, Done, Job};
use rows::{Past, ProbeRow, Row};

/// The least time between two writes of the checkpoint.
const SAVE_PERIOD: Duration = Duration::from_millis(500);
/// The least time between two checks of a container that is not ready, however much changes.
const TRIGGER_GAP: Duration = Duration::from_secs(1);

/// What the stage needs.
pub struct Parts {
    /// UIDs of pods of which something changed.
    pub changes: mpsc::UnboundedReceiver<PodUid>,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// How far workers are.
    pub workers: Reader<WorkerView>,
    /// What the runtime holds.
    pub observer: Observer,
    /// Runs commands in containers.
    pub runtime: Arc<dyn Containers>,
    /// Asks over the network.
    pub outbound: Arc<dyn Outbound>,
    /// Where verdicts go.
    pub verdicts: Writer<ProbeVerdicts>,
    /// The sync loop.
    pub results: mpsc::Sender<ProbeResult>,
    /// Where verdicts are kept.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// How pods came to run.
    pub timelines: Arc<Timelines>,
    /// The node's addresses.
    pub host_addresses: Vec<IpAddr>,
    /// Gates that change what is known from before.
    pub gates: PodGates,
    /// When this agent started.
    pub started_at: Timestamp,
}

/// One probe of one container of one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ProbeKey {
    uid: PodUid,
    container: Arc<str>,
    kind: ProbeKind,
}

/// Runs until cancelled.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    let started = Duration::from_nanos(u64::try_from(parts.started_at.as_nanos()).unwrap_or(0));
    parts.metrics.probes.process_start.set(started.as_secs_f64());
    let saved = match parts.gates.restart_forgets_probes {
        true => Saved::default(),
        false => Saved::load(&*parts.checkpoints).await,
    };
    let (content, contents) = watch::channel(Vec::new());
    let (_, nothing) = mpsc::unbounded_channel();
    let changes = std::mem::replace(&mut parts.changes, nothing);
    let writer = checkpoint::write(Arc::clone(&parts.checkpoints), contents);
    let checker = Arc::new(Checker::new(Arc::clone(&parts.runtime), Arc::clone(&parts.outbound)));
    let stage = Stage {
        checker,
        saved,
        content,
        rows: HashMap::new(),
        queue: BTreeSet::new(),
        checks: JoinSet::new(),
        under_way: HashMap::new(),
        unsent: VecDeque::new(),
        save: SaveTimer::default(),
        parts,
    };
    tokio::join!(stage.run(changes, cancel), writer);
}

struct Stage {
    parts: Parts,
    checker: Arc<Checker>,
    /// What the agent before this one knew of containers that were not seen yet.
    saved: Saved,
    content: watch::Sender<Vec<u8>>,
    rows: HashMap<PodUid, Row>,
    queue: BTreeSet<(Instant, ProbeKey)>,
    checks: JoinSet<Done>,
    /// Which probes the checks are of.
    under_way: HashMap<Id, ProbeKey>,
    unsent: VecDeque<ProbeResult>,
    save: SaveTimer,
}

/// When the checkpoint is written.
#[derive(Default)]
struct SaveTimer {
    last: Option<Instant>,
    due: Option<Instant>,
}

/// Why probes are put in their queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Something about the pod changed.
    Change,
    /// A check came to its end.
    Checked,
}

impl Stage {
    async fn run(mut self, mut changes: mpsc::UnboundedReceiver<PodUid>, cancel: CancellationToken) {
        let results = self.parts.results.clone();
        let mut changed = HashSet::new();
        loop {
            let next = self.queue.first().map(|(at, _)| *at);
            tokio::select! {
                () = cancel.cancelled() => return,
                uid = changes.recv() => {
                    let Some(uid) = uid else { return };
                    changed.insert(uid);
                    while let Ok(more) = changes.try_recv() {
                        changed.insert(more);
                    }
                    for uid in changed.drain() {
                        self.refresh(&uid);
                    }
                }
                Some(ended) = self.checks.join_next_with_id() => self.on_check_ended(ended),
                () = sleep_until(next) => self.start_due(),
                () = sleep_until(self.save.due) => self.save(),
                Ok(permit) = results.reserve(), if !self.unsent.is_empty() => {
                    if let Some(result) = self.unsent.pop_front() {
                        permit.send(result);
                    }
                }
            }
        }
    }

    /// Something about a pod changed.
    fn refresh(&mut self, uid: &PodUid) {
        let desired = self.parts.desired.get(uid);
        let worker = self.parts.workers.get(uid);
        let over = match &worker {
            Some(worker) => worker.phase >= WorkerPhase::Terminated,
            None => desired.is_none(),
        };
        if over {
            self.forget(uid);
            return;
        }
        let row = match (desired.as_ref(), self.rows.entry(uid.clone())) {
            (Some(pod), std::collections::hash_map::Entry::Vacant(place)) => {
                let row = Row::new(Arc::clone(pod));
                if row.probes.is_empty() {
                    return;
                }
                place.insert(row)
            }
            // A pod that nobody wants any more is still probed until it has stopped.
            (_, std::collections::hash_map::Entry::Occupied(row)) => row.into_mut(),
            (None, std::collections::hash_map::Entry::Vacant(_)) => return,
        };
        if let Some(pod) = desired.as_ref() {
            let dropped = row.replace_pod(Arc::clone(pod));
            leave_queue(&mut self.queue, &dropped);
            for probe in &dropped {
                self.parts.metrics.probes.forget(pod, &probe.key.container, probe.key.kind);
            }
        }
        row.terminating =
            desired.is_none() || worker.is_some_and(|worker| worker.phase == WorkerPhase::Terminating);
        row.observed = self.parts.observer.last(uid);
        let forgets = self.parts.gates.restart_forgets_probes;
        let past = (!forgets).then_some(Past { saved: &self.saved, agent_started_at: self.parts.started_at });
        row.meet_containers(past.as_ref());
        self.publish(uid);
        self.schedule(uid, Cause::Change);
    }

    fn forget(&mut self, uid: &PodUid) {
        let Some(row) = self.rows.remove(uid) else { return };
        leave_queue(&mut self.queue, &row.probes);
        for probe in &row.probes {
            self.parts.metrics.probes.forget(&row.pod, &probe.key.container, probe.key.kind);
        }
        if !row.published.is_empty() {
            self.parts.verdicts.remove(uid);
            self.save.want();
        }
    }

    /// Puts every probe of a pod at its place in the queue.
    fn schedule(&mut self, uid: &PodUid, cause: Cause) {
        let (now, wall) = (Instant::now(), self.parts.clock.now());
        let Some(mut row) = self.rows.remove(uid) else { return };
        let nexts: Vec<Next> = row.probes.iter().map(|probe| row.next(probe, wall)).collect();
        for (probe, next) in row.probes.iter_mut().zip(nexts) {
            let due = match next {
                _ if probe.checking => None,
                Next::Wait => None,
                Next::In(_) if cause == Cause::Change && waits_to_be_ready(probe, wall) => Some(now),
                Next::In(wait) => Some(now + wait),
            };
            if let Some(old) = probe.due.take() {
                self.queue.remove(&(old, probe.key.clone()));
            }
            if let Some(due) = due {
                self.queue.insert((due, probe.key.clone()));
                probe.due = Some(due);
            }
        }
        self.rows.insert(uid.clone(), row);
    }

    /// Makes the checks whose time has come.
    fn start_due(&mut self) {
        let (now, wall) = (Instant::now(), self.parts.clock.now());
        let host = self.parts.host_addresses.first().map(ToString::to_string).unwrap_or_default();
        while let Some((at, _)) = self.queue.first() {
            if *at > now {
                return;
            }
            let Some((_, key)) = self.queue.pop_first() else { return };
            let Some(row) = self.rows.get_mut(&key.uid) else { continue };
            let check = row.check(&key, &host);
            let Some(probe) = row.probe_mut(&key) else { continue };
            probe.due = None;
            let Some(state) = &mut probe.state else { continue };
            state.last_check = Some(wall);
            probe.checking = true;
            let job = Job { id: state.id.clone(), check, timeout: probe.terms.timeout, key: key.clone() };
            let task = self.checks.spawn(Arc::clone(&self.checker).run(job));
            self.under_way.insert(task.id(), key);
        }
    }

    fn on_check_ended(&mut self, ended: Result<(Id, Done), JoinError>) {
        match ended {
            Ok((id, done)) => {
                self.under_way.remove(&id);
                self.finish(&done);
            }
            Err(error) => {
                tracing::error!(%error, "a check broke off");
                // It says nothing, and the next one is made at its time.
                let Some(key) = self.under_way.remove(&error.id()) else { return };
                let Some(row) = self.rows.get_mut(&key.uid) else { return };
                if let Some(probe) = row.probe_mut(&key) {
                    probe.checking = false;
                }
                self.schedule(&key.uid, Cause::Checked);
            }
        }
    }

    /// A check came to its end.
    fn finish(&mut self, done: &Done) {
        let Done { key, id, finding, took } = done;
        let wall = self.parts.clock.now();
        let Some(row) = self.rows.get_mut(&key.uid) else { return };
        let Some(probe) = row.probe_mut(key) else { return };
        probe.checking = false;
        let Some(probe) = row.probes.iter().find(|probe| probe.key == *key) else { return };
        // A container that was stopped meanwhile says nothing about itself any more.
        let asked = probe.state.as_ref().filter(|state| state.id == *id);
        let good = finding.verdict() == Some(ProbeVerdict::Success);
        let counts = asked.is_some_and(|state| good || !state.is_early(key.kind, &probe.terms));
        if counts && row.next(probe, wall) != Next::Wait {
            if let Some(verdict) = finding.verdict() {
                self.parts.metrics.probes.checked(&row.pod, &key.container, key.kind, (verdict, *took));
                if let Some(state) = &probe.state {
                    let timelines = &self.parts.timelines;
                    timelines.probed(&key.uid, &key.container, state.started_at, verdict);
                }
            }
            let pod = Arc::clone(&row.pod);
            let terms = probe.terms;
            if let Some(state) = row.probe_mut(key).and_then(|probe| probe.state.as_mut()) {
                state.record(key.kind, &terms, finding);
            }
            self.tell(&pod, key, finding);
            self.publish(&key.uid);
        }
        self.schedule(&key.uid, Cause::Checked);
    }

    fn tell(&self, pod: &Pod, key: &ProbeKey, finding: &Finding) {
        let Some((kind, reason, message)) = finding.event(key.kind) else { return };
        let field_path = pod.container(&key.container).map(|entry| entry.field_path()).unwrap_or_default();
        self.parts.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::pod(pod, field_path),
            kind,
            reason: reason.to_owned(),
            message,
            at: self.parts.clock.now(),
        });
    }

    /// Publishes a pod's verdicts if they changed, and tells the sync loop.
    fn publish(&mut self, uid: &PodUid) {
        let Some(row) = self.rows.get_mut(uid) else { return };
        let verdicts = row.verdicts();
        if verdicts == row.published {
            return;
        }
        let old = std::mem::replace(&mut row.published, verdicts.clone());
        for (name, new) in &verdicts {
            let old = old.get(name).filter(|old| old.id == new.id);
            for (kind, now, before) in [
                (ProbeKind::Startup, new.startup, old.and_then(|old| old.startup)),
                (ProbeKind::Readiness, new.readiness, old.and_then(|old| old.readiness)),
                (ProbeKind::Liveness, new.liveness, old.and_then(|old| old.liveness)),
            ] {
                if let Some(verdict) = now.filter(|_| now != before) {
                    tracing::debug!(pod = %row.pod.full_name, container = %name, probe = kind.as_str(), ?verdict, "probe verdict");
                    let success = verdict == ProbeVerdict::Success;
                    self.unsent.push_back(ProbeResult { uid: uid.clone(), kind, success });
                }
            }
        }
        self.parts.verdicts.set(uid, Arc::new(verdicts));
        self.save.want();
    }

    /// Hands the newest verdicts to the writer of the checkpoint.
    fn save(&mut self) {
        self.save.done();
        if !self.saved.is_empty() && self.parts.observer.has_listed() {
            let all = self.parts.observer.all();
            let known: HashSet<_> =
                all.iter().flat_map(|pod| &pod.containers).map(|status| &status.id).collect();
            self.saved.retain(|id| known.contains(id));
        }
        let mut saved = self.saved.copy();
        for probe in self.rows.values().flat_map(|row| &row.probes) {
            let Some(state) = &probe.state else { continue };
            if let Some(verdict) = state.verdict {
                saved.add(&state.id, state.started_at, probe.key.kind, verdict);
            }
        }
        self.content.send_replace(saved.encode());
    }
}

impl SaveTimer {
    fn want(&mut self) {
        let now = Instant::now();
        let earliest = self.last.map_or(now, |last| last + SAVE_PERIOD);
        self.due.get_or_insert(earliest.max(now));
    }

    fn done(&mut self) {
        self.last = Some(Instant::now());
        self.due = None;
    }
}

/// A container that is not ready is asked again as soon as something about its pod changes.
fn waits_to_be_ready(probe: &ProbeRow, now: Timestamp) -> bool {
    let gap = TRIGGER_GAP.min(probe.terms.period / 2);
    probe.key.kind == ProbeKind::Readiness
        && probe.state.as_ref().is_some_and(|state| {
            state.verdict != Some(ProbeVerdict::Success)
                && state.last_check.is_some_and(|last| now.since(last) >= gap)
        })
}

fn leave_queue(queue: &mut BTreeSet<(Instant, ProbeKey)>, probes: &[ProbeRow]) {
    for probe in probes {
        if let Some(due) = probe.due {
            queue.remove(&(due, probe.key.clone()));
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
