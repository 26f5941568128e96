//! What upstream has no path for: manifest files and the events kept on the node.

mod event_list;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use crate::answers::json;
use crate::views::Views;

pub(crate) fn routes(views: Views) -> Router {
    Router::new()
        .route("/podward/manifests", get(manifests))
        .route("/podward/events", get(events))
        .with_state(views)
}

async fn manifests(State(views): State<Views>) -> Response {
    json(&*views.manifests.borrow())
}

async fn events(State(views): State<Views>) -> Response {
    json(&event_list::event_list(&views.events.all()))
}
