//! Pods, and their changes while someone watches.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::core::v1::PodStatus;
use model::{Pod, PodUid};
use serde_json::json;

use super::LocalParts;
use super::events::Question;
use crate::answers::{json, json_lines};
use crate::pods;
use crate::views::Views;

/// How often the tables are compared while someone watches; nothing is while nobody does.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn pods(State(parts): State<LocalParts>, Query(question): Query<Question>) -> Response {
    if question.watch {
        let watch = Watch { views: parts.views, known: HashMap::new(), begun: false };
        return Response::new(Body::from_stream(futures::stream::unfold(watch, Watch::next)));
    }
    match pods::list(&parts.views) {
        Ok(list) => json(&list),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// What was told of a pod.
struct Told {
    pod: Arc<Pod>,
    status: Option<Arc<PodStatus>>,
}

struct Watch {
    views: Views,
    known: HashMap<PodUid, Told>,
    begun: bool,
}

impl Watch {
    /// Waits for changes; the first answer is all there is, with a mark at its end.
    async fn next(mut self) -> Option<(Result<Vec<u8>, serde_json::Error>, Self)> {
        loop {
            let first = !std::mem::replace(&mut self.begun, true);
            if !first {
                tokio::time::sleep(LOOK).await;
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

fn same(one: &Option<Arc<PodStatus>>, other: &Option<Arc<PodStatus>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
