//! What upstream has no path for: manifest files and the events kept on the node.

mod event_list;

use axum::extract::State;
use axum::response::Response;

use crate::answers::json;
use crate::views::Views;

pub(crate) async fn manifests(State(views): State<Views>) -> Response {
    json(&*views.manifests.borrow())
}

pub(crate) async fn events(State(views): State<Views>) -> Response {
    json(&event_list::event_list(&views.events.all()))
}
