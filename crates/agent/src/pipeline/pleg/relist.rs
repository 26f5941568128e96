//! Periodic lists of all pods and containers of the runtime: the safety net for missed hints.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use decide::pipeline::runtime_events::{PodRecord, container_pleg_state, diff, sandbox_pleg_state};
use model::{ContainerState, ListMark, Moment, Observation, ObservedPod, PodLists, PodUid};
use tokio::time::Instant;

use super::observe::listed_name;
use super::{Generator, Lists, RelistResult};

/// Differences between a relist and the tracked pods.
struct Changes {
    changed: HashSet<PodUid>,
    removed: Vec<PodUid>,
}

impl Generator {
    pub(super) fn start_relist(&mut self) {
        let runtime = Arc::clone(&self.deps.runtime);
        let moment = self.deps.observations.moments.next();
        let started = Instant::now();
        if let Some(last) = self.last_relist_started.replace(started) {
            self.deps.metrics.pleg.relist_interval.observe((started - last).as_secs_f64());
        }
        let tracked = self.settled_mark;
        self.relists.spawn(async move {
            let lists = runtime.list_pods(tracked).await;
            RelistResult { lists, tracked, moment, took: started.elapsed() }
        });
    }

    pub(super) fn schedule_relist(&mut self) {
        let settings = &self.deps.settings;
        let period = if self.stream_is_open && self.failed.is_empty() {
            settings.relist_period_with_events
        } else {
            settings.relist_period
        };
        self.next_relist = Instant::now() + period;
    }

    pub(super) fn on_relist(&mut self, ended: RelistResult) {
        let (mut changed_meanwhile, failed) = (false, ended.lists.is_err());
        match ended.lists {
            Err(error) => {
                tracing::debug!(%error, "failed to list the runtime's pods");
                self.deps.health.request_check();
            }
            Ok(lists) => {
                self.deps.health.record_list();
                changed_meanwhile = lists == PodLists::Same && self.settled_mark != ended.tracked;
                let metrics = &self.deps.metrics;
                metrics.pleg.relist_duration.observe(ended.took.as_secs_f64());
                #[expect(clippy::cast_precision_loss, reason = "a time in seconds needs no nanoseconds")]
                metrics.pleg.last_seen.set(self.deps.clock.now().as_nanos() as f64 / 1e9);
                self.apply_lists(lists, ended.moment);
            }
        }
        self.schedule_relist();
        if failed {
            // Also while the event stream works: without relists the node is not ready.
            self.next_relist = Instant::now() + self.deps.settings.relist_period;
        }
        if changed_meanwhile {
            // The runtime compared with an older mark, so this result may miss a change: relist now.
            self.next_relist = Instant::now();
        }
    }

    fn apply_lists(&mut self, lists: PodLists, moment: Moment) {
        match lists {
            PodLists::Same => {}
            PodLists::These { sandboxes, containers, mark } => {
                self.compare_lists((sandboxes, containers), mark, moment);
            }
        }
        self.deps.observations.last_relist.send_replace(moment);
    }

    fn compare_lists(&mut self, lists: Lists, mark: Option<ListMark>, moment: Moment) {
        let Changes { changed, removed } = self.changes(&lists);
        self.settled_mark = mark.filter(|_| changed.is_empty() && removed.is_empty());
        let mut pods: HashMap<PodUid, Lists> = HashMap::new();
        for sandbox in lists.0.into_iter().filter(|sandbox| changed.contains(&sandbox.pod_uid)) {
            pods.entry(sandbox.pod_uid.clone()).or_default().0.push(sandbox);
        }
        for container in lists.1.into_iter().filter(|container| changed.contains(&container.pod_uid)) {
            pods.entry(container.pod_uid.clone()).or_default().1.push(container);
        }
        for (uid, lists) in pods {
            let tracked = self.tracked.get(&uid);
            if tracked.is_some_and(|tracked| tracked.moment > moment) {
                continue;
            }
            if tracked.is_none() {
                self.publish_listed(&uid, &lists);
            }
            self.observe_listed(&uid, lists, moment);
        }
        for uid in removed {
            if self.tracked.get(&uid).is_some_and(|tracked| tracked.moment < moment) {
                self.remove_pod(&uid);
            }
        }
    }

    /// Finds changed and removed pods, without grouping the unchanged ones.
    fn changes(&mut self, lists: &Lists) -> Changes {
        let tracked = &mut self.tracked;
        tracked.values_mut().for_each(|tracked| tracked.unchanged = 0);
        let mut changed = HashSet::new();
        let mut seen = |uid: &PodUid, id: &str, life| match tracked.get_mut(uid) {
            Some(tracked) if tracked.record.has_state(id, life) => tracked.unchanged += 1,
            Some(_) | None => {
                changed.insert(uid.clone());
            }
        };
        for sandbox in &lists.0 {
            seen(&sandbox.pod_uid, sandbox.id.as_str(), sandbox_pleg_state(sandbox.state));
        }
        for container in &lists.1 {
            seen(&container.pod_uid, container.id.as_str(), container_pleg_state(container.state));
        }
        let mut removed = Vec::new();
        for (uid, tracked) in tracked.iter() {
            if tracked.unchanged == 0 && !changed.contains(uid) {
                removed.push(uid.clone());
            } else if tracked.unchanged < tracked.record.len() || self.failed.contains(uid) {
                changed.insert(uid.clone());
            }
        }
        Changes { changed, removed }
    }

    /// Publishes a pod before its first observation, so that it is not taken for absent.
    fn publish_listed(&self, uid: &PodUid, lists: &Lists) {
        let Some(full_name) = listed_name(&lists.0, &lists.1) else { return };
        let mut row = ObservedPod::absent(uid.clone(), full_name, Moment::START);
        let runs = lists.1.iter().any(|container| container.state == ContainerState::Running);
        row.observation = Observation::Listed { runs };
        self.deps.observations.rows.set(uid, Arc::new(row));
    }

    pub(super) fn remove_pod(&mut self, uid: &PodUid) {
        self.settled_mark = None;
        self.failed.remove(uid);
        if let Some(tracked) = self.tracked.remove(uid) {
            self.outbox.extend(diff(uid, &tracked.record, &PodRecord::empty()));
        }
        if let Some(row) = self.deps.observations.rows.reader().get(uid) {
            self.drop_owners(&row);
        }
        self.exit_watcher.retain(uid, |_| false);
        self.deps.observations.rows.remove(uid);
    }
}
