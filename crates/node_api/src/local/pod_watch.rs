//! Pods, as a list or as a watch.

use agent::node::pod_watch::{PodChanges, PodTables, PodWatch};
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::Response;
use model::local_api::{WatchEvent, WatchEventKind};
use serde_json::Value;

use super::LocalApiDeps;
use super::events::WatchQuery;
use crate::pods;
use crate::responses::json_line;

pub(super) async fn pods(State(deps): State<LocalApiDeps>, Query(query): Query<WatchQuery>) -> Response {
    if query.watch {
        let tables = PodTables { desired: deps.published.desired, statuses: deps.published.statuses };
        let start = (PodWatch::new(tables), false);
        // The first result is the whole list followed by a bookmark; later results are changes.
        let lines = futures::stream::unfold(start, |(mut watch, is_started)| async move {
            let changes = watch.next().await?;
            let lines = lines(changes).and_then(|mut lines| {
                if !is_started {
                    add_line(&mut lines, WatchEventKind::Bookmark, None)?;
                }
                Ok(lines)
            });
            Some((lines, (watch, true)))
        });
        return Response::new(Body::from_stream(lines));
    }
    pods::list(&deps.published)
}

fn lines(changes: PodChanges) -> serde_json::Result<Vec<u8>> {
    let PodChanges { removed, mut added, modified } = changes;
    added.sort_by(|(one, _), (other, _)| one.full_name.cmp(&other.full_name));
    let mut lines = Vec::new();
    let kinds = [
        (WatchEventKind::Deleted, removed),
        (WatchEventKind::Added, added),
        (WatchEventKind::Modified, modified),
    ];
    for (kind, changed) in kinds {
        for (pod, status) in changed {
            add_line(&mut lines, kind, Some(pods::item(&pod, status.as_deref())?))?;
        }
    }
    Ok(lines)
}

fn add_line(lines: &mut Vec<u8>, kind: WatchEventKind, object: Option<Value>) -> serde_json::Result<()> {
    lines.extend_from_slice(&json_line(&WatchEvent { object, kind })?);
    Ok(())
}
