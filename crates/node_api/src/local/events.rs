//! Events, as a list or as a watch.

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::Response;
use bytes::Bytes;
use model::local_api::{WatchEvent, WatchEventKind};

use super::{LocalApiDeps, event_list};
use crate::responses::{json, json_line};

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct WatchQuery {
    /// Keep the connection open and send changes.
    pub(super) watch: bool,
}

pub(super) async fn events(State(deps): State<LocalApiDeps>, Query(query): Query<WatchQuery>) -> Response {
    if !query.watch {
        return json(&event_list::event_list(&deps.published.events.all()));
    }
    let log = deps.published.events;
    let changes = log.subscribe();
    let stream = futures::stream::unfold((log, changes, 0_u64), async |(log, mut changes, sent)| {
        loop {
            changes.borrow_and_update();
            let new: Vec<_> = log.all().into_iter().filter(|series| series.sequence > sent).collect();
            if let Some(last) = new.last().map(|series| series.sequence) {
                let lines = new.iter().map(|series| {
                    let kind =
                        if series.count > 1 { WatchEventKind::Modified } else { WatchEventKind::Added };
                    json_line(&WatchEvent { object: Some(event_list::item(series)), kind })
                });
                let lines = lines.collect::<serde_json::Result<Vec<Bytes>>>().map(|lines| lines.concat());
                return Some((lines, (log, changes, last)));
            }
            changes.changed().await.ok()?;
        }
    });
    Response::new(Body::from_stream(stream))
}
