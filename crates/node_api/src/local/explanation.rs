//! Explains the state of a pod.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use decide::status::explain::{ExplanationInputs, NodeProblems, explain};
use model::local_api::PodExplanation;
use model::{EventSubject, Pod, RecordedEvent};

use super::LocalApiDeps;
use crate::responses::json;

pub(super) async fn explanation(
    State(deps): State<LocalApiDeps>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    match deps.find_pod(&namespace, &name) {
        Some(pod) => json(&explain_pod(&deps, &pod)),
        None => {
            let text = format!("pod {namespace}/{name} not found on this node");
            (StatusCode::NOT_FOUND, text).into_response()
        }
    }
}

fn explain_pod(deps: &LocalApiDeps, pod: &Pod) -> PodExplanation {
    let published = &deps.published;
    let status = published.statuses.status(&pod.uid);
    let observed = deps.observer.last(&pod.uid);
    let worker = deps.workers.get(&pod.uid);
    let timeline = published.timelines.get(&pod.uid);
    let health = deps.health.now();
    let problem = published.sync_loop_problem();
    let events: Vec<RecordedEvent> = published
        .events
        .all()
        .into_iter()
        .map(|series| series.event)
        .filter(|event| matches!(&event.subject, EventSubject::Pod { uid, .. } if *uid == pod.uid))
        .collect();
    let now = deps.clock.now();
    let found = explain(&ExplanationInputs {
        pod,
        status: status.as_ref().unwrap_or(&pod.status),
        observed: observed.as_deref(),
        worker: worker.as_deref(),
        timeline: timeline.as_ref(),
        events: &events,
        next_sync: deps.next_syncs.get(&pod.uid).as_deref().copied(),
        node: NodeProblems {
            runtime: health.runtime_problem.as_deref(),
            network: health.network_problem.as_deref(),
            agent: problem.as_deref(),
        },
        now,
    });
    PodExplanation {
        causes: found.causes,
        namespace: pod.namespace().to_owned(),
        next_try: found.next_try,
        now,
        pod: pod.name().to_owned(),
        sentence: found.sentence,
        uid: pod.uid.to_string(),
        verdict: found.health.as_str().to_owned(),
    }
}
