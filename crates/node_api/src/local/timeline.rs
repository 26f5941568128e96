//! How pods came to run.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use model::{PodTimeline, StepRecord, StepSpan};
use serde_json::{Value, json};

use crate::answers::json;
use crate::views::Views;

pub(super) async fn timelines(State(views): State<Views>) -> Response {
    let items: Vec<Value> = views.timelines.all().iter().map(item).collect();
    json(&json!({"kind": "TimelineList", "items": items}))
}

pub(super) async fn timeline(
    State(views): State<Views>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let all = views.timelines.all();
    let found =
        all.iter().rev().find(|pod| pod.full_name.namespace == namespace && pod.full_name.name == name);
    match found {
        Some(found) => json(&item(found)),
        None => {
            (StatusCode::NOT_FOUND, format!("there is no timeline of pod {namespace}/{name}")).into_response()
        }
    }
}

fn item(timeline: &PodTimeline) -> Value {
    let steps: Vec<Value> = timeline.steps.iter().map(step).collect();
    json!({
        "namespace": timeline.full_name.namespace,
        "pod": timeline.full_name.name,
        "uid": timeline.uid.as_str(),
        "seenAt": timeline.seen_at.to_rfc3339(),
        "acceptedAt": timeline.accepted_at.to_rfc3339(),
        "readyAt": timeline.ready_at.map(model::Timestamp::to_rfc3339),
        "ranBefore": timeline.adopted,
        "steps": steps,
    })
}

fn step(row: &StepRecord) -> Value {
    let mut value = span(row.first);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("step".to_owned(), json!(row.step.as_str()));
        fields.insert("count".to_owned(), json!(row.count));
        if let Some(container) = &row.container {
            fields.insert("container".to_owned(), json!(container));
        }
        if let Some(last) = row.last {
            fields.insert("last".to_owned(), span(last));
        }
    }
    value
}

fn span(span: StepSpan) -> Value {
    let took = span.finished_at.map(|end| end.since(span.started_at).as_secs_f64() * 1000.0);
    json!({
        "startedAt": span.started_at.to_rfc3339(),
        "finishedAt": span.finished_at.map(model::Timestamp::to_rfc3339),
        "milliseconds": took,
        "succeeded": span.succeeded,
    })
}
