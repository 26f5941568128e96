//! Why a pod is as it is.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use decide::explain::{NodeProblems, Situation, explain};
use model::{EventSubject, Pod, RecordedEvent};
use serde_json::{Value, json};

use super::LocalParts;
use crate::answers::json;

pub(super) async fn explanation(
    State(parts): State<LocalParts>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    match parts.pod(&namespace, &name) {
        Some(pod) => json(&explained(&parts, &pod)),
        None => {
            let text = format!("pod {namespace}/{name} is not known to this node");
            (StatusCode::NOT_FOUND, text).into_response()
        }
    }
}

fn explained(parts: &LocalParts, pod: &Pod) -> Value {
    let views = &parts.views;
    let status = views.statuses.status(&pod.uid);
    let observed = parts.observer.last(&pod.uid);
    let worker = parts.workers.get(&pod.uid);
    let timeline = views.timelines.get(&pod.uid);
    let health = parts.health.now();
    let problem = views.loop_problem();
    let events: Vec<RecordedEvent> = views
        .events
        .all()
        .into_iter()
        .map(|series| series.event)
        .filter(|event| matches!(&event.subject, EventSubject::Pod { uid, .. } if *uid == pod.uid))
        .collect();
    let now = parts.clock.now();
    let found = explain(&Situation {
        pod,
        status: status.as_ref().unwrap_or(&pod.status),
        observed: observed.as_deref(),
        worker: worker.as_deref(),
        timeline: timeline.as_ref(),
        events: &events,
        next_pass: parts.next_passes.get(&pod.uid).as_deref().copied(),
        node: NodeProblems {
            runtime: health.runtime_problem.as_deref(),
            network: health.network_problem.as_deref(),
            agent: problem.as_deref(),
        },
        now,
    });
    json!({
        "namespace": pod.namespace(),
        "pod": pod.name(),
        "uid": pod.uid.as_str(),
        "verdict": found.verdict.as_str(),
        "sentence": found.sentence,
        "causes": found.causes,
        "nextTry": found.next_try.map(model::Timestamp::to_rfc3339),
        "now": now.to_rfc3339(),
    })
}
