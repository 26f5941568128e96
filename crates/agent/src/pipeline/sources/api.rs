//! Pods from the API server: those bound to this node.
//!
//! Each change is sent as a complete snapshot; unchanged pods keep their `Arc`, so that the merge skips them by pointer
//! comparison. Mirror pods are not run: they only go to the table of API pods.

mod cache;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1 as core;
use manifest::{RestartRules, drop_restart_rules};
use model::{Pod, PodSource, PodUid, Snapshot, SnapshotKind, labels};
use ports::api::pods::ApiPods;
use ports::api::{ApiError, Feed};
use ports::clock::Clock;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::cluster::api_pods::{ApiPodsWriter, is_mirror};
use crate::cluster::offline_cache::OfflineCache;
use crate::node::node_view::{self, NodeView};
use crate::pipeline::source_report::SourceReports;
use cache::LatestPods;

/// The most watch events in one snapshot.
const MAX_BATCH: usize = 500;
/// The shortest time between two warnings about the API server.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a new agent waits for the API server before it runs the cached pods.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often an unchanged set is written to the cache again as confirmed.
const CONFIRM_PERIOD: Duration = Duration::from_secs(600);

pub struct ApiSourceDeps {
    pub pods: Arc<dyn ApiPods>,
    /// The Node object; the watch of pods begins when it exists.
    pub node: watch::Receiver<NodeView>,
    pub snapshots: mpsc::Sender<Snapshot>,
    pub api_pods: ApiPodsWriter,
    pub report: Arc<SourceReports>,
    pub clock: Arc<dyn Clock>,
    /// Which restart rules of containers are enabled.
    pub restarts: RestartRules,
    /// The cache of an earlier run of the agent.
    pub offline_cache: OfflineCache,
    /// The maximum age of the cached pods; `None` means any age.
    pub max_age: Option<Duration>,
}

/// Runs until cancelled.
pub async fn run(deps: ApiSourceDeps, cancel: CancellationToken) {
    let cached = cache::load(&deps.offline_cache, deps.max_age, deps.clock.now()).await;
    let (latest, to_save) = watch::channel(None);
    let saving = cache::save_changes(deps.offline_cache.clone(), to_save, cancel.clone());
    let mut source = ApiSource {
        deps,
        pods: BTreeMap::new(),
        listed: false,
        is_reached: false,
        last_warning: None,
        cached,
        latest,
    };
    tokio::join!(saving, cancel.run_until_cancelled(source.watch()));
}

struct ApiSource {
    deps: ApiSourceDeps,
    pods: BTreeMap<PodUid, Arc<Pod>>,
    listed: bool,
    /// Whether the last watch event was not a failure.
    is_reached: bool,
    last_warning: Option<Instant>,
    /// The cached pods, sent if the API server does not answer.
    cached: Option<Snapshot>,
    latest: watch::Sender<Option<LatestPods>>,
}

impl ApiSource {
    /// Returns when the receiver of snapshots has ended.
    async fn watch(&mut self) {
        let mut node = self.deps.node.clone();
        let answer_timeout = tokio::time::sleep(ANSWER_TIMEOUT);
        tokio::pin!(answer_timeout);
        loop {
            tokio::select! {
                _ = node_view::wait_until_known(&mut node) => break,
                () = &mut answer_timeout, if self.cached.is_some() => self.restore().await,
            }
        }
        let mut feed = self.deps.pods.watch();
        let mut confirm = tokio::time::interval(CONFIRM_PERIOD);
        confirm.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let first = tokio::select! {
                first = feed.next() => first,
                () = &mut answer_timeout, if self.cached.is_some() => {
                    self.restore().await;
                    continue;
                }
                _ = confirm.tick() => {
                    self.cache_pods();
                    continue;
                }
            };
            let Some(first) = first else {
                // A watch never ends; the agent stops when a stage returns.
                tracing::error!("watch of pods ended unexpectedly");
                return;
            };
            self.apply(first);
            for _ in 1..MAX_BATCH {
                match feed.next().now_or_never() {
                    Some(Some(more)) => self.apply(more),
                    Some(None) | None => break,
                }
            }
            if self.listed && !self.send().await {
                return;
            }
            self.cache_pods();
        }
    }

    /// Sends the cached pods. Only a list from the API server replaces them.
    async fn restore(&mut self) {
        let Some(snapshot) = self.cached.take() else { return };
        tracing::warn!(pods = snapshot.pods.len(), "API server does not answer, running the cached pods");
        // Fails only while the agent stops.
        let _ = self.deps.snapshots.send(snapshot).await;
    }

    fn cache_pods(&self) {
        if self.listed && self.is_reached {
            let pods = self.pods.values().filter(|pod| !is_mirror(pod)).cloned().collect();
            self.latest.send_replace(Some(LatestPods { pods, confirmed_at: self.deps.clock.now() }));
        }
    }

    fn apply(&mut self, event: Feed<core::Pod>) {
        self.is_reached = !matches!(event, Feed::Failed(_));
        match event {
            Feed::Listed(objects) => self.apply_list(objects),
            Feed::Applied(object) => {
                if let Some(pod) = self.to_pod(object) {
                    self.set(pod);
                }
            }
            Feed::Deleted(object) => {
                if let Some(uid) = object.metadata.uid {
                    self.drop(&PodUid::from(uid.as_str()));
                }
            }
            Feed::Failed(error) => self.report_failure(&error),
        }
    }

    fn apply_list(&mut self, objects: Vec<core::Pod>) {
        let mut removed = std::mem::take(&mut self.pods);
        for object in objects {
            let uid = object.metadata.uid.as_deref().map(PodUid::from);
            let version = object.metadata.resource_version.as_deref();
            let same =
                |pod: &&Arc<Pod>| version.is_some() && pod.metadata.resource_version.as_deref() == version;
            let unchanged = uid.as_ref().and_then(|uid| removed.get(uid)).filter(same).cloned();
            if let Some(pod) = unchanged {
                removed.remove(&pod.uid);
                self.pods.insert(pod.uid.clone(), pod);
                continue;
            }
            if let Some((uid, pod)) = uid.and_then(|uid| removed.remove_entry(&uid)) {
                // `to_pod` reads the time of the first sight from it.
                self.pods.insert(uid, pod);
            }
            if let Some(pod) = self.to_pod(object) {
                self.set(pod);
            }
        }
        self.pods.extend(removed.iter().map(|(uid, pod)| (uid.clone(), Arc::clone(pod))));
        for uid in removed.keys() {
            self.drop(uid);
        }
        self.cached = None;
        if !std::mem::replace(&mut self.listed, true) {
            tracing::info!(pods = self.pods.len(), "listed the node's pods from the API server");
        }
        self.deps.api_pods.set_listed();
    }

    fn set(&mut self, pod: Arc<Pod>) {
        self.deps.api_pods.set(&pod);
        self.pods.insert(pod.uid.clone(), pod);
    }

    fn drop(&mut self, uid: &PodUid) {
        self.pods.remove(uid);
        self.deps.api_pods.remove(uid);
    }

    /// Converts an object and adds the local annotations, so that the merge shares the pod instead of copying it.
    fn to_pod(&self, mut object: core::Pod) -> Option<Arc<Pod>> {
        // The managed fields are unused and a large part of the object.
        object.metadata.managed_fields = None;
        if let Some(spec) = &mut object.spec {
            drop_restart_rules(spec, self.deps.restarts);
        }
        let name = object.metadata.name.clone().unwrap_or_default();
        let mut pod = match Pod::from_object(object, PodSource::Api) {
            Ok(pod) => pod,
            Err(error) => {
                tracing::error!(%name, %error, "ignoring invalid pod from the API server");
                return None;
            }
        };
        if !is_mirror(&pod) {
            let seen = self.pods.get(&pod.uid).and_then(|pod| pod.annotation(labels::CONFIG_SEEN));
            let seen = seen.map_or_else(|| self.deps.clock.now().to_rfc3339(), str::to_owned);
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(labels::CONFIG_SOURCE.to_owned(), PodSource::Api.as_str().to_owned());
            annotations.insert(labels::CONFIG_SEEN.to_owned(), seen);
        }
        Some(Arc::new(pod))
    }

    fn report_failure(&mut self, error: &ApiError) {
        self.deps.report.record_failure(PodSource::Api, error.to_string());
        let now = Instant::now();
        if self.last_warning.is_none_or(|last| now.duration_since(last) >= WARNING_INTERVAL) {
            self.last_warning = Some(now);
            tracing::warn!(%error, "failed to watch pods, keeping the last known ones");
        }
    }

    /// Sends a snapshot; returns false when the receiver has ended.
    async fn send(&self) -> bool {
        let pods: Vec<_> = self.pods.values().filter(|pod| !is_mirror(pod)).cloned().collect();
        if self.is_reached {
            self.deps.report.record_success(PodSource::Api, pods.len());
        }
        let snapshot = Snapshot { source: PodSource::Api, kind: SnapshotKind::Set, pods };
        self.deps.snapshots.send(snapshot).await.is_ok()
    }
}

#[cfg(test)]
mod tests;
