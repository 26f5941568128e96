//! The sources of pods, and every manifest file.

use agent::source_report::SourceReport;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::LocalParts;
use crate::answers::json;

pub(super) async fn sources(State(parts): State<LocalParts>) -> Response {
    let sources: Vec<Value> = parts.sources.all().iter().map(row).collect();
    json(&json!({"kind": "SourceList", "sources": sources, "files": &*parts.views.manifests.borrow()}))
}

fn row(report: &SourceReport) -> Value {
    json!({
        "source": report.source.as_str(),
        "place": report.place,
        "state": report.state.as_str(),
        "problem": report.problem,
        "pods": report.pods,
        "since": report.since.to_rfc3339(),
    })
}
