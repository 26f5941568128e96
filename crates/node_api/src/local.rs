//! The local socket of the commands, and the pages of it that other listeners serve, too. Upstream has none of these
//! paths.
//!
//! ```text
//!  podward get, describe, explain … ─► local socket (root only) ─► local_router ─► one module per document
//!  read-only port ─► routes: manifests, events, timelines
//! ```

mod event_list;
mod events;
mod explanation;
mod node;
mod pod_watch;
mod socket;
mod sources;
mod timeline;

use std::sync::Arc;

use agent::node::runtime_health::RuntimeHealth;
use agent::pipeline::observation::Observer;
use agent::pipeline::source_report::SourceReports;
use agent::pipeline::tables::Reader;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use model::local_api::{AgentVersion, paths};
use model::{Pod, Timestamp, WorkerView};
use ports::clock::Clock;

use crate::container_logs::{self, ContainerLogDeps};
use crate::published_state::PublishedState;
use crate::responses::json;
use crate::streaming::{self, StreamingDeps};

pub use node::LocalNodeDeps;
pub use socket::{LocalSocket, LocalSocketError, starting_router};

#[derive(Clone)]
pub struct LocalApiDeps {
    pub published: PublishedState,
    pub observer: Observer,
    pub workers: Reader<WorkerView>,
    /// When each worker syncs its pod next.
    pub next_syncs: Reader<Timestamp>,
    pub health: RuntimeHealth,
    pub sources: Arc<SourceReports>,
    pub node: LocalNodeDeps,
    pub logs: ContainerLogDeps,
    pub streaming: StreamingDeps,
    pub clock: Arc<dyn Clock>,
}

impl LocalApiDeps {
    fn find_pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let mut pods = self.published.desired.all().into_iter();
        pods.find(|pod| pod.namespace() == namespace && pod.name() == name)
    }
}

/// The router of the local socket.
pub fn local_router(deps: LocalApiDeps) -> Router {
    let own = Router::new()
        .route(paths::PODS, get(pod_watch::pods))
        .route(paths::EVENTS, get(events::events))
        .route(paths::SOURCES, get(sources::sources))
        .route(paths::NODE, get(node::node))
        .route(&of_pod(paths::EXPLAIN), get(explanation::explanation))
        .route(paths::VERSION, get(version))
        .with_state(deps.clone());
    own.merge(shared_routes(deps.published))
        .merge(container_logs::routes(deps.logs))
        .merge(streaming::routes(deps.streaming))
}

/// The pages that the main port and the read-only port serve, too.
pub(crate) fn routes(published: PublishedState) -> Router {
    let events = Router::new().route(paths::EVENTS, get(event_page)).with_state(published.clone());
    shared_routes(published).merge(events)
}

fn shared_routes(published: PublishedState) -> Router {
    Router::new()
        .route(paths::MANIFESTS, get(manifests))
        .route(paths::TIMELINE, get(timeline::timelines))
        .route(&of_pod(paths::TIMELINE), get(timeline::timeline))
        .with_state(published)
}

fn of_pod(path: &str) -> String {
    format!("{path}/{{namespace}}/{{pod}}")
}

async fn manifests(State(published): State<PublishedState>) -> Response {
    json(&*published.manifests.borrow())
}

async fn event_page(State(published): State<PublishedState>) -> Response {
    json(&event_list::event_list(&published.events.all()))
}

async fn version(State(deps): State<LocalApiDeps>) -> Response {
    let profile = &deps.node.profile;
    json(&AgentVersion {
        kubelet: profile.version.clone(),
        node: profile.name.clone(),
        version: deps.node.agent_version.to_owned(),
    })
}
