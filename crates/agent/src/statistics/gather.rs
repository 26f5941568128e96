//! Readings of cgroups, shared by those who ask at the same time.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use decide::pod_paths::{pod_cgroup, possible_pod_cgroups};
use decide::qos_cgroups::QosCgroups;
use decide::statistics::rate::CpuRate;
use decide::statistics::readings::{PodReading, Reading, RunningPod, arrange, present_pods, running_pods};
use decide::statistics::summary::{AGENT, NodeReading};
use model::usage::CgroupUsage;
use ports::usage::{CgroupWithChildren, Detail, PodCgroup};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Statistics;

/// How long a reading answers further questions.
const FRESH: Duration = Duration::from_secs(1);

/// CPU rates by cgroup.
pub(super) type Rates = HashMap<String, CpuRate>;

/// A reading that those who ask at the same time, or right after, share.
pub(super) struct Shared<T> {
    kept: Mutex<Option<Kept<T>>>,
}

struct Kept<T> {
    at: Instant,
    detail: Detail,
    found: Arc<T>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { kept: Mutex::const_new(None) }
    }
}

impl<T> Shared<T> {
    /// What was read lately with at least that detail, or else what is read now.
    pub(super) async fn get<F: Future<Output = T>>(
        &self,
        detail: Detail,
        read: impl FnOnce() -> F,
    ) -> Arc<T> {
        // Who comes second waits here, and then finds what the first one read.
        let mut kept = self.kept.lock().await;
        if let Some(kept) = &*kept
            && kept.detail >= detail
            && kept.at.elapsed() < FRESH
        {
            return Arc::clone(&kept.found);
        }
        let found = Arc::new(read().await);
        *kept = Some(Kept { at: Instant::now(), detail, found: Arc::clone(&found) });
        found
    }
}

/// What was read at once.
pub(super) struct Readings {
    pub(super) node: NodeReading,
    pub(super) classes: Vec<Reading>,
    pub(super) pods: Vec<PodReading>,
}

impl Statistics {
    /// Readings with at least that detail.
    pub(super) async fn readings(&self, detail: Detail) -> Arc<Readings> {
        self.shared.get(detail, || self.read(detail)).await
    }

    /// The pods that have statistics now.
    pub(super) fn running(&self) -> Vec<RunningPod> {
        running_pods(self.parts.observer.all().iter().map(|pod| &**pod))
    }

    async fn read(&self, detail: Detail) -> Readings {
        let pods = match detail {
            Detail::Basic | Detail::Summary => self.running(),
            Detail::Full => present_pods(self.parts.observer.all().iter().map(|pod| &**pod)),
        };
        let paths: Vec<(usize, String)> =
            pods.iter().enumerate().flat_map(|(at, pod)| self.paths(at, pod)).collect();
        let wanted = paths.iter().filter_map(|(at, path)| {
            Some(PodCgroup { path: path.clone(), sandbox: pods.get(*at)?.sandbox.to_string() })
        });
        let wanted = wanted.collect();
        let (node, found) =
            tokio::join!(self.read_node(detail), self.parts.usage.pod_cgroups(wanted, detail));
        let (node, classes) = node;
        // In the order of the pods, of which each has one path or several.
        let mut found = paths.into_iter().zip(found).peekable();
        let mut readings: Vec<PodReading> = Vec::with_capacity(pods.len());
        for (at, pod) in pods.into_iter().enumerate() {
            let mut own = None;
            while let Some(((_, path), cgroup)) = found.next_if(|((owner, _), _)| *owner == at) {
                own = own.or_else(|| Some((path, cgroup?)));
            }
            let (cgroup, children) = match own {
                Some((path, found)) => self.with_children(&path, found),
                None => (None, Vec::new()),
            };
            readings.push(arrange(pod, cgroup, children));
        }
        if detail > Detail::Basic {
            self.read_networks(&mut readings).await;
        }
        self.forget_old_rates();
        Readings { node, classes, pods: readings }
    }

    /// Where the cgroup of a pod is; one that nobody wants any more may be in any class.
    fn paths(&self, at: usize, pod: &RunningPod) -> Vec<(usize, String)> {
        let settings = &self.parts.node;
        let paths = match self.parts.desired.get(&pod.uid) {
            Some(wanted) => vec![pod_cgroup(&wanted, settings)],
            None => possible_pod_cgroups(&pod.uid, settings),
        };
        paths.into_iter().filter(|path| !path.is_empty()).map(|path| (at, path)).collect()
    }

    async fn read_node(&self, detail: Detail) -> (NodeReading, Vec<Reading>) {
        let (settings, node) = (&self.parts.settings, &self.parts.node);
        let usage = &self.parts.usage;
        let own = self.own_cgroup.get_or_init(|| usage.own_cgroup()).await;
        let classes = QosCgroups::of(node);
        let system = [
            (AGENT, settings.kubelet_cgroup.clone().or_else(|| own.clone())),
            ("runtime", settings.runtime_cgroup.clone()),
            ("misc", settings.system_cgroup.clone()),
        ];
        let system: Vec<(&'static str, String)> =
            system.into_iter().filter_map(|(name, path)| Some((name, path?))).collect();
        let mut paths = vec!["/".to_owned()];
        paths.extend(classes.each().map(str::to_owned));
        paths.extend(system.iter().map(|(_, path)| path.clone()));
        let (found, booted_at) = tokio::join!(usage.cgroups(paths.clone(), detail), usage.booted_at());
        let mut found = paths.into_iter().zip(found).map(|(path, usage)| Some(self.reading(path, usage?)));
        let root = found.next().flatten();
        let classes: Vec<Reading> = found.by_ref().take(3).flatten().collect();
        let all = QosCgroups::of(node).all;
        let pods = classes.iter().find(|class| class.path == all).cloned().map(|reading| ("pods", reading));
        let named = system.iter().map(|(name, _)| *name).zip(found);
        let system = named.filter_map(|(name, reading)| Some((name, reading?))).chain(pods).collect();
        let reading = NodeReading {
            name: node.name.clone(),
            root,
            system,
            agent_started_at: self.started_at,
            booted_at,
            memory: node.memory_capacity,
            swap: node.cgroups.swap,
        };
        (reading, classes)
    }

    /// A pod's network is that of its sandbox.
    async fn read_networks(&self, pods: &mut [PodReading]) {
        let sandbox = |pod: &PodReading| pod.sandbox.as_ref().map(|sandbox| sandbox.path.clone());
        // A pod whose sandbox has no cgroup keeps its place in the list.
        let paths = pods.iter().map(|pod| sandbox(pod).unwrap_or_else(|| "/".to_owned())).collect();
        let networks = self.parts.usage.networks(paths).await;
        for (pod, network) in pods.iter_mut().zip(networks) {
            pod.network = network.filter(|_| pod.sandbox.is_some());
        }
    }

    fn with_children(&self, path: &str, found: CgroupWithChildren) -> (Option<Reading>, Vec<Reading>) {
        let children = found.children.into_iter();
        let children = children.map(|(name, usage)| self.reading(format!("{path}/{name}"), usage)).collect();
        (Some(self.reading(path.to_owned(), found.usage)), children)
    }

    fn reading(&self, path: String, usage: CgroupUsage) -> Reading {
        let (time, total) = (usage.time, usage.cpu.total);
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = match rates.get(&path) {
            Some(known) => known.next(time, total),
            None => CpuRate::first(time, total),
        };
        rates.insert(path.clone(), rate);
        Reading { path, usage, nano_cores: rate.nano_cores() }
    }

    fn forget_old_rates(&self) {
        let now = self.parts.clock.now();
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.retain(|_, rate| !rate.is_stale(now));
    }
}
