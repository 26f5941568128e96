//! Readings of cgroups, shared by concurrent requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::cgroups::qos_cgroups::QosCgroups;
use decide::runtime_spec::pod_paths::{pod_cgroup, possible_pod_cgroups};
use decide::statistics::rate::CpuRate;
use decide::statistics::readings::{PodReading, Reading, RunningPod, arrange, present_pods, running_pods};
use decide::statistics::summary::{AGENT, NodeReading};
use model::usage::CgroupUsage;
use ports::host::usage::{CgroupWithChildren, Detail, PodCgroup};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Statistics;

/// How long a reading is reused.
const FRESH: Duration = Duration::from_secs(1);

/// CPU rates by cgroup.
pub(super) type Rates = HashMap<String, CpuRate>;

/// A reading that concurrent and following requests share, with its time and detail.
pub(super) type Shared<T> = Mutex<Option<(Instant, Detail, Arc<T>)>>;

/// A fresh reading with at least this detail, or else a new one.
pub(super) async fn fresh<T, F: Future<Output = T>>(
    shared: &Shared<T>,
    detail: Detail,
    read: impl FnOnce() -> F,
) -> Arc<T> {
    // A second caller waits here and then uses the reading of the first.
    let mut shared = shared.lock().await;
    if let Some((at, known, found)) = &*shared
        && *known >= detail
        && at.elapsed() < FRESH
    {
        return Arc::clone(found);
    }
    let found = Arc::new(read().await);
    *shared = Some((Instant::now(), detail, Arc::clone(&found)));
    found
}

pub(super) struct Readings {
    pub(super) node: NodeReading,
    pub(super) classes: Vec<Reading>,
    pub(super) pods: Vec<PodReading>,
}

impl Statistics {
    /// Fresh readings with at least this detail, or else new ones.
    pub(super) async fn readings(&self, detail: Detail) -> Arc<Readings> {
        fresh(&self.shared, detail, || self.read(detail)).await
    }

    /// The pods that have statistics now.
    pub(super) fn running(&self) -> Vec<RunningPod> {
        running_pods(self.deps.observer.all().iter().map(|pod| &**pod))
    }

    async fn read(&self, detail: Detail) -> Readings {
        let pods = match detail {
            Detail::Basic | Detail::Summary => self.running(),
            Detail::Full => present_pods(self.deps.observer.all().iter().map(|pod| &**pod)),
        };
        let paths: Vec<(usize, String)> =
            pods.iter().enumerate().flat_map(|(at, pod)| self.paths(at, pod)).collect();
        let requested = paths.iter().filter_map(|(at, path)| {
            Some(PodCgroup { path: path.clone(), sandbox: pods.get(*at)?.sandbox.to_string() })
        });
        let requested = requested.collect();
        let (node, found) =
            tokio::join!(self.read_node(detail), self.deps.usage.pod_cgroups(requested, detail));
        let (node, classes) = node;
        // In the order of the pods; a pod may have several paths.
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
        self.drop_stale_rates();
        Readings { node, classes, pods: readings }
    }

    /// The possible cgroups of a pod; the QoS class of an orphan is unknown.
    fn paths(&self, at: usize, pod: &RunningPod) -> Vec<(usize, String)> {
        let settings = &self.deps.node;
        let paths = match self.deps.desired.get(&pod.uid) {
            Some(pod) => vec![pod_cgroup(&pod, settings)],
            None => possible_pod_cgroups(&pod.uid, settings),
        };
        paths.into_iter().filter(|path| !path.is_empty()).map(|path| (at, path)).collect()
    }

    async fn read_node(&self, detail: Detail) -> (NodeReading, Vec<Reading>) {
        let (settings, node) = (&self.deps.settings, &self.deps.node);
        let usage = &self.deps.usage;
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
        paths.extend(classes.paths().map(str::to_owned));
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

    /// Reads the network of each sandbox.
    async fn read_networks(&self, pods: &mut [PodReading]) {
        let sandbox = |pod: &PodReading| pod.sandbox.as_ref().map(|sandbox| sandbox.path.clone());
        // A pod whose sandbox has no cgroup keeps its index.
        let paths = pods.iter().map(|pod| sandbox(pod).unwrap_or_else(|| "/".to_owned())).collect();
        let networks = self.deps.usage.networks(paths).await;
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
        let mut rates = self.rates.lock();
        let rate = match rates.get(&path) {
            Some(known) => known.next(time, total),
            None => CpuRate::first(time, total),
        };
        rates.insert(path.clone(), rate);
        Reading { path, usage, nano_cores: rate.nano_cores() }
    }

    fn drop_stale_rates(&self) {
        let now = self.deps.clock.now();
        let mut rates = self.rates.lock();
        rates.retain(|_, rate| !rate.is_stale(now));
    }
}
