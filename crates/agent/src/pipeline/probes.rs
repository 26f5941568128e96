//! Runs the probes of containers on their schedules and publishes the results.
//!
//! One delay queue holds the next check of every probe; a task exists only while a check runs. `decide::pipeline::probe`
//! decides when to check, what to check and what the outcome means. Probe results are checkpointed, so that a restarted
//! agent continues with them.

mod checkpoint;
mod checks;
mod rows;

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use decide::pipeline::probe::{CheckOutcome, NextCheck};
use model::{
    EventSubject, Pod, PodGates, PodUid, ProbeKind, ProbeResult, ProbeResults, RecordedEvent, Timestamp,
    WorkerPhase, WorkerView,
};
use ports::clock::Clock;
use ports::host::checkpoints::Checkpoints;
use ports::outbound::Outbound;
use ports::runtime::Containers;
use ports::served::event_recorder::EventRecorder;
use timing::{DelayQueue, KeyReceiver, Throttle, sleep_until};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::pipeline::messages::ProbeResultChange;
use crate::pipeline::observation::Observer;
use crate::pipeline::tables::{Reader, Writer};
use crate::pipeline::timeline::Timelines;
use checkpoint::SavedResults;
use checks::{Checker, FinishedCheck, PendingCheck};
use rows::{EarlierResults, PodRow, ProbeRow};

/// The shortest time between two writes of the checkpoint.
const MIN_SAVE_INTERVAL: Duration = Duration::from_millis(500);
/// The shortest time between two checks of a container that is not ready, however often its pod changes.
const MIN_TRIGGER_INTERVAL: Duration = Duration::from_secs(1);

pub struct ProbesDeps {
    /// UIDs of changed pods.
    pub changes: KeyReceiver<PodUid>,
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
    pub observer: Observer,
    pub runtime: Arc<dyn Containers>,
    pub outbound: Arc<dyn Outbound>,
    pub probe_results: Writer<ProbeResults>,
    pub result_changes: mpsc::Sender<ProbeResultChange>,
    pub checkpoints: Arc<dyn Checkpoints>,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub timelines: Arc<Timelines>,
    pub host_addresses: Vec<IpAddr>,
    /// Feature gates: one of them discards the results of an earlier run of the agent.
    pub gates: PodGates,
    pub started_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ProbeKey {
    uid: PodUid,
    container: Arc<str>,
    kind: ProbeKind,
}

/// Runs until cancelled.
pub async fn run(deps: ProbesDeps, cancel: CancellationToken) {
    let started = Duration::from_nanos(u64::try_from(deps.started_at.as_nanos()).unwrap_or(0));
    deps.metrics.probes.process_start.set(started.as_secs_f64());
    let saved = match deps.gates.restart_forgets_probes {
        true => SavedResults::default(),
        false => SavedResults::load(&*deps.checkpoints).await,
    };
    let (content, contents) = watch::channel(Vec::new());
    let writer = checkpoint::write(Arc::clone(&deps.checkpoints), contents);
    let checker = Arc::new(Checker::new(Arc::clone(&deps.runtime), Arc::clone(&deps.outbound)));
    let stage = Stage {
        checker,
        saved,
        content,
        rows: HashMap::new(),
        queue: DelayQueue::default(),
        checks: JoinSet::new(),
        in_flight: HashMap::new(),
        unsent: VecDeque::new(),
        save: Throttle::new(MIN_SAVE_INTERVAL),
        deps,
    };
    tokio::join!(stage.run(cancel), writer);
}

struct Stage {
    deps: ProbesDeps,
    checker: Arc<Checker>,
    /// Results of an earlier run of the agent, for containers that were not observed yet.
    saved: SavedResults,
    content: watch::Sender<Vec<u8>>,
    rows: HashMap<PodUid, PodRow>,
    queue: DelayQueue<ProbeKey>,
    checks: JoinSet<FinishedCheck>,
    /// The probe of each running check.
    in_flight: HashMap<Id, ProbeKey>,
    unsent: VecDeque<ProbeResultChange>,
    save: Throttle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScheduleCause {
    Change,
    Checked,
}

impl Stage {
    async fn run(mut self, cancel: CancellationToken) {
        let results = self.deps.result_changes.clone();
        let mut changed = HashSet::new();
        loop {
            let next = self.queue.next_due();
            tokio::select! {
                () = cancel.cancelled() => return,
                uid = self.deps.changes.recv() => {
                    let Some(uid) = uid else { return };
                    changed.insert(uid);
                    while let Some(more) = self.deps.changes.try_recv() {
                        changed.insert(more);
                    }
                    for uid in changed.drain() {
                        self.refresh(&uid);
                    }
                }
                Some(ended) = self.checks.join_next_with_id() => self.on_check_ended(ended),
                () = sleep_until(next) => self.start_due(),
                () = sleep_until(self.save.due()) => self.save(),
                Ok(permit) = results.reserve(), if !self.unsent.is_empty() => {
                    if let Some(result) = self.unsent.pop_front() {
                        permit.send(result);
                    }
                }
            }
        }
    }

    fn refresh(&mut self, uid: &PodUid) {
        let desired = self.deps.desired.get(uid);
        let worker = self.deps.workers.get(uid);
        let is_over = match &worker {
            Some(worker) => worker.phase >= WorkerPhase::Terminated,
            None => desired.is_none(),
        };
        if is_over {
            self.remove(uid);
            return;
        }
        let row = match (desired.as_ref(), self.rows.entry(uid.clone())) {
            (Some(pod), std::collections::hash_map::Entry::Vacant(slot)) => {
                let row = PodRow::new(Arc::clone(pod));
                if row.probes.is_empty() {
                    return;
                }
                slot.insert(row)
            }
            // A pod that is no longer desired is probed until it has stopped.
            (_, std::collections::hash_map::Entry::Occupied(row)) => row.into_mut(),
            (None, std::collections::hash_map::Entry::Vacant(_)) => return,
        };
        if let Some(pod) = desired.as_ref() {
            let dropped = row.replace_pod(Arc::clone(pod));
            remove_from_queue(&mut self.queue, &dropped);
            for probe in &dropped {
                self.deps.metrics.probes.forget(pod, &probe.key.container, probe.key.kind);
            }
        }
        row.terminating =
            desired.is_none() || worker.is_some_and(|worker| worker.phase == WorkerPhase::Terminating);
        row.observed = self.deps.observer.last(uid);
        let discard = self.deps.gates.restart_forgets_probes;
        let earlier = (!discard)
            .then_some(EarlierResults { saved: &self.saved, agent_started_at: self.deps.started_at });
        row.assign_containers(earlier.as_ref());
        self.publish(uid);
        self.schedule(uid, ScheduleCause::Change);
    }

    fn remove(&mut self, uid: &PodUid) {
        let Some(row) = self.rows.remove(uid) else { return };
        remove_from_queue(&mut self.queue, &row.probes);
        for probe in &row.probes {
            self.deps.metrics.probes.forget(&row.pod, &probe.key.container, probe.key.kind);
        }
        if !row.published.is_empty() {
            self.deps.probe_results.remove(uid);
            self.save.request();
        }
    }

    /// Schedules the next check of every probe of a pod.
    fn schedule(&mut self, uid: &PodUid, cause: ScheduleCause) {
        let (now, wall) = (Instant::now(), self.deps.clock.now());
        let Some(row) = self.rows.get(uid) else { return };
        for probe in &row.probes {
            let due = match row.next(probe, wall) {
                _ if probe.checking => None,
                NextCheck::Wait => None,
                NextCheck::In(_) if cause == ScheduleCause::Change && may_recheck_readiness(probe, wall) => {
                    Some(now)
                }
                NextCheck::In(wait) => Some(now + wait),
            };
            match due {
                Some(due) => self.queue.set(probe.key.clone(), due),
                None => self.queue.remove(&probe.key),
            };
        }
    }

    /// Starts the checks that are due.
    fn start_due(&mut self) {
        let (now, wall) = (Instant::now(), self.deps.clock.now());
        let host = self.deps.host_addresses.first().map(ToString::to_string).unwrap_or_default();
        while let Some(key) = self.queue.pop_due(now) {
            let Some(row) = self.rows.get_mut(&key.uid) else { continue };
            let check = row.check(&key, &host);
            let Some(probe) = row.probe_mut(&key) else { continue };
            let Some(state) = &mut probe.state else { continue };
            state.last_check = Some(wall);
            probe.checking = true;
            let pending = PendingCheck {
                id: state.id.clone(),
                check,
                timeout: probe.settings.timeout,
                key: key.clone(),
            };
            let task = self.checks.spawn(Arc::clone(&self.checker).run(pending));
            self.in_flight.insert(task.id(), key);
        }
    }

    fn on_check_ended(&mut self, ended: Result<(Id, FinishedCheck), JoinError>) {
        match ended {
            Ok((id, done)) => {
                self.in_flight.remove(&id);
                self.finish(&done);
            }
            Err(error) => {
                tracing::error!(%error, "probe check task panicked");
                // The check has no outcome; the next one runs on schedule.
                let Some(key) = self.in_flight.remove(&error.id()) else { return };
                let Some(row) = self.rows.get_mut(&key.uid) else { return };
                if let Some(probe) = row.probe_mut(&key) {
                    probe.checking = false;
                }
                self.schedule(&key.uid, ScheduleCause::Checked);
            }
        }
    }

    fn finish(&mut self, done: &FinishedCheck) {
        let FinishedCheck { key, id, outcome, took } = done;
        let wall = self.deps.clock.now();
        let Some(row) = self.rows.get_mut(&key.uid) else { return };
        let Some(probe) = row.probe_mut(key) else { return };
        probe.checking = false;
        let Some(probe) = row.probes.iter().find(|probe| probe.key == *key) else { return };
        // The outcome does not count if the container was replaced during the check.
        let checked = probe.state.as_ref().filter(|state| state.id == *id);
        let succeeded = outcome.result() == Some(ProbeResult::Success);
        let counts = checked.is_some_and(|state| succeeded || !state.is_early(key.kind, &probe.settings));
        if counts && row.next(probe, wall) != NextCheck::Wait {
            if let Some(result) = outcome.result() {
                self.deps.metrics.probes.checked(&row.pod, &key.container, key.kind, (result, *took));
                if let Some(state) = &probe.state {
                    let timelines = &self.deps.timelines;
                    timelines.record_first_probe(&key.uid, &key.container, state.started_at, result);
                }
            }
            let pod = Arc::clone(&row.pod);
            let settings = probe.settings;
            if let Some(state) = row.probe_mut(key).and_then(|probe| probe.state.as_mut()) {
                state.record(key.kind, &settings, outcome);
            }
            self.record_event(&pod, key, outcome);
            self.publish(&key.uid);
        }
        self.schedule(&key.uid, ScheduleCause::Checked);
    }

    fn record_event(&self, pod: &Pod, key: &ProbeKey, outcome: &CheckOutcome) {
        let Some((kind, reason, message)) = outcome.event(key.kind) else { return };
        let field_path = pod.container(&key.container).map(|entry| entry.field_path()).unwrap_or_default();
        let (subject, now) = (EventSubject::pod(pod, field_path), self.deps.clock.now());
        self.deps.events.record(RecordedEvent::new(subject, kind, reason, message, now));
    }

    /// Publishes a pod's results if they changed, and notifies the sync loop.
    fn publish(&mut self, uid: &PodUid) {
        let Some(row) = self.rows.get_mut(uid) else { return };
        let probe_results = row.probe_results();
        if probe_results == row.published {
            return;
        }
        let old = std::mem::replace(&mut row.published, probe_results.clone());
        for (name, new) in &probe_results {
            let old = old.get(name).filter(|old| old.id == new.id);
            for (kind, now, before) in [
                (ProbeKind::Startup, new.startup, old.and_then(|old| old.startup)),
                (ProbeKind::Readiness, new.readiness, old.and_then(|old| old.readiness)),
                (ProbeKind::Liveness, new.liveness, old.and_then(|old| old.liveness)),
            ] {
                if let Some(result) = now.filter(|_| now != before) {
                    tracing::debug!(pod = %row.pod.full_name, container = %name, probe = kind.as_str(), ?result, "probe result changed");
                    let success = result == ProbeResult::Success;
                    self.unsent.push_back(ProbeResultChange { uid: uid.clone(), kind, success });
                }
            }
        }
        self.deps.probe_results.set(uid, Arc::new(probe_results));
        self.save.request();
    }

    /// Sends the newest results to the checkpoint writer.
    fn save(&mut self) {
        self.save.start();
        if !self.saved.is_empty() && self.deps.observer.has_listed() {
            let all = self.deps.observer.all();
            let observed: HashSet<_> =
                all.iter().flat_map(|pod| &pod.containers).map(|status| &status.id).collect();
            self.saved.retain(|id| observed.contains(id));
        }
        let mut saved = self.saved.copy();
        for probe in self.rows.values().flat_map(|row| &row.probes) {
            let Some(state) = &probe.state else { continue };
            if let Some(result) = state.result {
                saved.add(&state.id, state.started_at, probe.key.kind, result);
            }
        }
        self.content.send_replace(saved.encode());
    }
}

/// Whether a probe is checked early because its pod changed: only a container that is not ready.
fn may_recheck_readiness(probe: &ProbeRow, now: Timestamp) -> bool {
    let gap = MIN_TRIGGER_INTERVAL.min(probe.settings.period / 2);
    probe.key.kind == ProbeKind::Readiness
        && probe.state.as_ref().is_some_and(|state| {
            state.result != Some(ProbeResult::Success)
                && state.last_check.is_some_and(|last| now.since(last) >= gap)
        })
}

fn remove_from_queue(queue: &mut DelayQueue<ProbeKey>, probes: &[ProbeRow]) {
    for probe in probes {
        queue.remove(&probe.key);
    }
}

#[cfg(test)]
mod tests;
