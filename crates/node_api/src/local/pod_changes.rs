//! Pods, and their changes while someone watches.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::Response;
use model::{Pod, PodUid};
use serde_json::json;
use tokio::sync::watch;

use super::LocalParts;
use super::events::Question;
use crate::answers::json_lines;
use crate::pods;
use crate::views::Views;
use agent::kept_status::KeptStatus;

/// Changes that come together are told together.
const TOGETHER: Duration = Duration::from_millis(20);

pub(super) async fn pods(State(parts): State<LocalParts>, Query(question): Query<Question>) -> Response {
    if question.watch {
        let changes = [parts.views.desired.changes(), parts.views.statuses.changes()];
        let watch = Watch { views: parts.views, changes, known: HashMap::new(), begun: false };
        return Response::new(Body::from_stream(futures::stream::unfold(watch, Watch::next)));
    }
    pods::list(&parts.views)
}

/// What was told of a pod.
struct Told {
    pod: Arc<Pod>,
    status: Option<Arc<KeptStatus>>,
}

struct Watch {
    views: Views,
    /// Of the tables of pods and of statuses.
    changes: [watch::Receiver<u64>; 2],
    known: HashMap<PodUid, Told>,
    begun: bool,
}

impl Watch {
    /// Waits for changes; the first answer is all there is, with a mark at its end.
    async fn next(mut self) -> Option<(Result<Vec<u8>, serde_json::Error>, Self)> {
        loop {
            let first = !std::mem::replace(&mut self.begun, true);
            if !first && !self.wait().await {
                return None;
            }
            let lines = match self.changes() {
                Ok(lines) => lines,
                Err(error) => return Some((Err(error), self)),
            };
            if first {
                let end = json_lines(&json!({"type": "BOOKMARK", "object": null}));
                return Some((Ok([lines, end.to_vec()].concat()), self));
            }
            if !lines.is_empty() {
                return Some((Ok(lines), self));
            }
        }
    }

    /// Waits until a table changed; false when there will be no more changes.
    async fn wait(&mut self) -> bool {
        let [pods, statuses] = &mut self.changes;
        let changed = tokio::select! {
            changed = pods.changed() => changed,
            changed = statuses.changed() => changed,
        };
        if changed.is_err() {
            return false;
        }
        tokio::time::sleep(TOGETHER).await;
        self.changes.iter_mut().for_each(watch::Receiver::mark_unchanged);
        true
    }

    fn changes(&mut self) -> serde_json::Result<Vec<u8>> {
        let mut lines = Vec::new();
        let wanted = pods::sorted(&self.views);
        let gone: Vec<PodUid> =
            self.known.keys().filter(|uid| !wanted.iter().any(|pod| pod.uid == **uid)).cloned().collect();
        for uid in gone {
            if let Some(told) = self.known.remove(&uid) {
                let object = pods::item(&told.pod, told.status.as_deref())?;
                lines.extend_from_slice(&json_lines(&json!({"type": "DELETED", "object": object})));
            }
        }
        for pod in wanted {
            let status = self.views.statuses.get(&pod.uid);
            let kind = match self.known.get(&pod.uid) {
                Some(told) if Arc::ptr_eq(&told.pod, &pod) && same(&told.status, &status) => continue,
                Some(_) => "MODIFIED",
                None => "ADDED",
            };
            let object = pods::item(&pod, status.as_deref())?;
            lines.extend_from_slice(&json_lines(&json!({"type": kind, "object": object})));
            self.known.insert(pod.uid.clone(), Told { pod, status });
        }
        Ok(lines)
    }
}

fn same(one: &Option<Arc<KeptStatus>>, other: &Option<Arc<KeptStatus>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
