//! Events, and those that happen while someone watches.

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::Response;
use bytes::Bytes;
use serde_json::json;

use super::{LocalParts, event_list};
use crate::answers::{json, json_lines};

/// What may be asked.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Question {
    /// Stay and tell what happens.
    pub(super) watch: bool,
}

pub(super) async fn events(State(parts): State<LocalParts>, Query(question): Query<Question>) -> Response {
    if !question.watch {
        return json(&event_list::event_list(&parts.views.events.all()));
    }
    let log = parts.views.events;
    let newest = log.follow();
    let stream = futures::stream::unfold((log, newest, 0_u64), async |(log, mut newest, told)| {
        loop {
            newest.borrow_and_update();
            let news: Vec<_> = log.all().into_iter().filter(|series| series.sequence > told).collect();
            if let Some(last) = news.last().map(|series| series.sequence) {
                let lines: Vec<Bytes> = news
                    .iter()
                    .map(|series| {
                        let kind = if series.count > 1 { "MODIFIED" } else { "ADDED" };
                        json_lines(&json!({"type": kind, "object": event_list::item(series)}))
                    })
                    .collect();
                return Some((Ok::<_, std::convert::Infallible>(lines.concat()), (log, newest, last)));
            }
            newest.changed().await.ok()?;
        }
    });
    Response::new(Body::from_stream(stream))
}
