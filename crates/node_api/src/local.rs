//! What upstream has no path for: the local socket of the commands, and the pages that other listeners show of it.
//!
//! ```text
//!  podward get, describe, explain … ─► local socket (root only) ─► local_router ─► one module per question
//!  read-only port ─► routes: manifests, events, timelines
//! ```

mod event_list;
mod events;
mod explanation;
mod node;
mod pod_changes;
mod socket;
mod source_list;
mod timeline;

use std::sync::Arc;

use agent::observation::Observer;
use agent::published::Reader;
use agent::runtime_health::RuntimeHealth;
use agent::source_report::SourceReports;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use model::{Pod, Timestamp, WorkerView};
use ports::clock::Clock;
use serde_json::json;

use crate::answers::json;
use crate::container_logs::{self, LogParts};
use crate::streaming::{self, StreamingParts};
use crate::views::Views;

pub use node::LocalNode;
pub use socket::{LocalSocket, LocalSocketError, starting_router};

/// What the local socket needs.
#[derive(Clone)]
pub struct LocalParts {
    /// The agent's tables.
    pub views: Views,
    /// What the runtime holds.
    pub observer: Observer,
    /// How far workers are.
    pub workers: Reader<WorkerView>,
    /// When workers look at their pods again.
    pub next_passes: Reader<Timestamp>,
    /// Whether the runtime is ready.
    pub health: RuntimeHealth,
    /// How the sources are.
    pub sources: Arc<SourceReports>,
    /// The node.
    pub node: LocalNode,
    /// Logs of containers.
    pub logs: LogParts,
    /// Streams to what runs.
    pub streaming: StreamingParts,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl LocalParts {
    /// The pod of that namespace and name.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let mut pods = self.views.desired.all().into_iter();
        pods.find(|pod| pod.namespace() == namespace && pod.name() == name)
    }
}

/// The router of the local socket.
pub fn local_router(parts: LocalParts) -> Router {
    let own = Router::new()
        .route("/pods", get(pod_changes::pods))
        .route("/podward/events", get(events::events))
        .route("/podward/sources", get(source_list::sources))
        .route("/podward/node", get(node::node))
        .route("/podward/explain/{namespace}/{pod}", get(explanation::explanation))
        .route("/podward/version", get(version))
        .with_state(parts.clone());
    let views = parts.views;
    let shared = Router::new()
        .route("/podward/manifests", get(manifests))
        .route("/podward/timeline", get(timeline::timelines))
        .route("/podward/timeline/{namespace}/{pod}", get(timeline::timeline))
        .with_state(views);
    own.merge(shared).merge(container_logs::routes(parts.logs)).merge(streaming::routes(parts.streaming))
}

/// What the read-only port shows of it.
pub(crate) fn routes(views: Views) -> Router {
    Router::new()
        .route("/podward/manifests", get(manifests))
        .route("/podward/events", get(event_page))
        .route("/podward/timeline", get(timeline::timelines))
        .route("/podward/timeline/{namespace}/{pod}", get(timeline::timeline))
        .with_state(views)
}

async fn manifests(State(views): State<Views>) -> Response {
    json(&*views.manifests.borrow())
}

async fn event_page(State(views): State<Views>) -> Response {
    json(&event_list::event_list(&views.events.all()))
}

async fn version(State(parts): State<LocalParts>) -> Response {
    let profile = &parts.node.profile;
    json(&json!({"version": env!("CARGO_PKG_VERSION"), "kubelet": profile.version, "node": profile.name}))
}
