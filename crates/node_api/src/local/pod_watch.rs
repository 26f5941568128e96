//! Pods, as a list or as a watch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent::pipeline::cached_status::CachedStatus;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::Response;
use model::local_api::{WatchEvent, WatchEventKind};
use model::{Pod, PodUid};
use serde_json::Value;
use tokio::sync::watch;

use super::LocalApiDeps;
use super::events::WatchQuery;
use crate::pods;
use crate::published_state::PublishedState;
use crate::responses::json_line;

/// Changes within this time are sent together.
const DEBOUNCE: Duration = Duration::from_millis(20);

pub(super) async fn pods(State(deps): State<LocalApiDeps>, Query(query): Query<WatchQuery>) -> Response {
    if query.watch {
        let changes = [deps.published.desired.changes(), deps.published.statuses.changes()];
        let watch = PodWatch { published: deps.published, changes, sent: HashMap::new(), is_started: false };
        return Response::new(Body::from_stream(futures::stream::unfold(watch, PodWatch::next)));
    }
    pods::list(&deps.published)
}

/// A pod as it was last sent to the client.
struct SentPod {
    pod: Arc<Pod>,
    status: Option<Arc<CachedStatus>>,
}

struct PodWatch {
    published: PublishedState,
    /// Of the tables of pods and of statuses.
    changes: [watch::Receiver<u64>; 2],
    sent: HashMap<PodUid, SentPod>,
    is_started: bool,
}

impl PodWatch {
    /// The first result is the whole list followed by a bookmark; later results are changes.
    async fn next(mut self) -> Option<(Result<Vec<u8>, serde_json::Error>, Self)> {
        loop {
            let is_first = !std::mem::replace(&mut self.is_started, true);
            if !is_first && !self.wait_for_change().await {
                return None;
            }
            let mut lines = match self.take_changes() {
                Ok(lines) => lines,
                Err(error) => return Some((Err(error), self)),
            };
            if is_first && let Err(error) = add_line(&mut lines, WatchEventKind::Bookmark, None) {
                return Some((Err(error), self));
            }
            if !lines.is_empty() {
                return Some((Ok(lines), self));
            }
        }
    }

    /// Returns false when there will be no more changes.
    async fn wait_for_change(&mut self) -> bool {
        let [pods, statuses] = &mut self.changes;
        let changed = tokio::select! {
            changed = pods.changed() => changed,
            changed = statuses.changed() => changed,
        };
        if changed.is_err() {
            return false;
        }
        tokio::time::sleep(DEBOUNCE).await;
        self.changes.iter_mut().for_each(watch::Receiver::mark_unchanged);
        true
    }

    fn take_changes(&mut self) -> serde_json::Result<Vec<u8>> {
        let mut lines = Vec::new();
        let desired = pods::sorted(&self.published);
        let removed: Vec<PodUid> =
            self.sent.keys().filter(|uid| !desired.iter().any(|pod| pod.uid == **uid)).cloned().collect();
        for uid in removed {
            if let Some(last) = self.sent.remove(&uid) {
                let object = pods::item(&last.pod, last.status.as_deref())?;
                add_line(&mut lines, WatchEventKind::Deleted, Some(object))?;
            }
        }
        for pod in desired {
            let status = self.published.statuses.get(&pod.uid);
            let kind = match self.sent.get(&pod.uid) {
                Some(last) if Arc::ptr_eq(&last.pod, &pod) && is_same(&last.status, &status) => continue,
                Some(_) => WatchEventKind::Modified,
                None => WatchEventKind::Added,
            };
            add_line(&mut lines, kind, Some(pods::item(&pod, status.as_deref())?))?;
            self.sent.insert(pod.uid.clone(), SentPod { pod, status });
        }
        Ok(lines)
    }
}

fn add_line(lines: &mut Vec<u8>, kind: WatchEventKind, object: Option<Value>) -> serde_json::Result<()> {
    lines.extend_from_slice(&json_line(&WatchEvent { object, kind })?);
    Ok(())
}

fn is_same(one: &Option<Arc<CachedStatus>>, other: &Option<Arc<CachedStatus>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
