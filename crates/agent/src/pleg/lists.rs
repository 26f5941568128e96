//! Whole lists of the runtime, the safety net under the hints.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use decide::runtime_events::{Record, container_life, diff, sandbox_life};
use model::{ContainerState, ListMark, Moment, Observation, ObservedPod, PodLists, PodUid};
use tokio::time::Instant;

use super::{Generator, ListEnded, Lists};

/// What a list says beside what was known.
struct Changes {
    changed: HashSet<PodUid>,
    gone: Vec<PodUid>,
}

impl Generator {
    pub(super) fn start_list(&mut self) {
        let runtime = Arc::clone(&self.parts.runtime);
        let moment = self.parts.observations.moments.next();
        let started = Instant::now();
        if let Some(last) = self.last_list.replace(started) {
            self.parts.metrics.pleg.relist_interval.observe((started - last).as_secs_f64());
        }
        let known = self.settled;
        self.lists.spawn(async move {
            let lists = runtime.list_pods(known).await;
            ListEnded { lists, known, moment, took: started.elapsed() }
        });
    }

    pub(super) fn plan_next_list(&mut self) {
        let settings = &self.parts.settings;
        let period = if self.events_work && self.failed.is_empty() {
            settings.relist_period_with_events
        } else {
            settings.relist_period
        };
        self.next_list = Instant::now() + period;
    }

    pub(super) fn on_list(&mut self, ended: ListEnded) {
        let (mut learnt_meanwhile, failed) = (false, ended.lists.is_err());
        match ended.lists {
            Err(error) => {
                tracing::debug!(%error, "the runtime's pods could not be listed");
                self.parts.health.doubt();
            }
            Ok(lists) => {
                self.parts.health.listed();
                learnt_meanwhile = lists == PodLists::Same && self.settled != ended.known;
                let metrics = &self.parts.metrics;
                metrics.pleg.relist_duration.observe(ended.took.as_secs_f64());
                #[expect(clippy::cast_precision_loss, reason = "a time in seconds needs no nanoseconds")]
                metrics.pleg.last_seen.set(self.parts.clock.now().as_nanos() as f64 / 1e9);
                self.take_lists(lists, ended.moment);
            }
        }
        self.plan_next_list();
        if failed {
            // Also while the event stream works: the node is not ready without lists.
            self.next_list = Instant::now() + self.parts.settings.relist_period;
        }
        if learnt_meanwhile {
            // These lists were compared with what was known before; the next ones are compared with all of it.
            self.next_list = Instant::now();
        }
    }

    fn take_lists(&mut self, lists: PodLists, moment: Moment) {
        match lists {
            PodLists::Same => {}
            PodLists::These { sandboxes, containers, mark } => {
                self.compare_lists((sandboxes, containers), mark, moment);
            }
        }
        self.parts.observations.floor.send_replace(moment);
    }

    fn compare_lists(&mut self, lists: Lists, mark: Option<ListMark>, moment: Moment) {
        let Changes { changed, gone } = self.changes(&lists);
        self.settled = mark.filter(|_| changed.is_empty() && gone.is_empty());
        let mut pods: HashMap<PodUid, Lists> = HashMap::new();
        for sandbox in lists.0.into_iter().filter(|sandbox| changed.contains(&sandbox.pod_uid)) {
            pods.entry(sandbox.pod_uid.clone()).or_default().0.push(sandbox);
        }
        for container in lists.1.into_iter().filter(|container| changed.contains(&container.pod_uid)) {
            pods.entry(container.pod_uid.clone()).or_default().1.push(container);
        }
        for (uid, lists) in pods {
            let known = self.known.get(&uid);
            if known.is_some_and(|known| known.moment > moment) {
                continue;
            }
            if known.is_none() {
                self.announce(&uid, &lists);
            }
            self.look_listed(&uid, lists, moment);
        }
        for uid in gone {
            if self.known.get(&uid).is_some_and(|known| known.moment < moment) {
                self.forget(&uid);
            }
        }
    }

    /// Pods of which the lists say something new, without grouping what is as it was.
    fn changes(&mut self, lists: &Lists) -> Changes {
        let known = &mut self.known;
        known.values_mut().for_each(|known| known.unchanged = 0);
        let mut changed = HashSet::new();
        let mut seen = |uid: &PodUid, id: &str, life| match known.get_mut(uid) {
            Some(known) if known.record.holds(id, life) => known.unchanged += 1,
            Some(_) | None => {
                changed.insert(uid.clone());
            }
        };
        for sandbox in &lists.0 {
            seen(&sandbox.pod_uid, sandbox.id.as_str(), sandbox_life(sandbox.state));
        }
        for container in &lists.1 {
            seen(&container.pod_uid, container.id.as_str(), container_life(container.state));
        }
        let mut gone = Vec::new();
        for (uid, known) in known.iter() {
            if known.unchanged == 0 && !changed.contains(uid) {
                gone.push(uid.clone());
            } else if known.unchanged < known.record.len() || self.failed.contains(uid) {
                changed.insert(uid.clone());
            }
        }
        Changes { changed, gone }
    }

    /// Publishes that a pod exists before it was looked at, so that nobody takes it for absent.
    fn announce(&self, uid: &PodUid, lists: &Lists) {
        let names = lists
            .0
            .iter()
            .map(|sandbox| (&sandbox.pod_namespace, &sandbox.pod_name))
            .chain(lists.1.iter().map(|container| (&container.pod_namespace, &container.pod_name)))
            .next();
        let Some((namespace, name)) = names else { return };
        let full_name = model::PodFullName { namespace: namespace.clone(), name: name.clone() };
        let mut row = ObservedPod::absent(uid.clone(), full_name, Moment::START);
        let runs = lists.1.iter().any(|container| container.state == ContainerState::Running);
        row.observation = Observation::Listed { runs };
        self.parts.observations.rows.set(uid, Arc::new(row));
    }

    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.settled = None;
        self.failed.remove(uid);
        if let Some(known) = self.known.remove(uid) {
            self.outbox.extend(diff(uid, &known.record, &Record::empty()));
        }
        if let Some(row) = self.parts.observations.rows.reader().get(uid) {
            self.drop_owners(&row);
        }
        self.exits.retain(uid, |_| false);
        self.parts.observations.rows.remove(uid);
    }
}
