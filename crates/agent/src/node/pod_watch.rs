//! Pods and their changes, read from the published tables.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use model::{Pod, PodUid};
use ports::served::pods::{PodChange, Pods};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::pipeline::cached_status::CachedStatus;
use crate::pipeline::tables::Reader;

/// Changes within this time are sent together.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// A pod, and its status if the agent has reported one.
pub type PodWithStatus = (Arc<Pod>, Option<Arc<CachedStatus>>);

/// The tables that a pod and its status are read from.
#[derive(Clone)]
pub struct PodTables {
    pub desired: Reader<Pod>,
    pub statuses: Reader<CachedStatus>,
}

/// Changes since the last call.
#[derive(Default)]
pub struct PodChanges {
    pub removed: Vec<PodWithStatus>,
    pub added: Vec<PodWithStatus>,
    pub modified: Vec<PodWithStatus>,
}

/// Compares the tables with what a client has seen, so that a slow client takes no memory for changes.
pub struct PodWatch {
    tables: PodTables,
    changes: [watch::Receiver<u64>; 2],
    seen: BTreeMap<PodUid, PodWithStatus>,
    is_started: bool,
}

impl PodTables {
    fn with_status(&self, pod: Arc<Pod>) -> PodWithStatus {
        let status = self.statuses.get(&pod.uid);
        (pod, status)
    }

    fn all(&self) -> BTreeMap<PodUid, PodWithStatus> {
        let pods = self.desired.all().into_iter();
        pods.map(|pod| (pod.uid.clone(), self.with_status(pod))).collect()
    }
}

impl PodWatch {
    #[must_use]
    pub fn new(tables: PodTables) -> Self {
        let changes = [tables.desired.changes(), tables.statuses.changes()];
        Self { tables, changes, seen: BTreeMap::new(), is_started: false }
    }

    /// All pods at first, later what has changed. `None` when the agent stops. Cancel-safe.
    pub async fn next(&mut self) -> Option<PodChanges> {
        loop {
            if self.is_started {
                self.wait_for_change().await?;
            }
            let is_first = !std::mem::replace(&mut self.is_started, true);
            let changes = self.take_changes();
            if is_first || !changes.is_empty() {
                return Some(changes);
            }
        }
    }

    async fn wait_for_change(&mut self) -> Option<()> {
        let [pods, statuses] = &mut self.changes;
        let changed = tokio::select! {
            changed = pods.changed() => changed,
            changed = statuses.changed() => changed,
        };
        changed.ok()?;
        tokio::time::sleep(DEBOUNCE).await;
        self.changes.iter_mut().for_each(watch::Receiver::mark_unchanged);
        Some(())
    }

    fn take_changes(&mut self) -> PodChanges {
        let mut changes = PodChanges::default();
        let mut gone = std::mem::replace(&mut self.seen, self.tables.all());
        for (uid, (pod, status)) in &self.seen {
            let now = || (pod.clone(), status.clone());
            match gone.remove(uid) {
                None => changes.added.push(now()),
                Some((old_pod, old_status)) => {
                    if !(Arc::ptr_eq(&old_pod, pod) && is_same(old_status.as_ref(), status.as_ref())) {
                        changes.modified.push(now());
                    }
                }
            }
        }
        changes.removed = gone.into_values().collect();
        changes
    }
}

impl PodChanges {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.modified.is_empty()
    }
}

fn is_same(one: Option<&Arc<CachedStatus>>, other: Option<&Arc<CachedStatus>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

impl Pods for PodTables {
    fn list(&self) -> Vec<Value> {
        self.all().into_values().map(|pod| object(&pod)).collect()
    }

    fn get(&self, uid: &str) -> Option<Value> {
        self.desired.get(&PodUid::from(uid)).map(|pod| object(&self.with_status(pod)))
    }

    fn watch(&self) -> BoxStream<'static, PodChange> {
        let start = (PodWatch::new(self.clone()), VecDeque::new(), false);
        futures::stream::unfold(start, |(mut watch, mut queue, mut is_started)| async move {
            while queue.is_empty() {
                let changes = watch.next().await?;
                queue.extend(changes.removed.into_iter().map(Queued::Removed));
                queue.extend(changes.added.into_iter().map(Queued::Added));
                queue.extend(changes.modified.into_iter().map(Queued::Modified));
                if !std::mem::replace(&mut is_started, true) {
                    queue.push_back(Queued::InitialSyncComplete);
                }
            }
            // Encoded only when the client reads it.
            let change = queue.pop_front()?.change();
            Some((change, (watch, queue, is_started)))
        })
        .boxed()
    }
}

enum Queued {
    Added(PodWithStatus),
    Modified(PodWithStatus),
    Removed(PodWithStatus),
    InitialSyncComplete,
}

impl Queued {
    fn change(self) -> PodChange {
        match self {
            Self::Added(pod) => PodChange::Added(object(&pod)),
            Self::Modified(pod) => PodChange::Modified(object(&pod)),
            Self::Removed((pod, _)) => {
                let metadata =
                    json!({"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid.as_str()});
                PodChange::Deleted(json!({"metadata": metadata}))
            }
            Self::InitialSyncComplete => PodChange::InitialSyncComplete,
        }
    }
}

/// Serialising to a value fails for no pod: all keys of maps are strings.
fn object((pod, status): &PodWithStatus) -> Value {
    let status = match status {
        Some(status) => status.to_value(),
        None => serde_json::to_value(&pod.status),
    };
    json!({
        "metadata": &pod.metadata,
        "spec": serde_json::to_value(&pod.spec).unwrap_or_default(),
        "status": status.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use k8s_openapi::api::core::v1::PodStatus;
    use model::PodSource;
    use testkit::builders;

    use super::*;
    use crate::pipeline::tables::{Writer, table};

    fn tables() -> (Writer<Pod>, Writer<CachedStatus>, PodTables) {
        let (desired_writer, desired) = table(Vec::new());
        let (status_writer, statuses) = table(Vec::new());
        (desired_writer, status_writer, PodTables { desired, statuses })
    }

    fn pod(uid: &str) -> Arc<Pod> {
        Arc::new(builders::pod(uid, PodSource::Api, json!({"containers": [{"name": "a"}]})))
    }

    fn status(phase: &str) -> Arc<CachedStatus> {
        Arc::new(CachedStatus::of(&PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() }))
    }

    fn uids(changes: &[PodWithStatus]) -> Vec<&str> {
        changes.iter().map(|(pod, _)| pod.uid.as_str()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn watch_starts_with_all_pods_and_then_shows_each_change_once() {
        let (desired, statuses, tables) = tables();
        for uid in ["b", "a"] {
            desired.set(&uid.into(), pod(uid));
        }
        let mut watch = PodWatch::new(tables);
        assert_eq!(uids(&watch.next().await.unwrap().added), ["a", "b"]);
        statuses.set(&"a".into(), status("Pending"));
        statuses.set(&"a".into(), status("Running"));
        desired.remove(&"b".into());
        desired.set(&"c".into(), pod("c"));
        let changes = watch.next().await.unwrap();
        assert_eq!(uids(&changes.modified), ["a"], "two changes of a pod that nobody read are one");
        assert_eq!((uids(&changes.added), uids(&changes.removed)), (vec!["c"], vec!["b"]));
        assert!(watch.next().now_or_never().is_none());
        drop((desired, statuses));
        assert!(watch.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn served_pods_have_their_status_and_end_with_their_names() {
        let (desired, statuses, tables) = tables();
        desired.set(&"a".into(), pod("a"));
        statuses.set(&"a".into(), status("Running"));
        assert_eq!(tables.list()[0]["status"]["phase"], "Running");
        assert_eq!(tables.get("a").unwrap()["metadata"]["uid"], "a");
        assert_eq!(tables.get("b"), None);
        let mut changes = tables.watch();
        let Some(PodChange::Added(added)) = changes.next().await else { panic!("no pod") };
        assert_eq!(added["spec"]["containers"][0]["name"], "a");
        assert_eq!(changes.next().await, Some(PodChange::InitialSyncComplete));
        statuses.set(&"a".into(), status("Failed"));
        let Some(PodChange::Modified(modified)) = changes.next().await else { panic!("no change") };
        assert_eq!(modified["status"]["phase"], "Failed");
        desired.remove(&"a".into());
        let Some(PodChange::Deleted(deleted)) = changes.next().await else { panic!("not deleted") };
        assert_eq!(deleted["metadata"]["uid"], "a");
        assert!(deleted.get("spec").is_none());
    }
}
