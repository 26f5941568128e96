//! Pods from the API server: those bound to this node.
//!
//! Each change is sent as the whole set; pods that did not change keep their place in memory, so that the merge sees at
//! a glance that there is nothing to compare. Mirror pods are no pods to run: they only go to the table of what the
//! API server shows.

mod memory;

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

use crate::api_pods::{ApiPodsWriter, is_mirror};
use crate::memory::Memory;
use crate::node_view::{self, NodeView};
use crate::source_report::SourceReports;
use memory::Newest;

/// Changes that go into one set at most.
const BATCH: usize = 500;
/// The least time between two complaints about the API server.
const COMPLAINTS: Duration = Duration::from_secs(30);
/// How long a new agent waits for the API server before it runs what it remembers.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often an unchanged set is remembered anew, as confirmed.
const CONFIRM: Duration = Duration::from_secs(600);

/// What the source needs.
pub struct Parts {
    /// The API server.
    pub pods: Arc<dyn ApiPods>,
    /// The Node object; pods are asked for once it is known.
    pub node: watch::Receiver<NodeView>,
    /// Where sets go.
    pub snapshots: mpsc::Sender<Snapshot>,
    /// What the API server shows.
    pub shown: ApiPodsWriter,
    /// How the source is, for whoever asks.
    pub report: Arc<SourceReports>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How containers may say when they restart.
    pub restarts: RestartRules,
    /// What an agent before this one knew.
    pub memory: Memory,
    /// How old that may be; `None` means any age.
    pub max_age: Option<Duration>,
}

/// Runs until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    let remembered = memory::recall(&parts.memory, parts.max_age, parts.clock.now()).await;
    let (newest, to_keep) = watch::channel(None);
    let keeping = memory::keep(parts.memory.clone(), to_keep, cancel.clone());
    let mut source = ApiSource {
        parts,
        known: BTreeMap::new(),
        listed: false,
        is_reached: false,
        complaint: None,
        remembered,
        newest,
    };
    let following = async move {
        tokio::select! {
            () = cancel.cancelled() => {}
            () = source.follow() => {}
        }
    };
    tokio::join!(keeping, following);
}

struct ApiSource {
    parts: Parts,
    /// Pods to run and mirror pods.
    known: BTreeMap<PodUid, Arc<Pod>>,
    listed: bool,
    /// Whether the last thing heard was no failure.
    is_reached: bool,
    /// When the API server was last complained about.
    complaint: Option<Instant>,
    /// What to run if the API server does not answer.
    remembered: Option<Snapshot>,
    /// What to remember.
    newest: watch::Sender<Option<Newest>>,
}

impl ApiSource {
    /// Returns when nobody listens any more.
    async fn follow(&mut self) {
        let mut node = self.parts.node.clone();
        let patience = tokio::time::sleep(PATIENCE);
        tokio::pin!(patience);
        loop {
            tokio::select! {
                _ = node_view::known(&mut node) => break,
                () = &mut patience, if self.remembered.is_some() => self.restore().await,
            }
        }
        let mut feed = self.parts.pods.watch();
        let mut confirm = tokio::time::interval(CONFIRM);
        confirm.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let first = tokio::select! {
                first = feed.next() => first,
                () = &mut patience, if self.remembered.is_some() => {
                    self.restore().await;
                    continue;
                }
                _ = confirm.tick() => {
                    self.remember();
                    continue;
                }
            };
            let Some(first) = first else {
                // A watch has no end; a stage that is over ends the agent.
                tracing::error!("the watch of pods ended");
                return;
            };
            self.take(first);
            for _ in 1..BATCH {
                match feed.next().now_or_never() {
                    Some(Some(more)) => self.take(more),
                    Some(None) | None => break,
                }
            }
            if self.listed && !self.send().await {
                return;
            }
            self.remember();
        }
    }

    /// Sends what the last agent knew; only a list of the API server takes it back.
    async fn restore(&mut self) {
        let Some(snapshot) = self.remembered.take() else { return };
        tracing::warn!(
            pods = snapshot.pods.len(),
            "the API server does not answer; running the pods it named last"
        );
        // Fails only while the agent stops.
        let _ = self.parts.snapshots.send(snapshot).await;
    }

    fn remember(&self) {
        if self.listed && self.is_reached {
            let pods = self.known.values().filter(|pod| !is_mirror(pod)).cloned().collect();
            self.newest.send_replace(Some(Newest { pods, heard_at: self.parts.clock.now() }));
        }
    }
}

impl ApiSource {
    fn take(&mut self, news: Feed<core::Pod>) {
        self.is_reached = !matches!(news, Feed::Failed(_));
        match news {
            Feed::Listed(objects) => self.take_list(objects),
            Feed::Applied(object) => {
                if let Some(pod) = self.read(object) {
                    self.set(pod);
                }
            }
            Feed::Deleted(object) => {
                if let Some(uid) = object.metadata.uid {
                    self.drop(&PodUid::from(uid.as_str()));
                }
            }
            Feed::Failed(error) => self.complain(&error),
        }
    }

    fn take_list(&mut self, objects: Vec<core::Pod>) {
        let mut gone = std::mem::take(&mut self.known);
        for object in objects {
            let uid = object.metadata.uid.as_deref().map(PodUid::from);
            let version = object.metadata.resource_version.as_deref();
            let same =
                |pod: &&Arc<Pod>| version.is_some() && pod.metadata.resource_version.as_deref() == version;
            let unchanged = uid.as_ref().and_then(|uid| gone.get(uid)).filter(same).cloned();
            if let Some(pod) = unchanged {
                gone.remove(&pod.uid);
                self.known.insert(pod.uid.clone(), pod);
                continue;
            }
            if let Some((uid, known)) = uid.and_then(|uid| gone.remove_entry(&uid)) {
                // Found again below, for when it was first seen.
                self.known.insert(uid, known);
            }
            if let Some(pod) = self.read(object) {
                self.set(pod);
            }
        }
        self.known.extend(gone.iter().map(|(uid, pod)| (uid.clone(), Arc::clone(pod))));
        for uid in gone.keys() {
            self.drop(uid);
        }
        self.remembered = None;
        if !std::mem::replace(&mut self.listed, true) {
            tracing::info!(pods = self.known.len(), "the API server told its pods of this node");
        }
        self.parts.shown.set_listed();
    }

    fn set(&mut self, pod: Arc<Pod>) {
        self.parts.shown.set(&pod);
        self.known.insert(pod.uid.clone(), pod);
    }

    fn drop(&mut self, uid: &PodUid) {
        self.known.remove(uid);
        self.parts.shown.remove(uid);
    }

    /// Takes an object in, with the local annotations: the merge then shares the pod instead of copying it.
    fn read(&self, mut object: core::Pod) -> Option<Arc<Pod>> {
        // Who wrote which field is of no use here, and much of the object.
        object.metadata.managed_fields = None;
        if let Some(spec) = &mut object.spec {
            drop_restart_rules(spec, self.parts.restarts);
        }
        let name = object.metadata.name.clone().unwrap_or_default();
        let mut pod = match Pod::from_object(object, PodSource::Api) {
            Ok(pod) => pod,
            Err(error) => {
                tracing::error!(%name, %error, "an object of the API server is no pod that can be run");
                return None;
            }
        };
        if !is_mirror(&pod) {
            let seen = self.known.get(&pod.uid).and_then(|known| known.annotation(labels::CONFIG_SEEN));
            let seen = seen.map_or_else(|| self.parts.clock.now().to_rfc3339(), str::to_owned);
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(labels::CONFIG_SOURCE.to_owned(), PodSource::Api.as_str().to_owned());
            annotations.insert(labels::CONFIG_SEEN.to_owned(), seen);
        }
        Some(Arc::new(pod))
    }

    fn complain(&mut self, error: &ApiError) {
        self.parts.report.failing(PodSource::Api, error.to_string());
        let now = Instant::now();
        if self.complaint.is_none_or(|last| now.duration_since(last) >= COMPLAINTS) {
            self.complaint = Some(now);
            tracing::warn!(%error, "pods cannot be watched at the API server; what runs goes on");
        }
    }

    /// Sends the set; false when nobody listens any more.
    async fn send(&self) -> bool {
        let pods: Vec<_> = self.known.values().filter(|pod| !is_mirror(pod)).cloned().collect();
        if self.is_reached {
            self.parts.report.good(PodSource::Api, pods.len());
        }
        let snapshot = Snapshot { source: PodSource::Api, kind: SnapshotKind::Set, pods };
        self.parts.snapshots.send(snapshot).await.is_ok()
    }
}

#[cfg(test)]
mod tests;
