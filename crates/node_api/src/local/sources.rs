//! The sources of pods, and every manifest file.

use axum::extract::State;
use axum::response::Response;
use model::local_api::SourceList;

use super::LocalApiDeps;
use crate::responses::json;

pub(super) async fn sources(State(deps): State<LocalApiDeps>) -> Response {
    let files = deps.published.manifests.borrow().clone();
    json(&SourceList { files, sources: deps.sources.all() })
}
