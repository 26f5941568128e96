//! The timelines of pod starts.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use model::local_api::{Timeline, TimelineList, TimelineSpan, TimelineStep};
use model::{PodTimeline, StepRecord, StepSpan};

use crate::published_state::PublishedState;
use crate::responses::json;

pub(super) async fn timelines(State(published): State<PublishedState>) -> Response {
    json(&TimelineList { items: published.timelines.all().iter().map(document).collect() })
}

pub(super) async fn timeline(
    State(published): State<PublishedState>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let all = published.timelines.all();
    let found =
        all.iter().rev().find(|pod| pod.full_name.namespace == namespace && pod.full_name.name == name);
    match found {
        Some(found) => json(&document(found)),
        None => {
            (StatusCode::NOT_FOUND, format!("there is no timeline of pod {namespace}/{name}")).into_response()
        }
    }
}

fn document(timeline: &PodTimeline) -> Timeline {
    Timeline {
        accepted_at: timeline.accepted_at,
        namespace: timeline.full_name.namespace.clone(),
        pod: timeline.full_name.name.clone(),
        ran_before: timeline.adopted,
        ready_at: timeline.ready_at,
        seen_at: timeline.seen_at,
        steps: timeline.steps.iter().map(step).collect(),
        uid: timeline.uid.to_string(),
    }
}

fn step(record: &StepRecord) -> TimelineStep {
    let TimelineSpan { finished_at, milliseconds, started_at, succeeded } = span(record.first);
    TimelineStep {
        container: record.container.as_deref().map(str::to_owned),
        count: record.count,
        finished_at,
        last: record.last.map(span),
        milliseconds,
        started_at,
        step: record.step,
        succeeded,
    }
}

fn span(span: StepSpan) -> TimelineSpan {
    TimelineSpan {
        finished_at: span.finished_at,
        milliseconds: span.finished_at.map(|end| end.since(span.started_at).as_secs_f64() * 1000.0),
        started_at: span.started_at,
        succeeded: span.succeeded,
    }
}
