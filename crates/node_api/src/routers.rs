//! The paths of each listener.

use agent::pipeline::observation::Observer;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;

use crate::access::{Access, guard};
use crate::checkpoint::{self, CheckpointDeps};
use crate::debugging::{self, DebugDeps};
use crate::profiling::{self, ProfilingDeps};
use crate::published_state::PublishedState;
use crate::request_metrics::{RequestCounter, ServerType, count};
use crate::request_spans::{TraceParent, trace};
use crate::responses::{method_not_allowed, not_found};
use crate::zpages::{self, ZPagesDeps};
use crate::{health, health_check_metrics, local, metrics_pages, pods, running_pods, statistics};

/// The largest request body. Streams are not bodies.
const MAX_BODY: usize = 1024 * 1024;

/// The optional parts are `None` when `enableDebuggingHandlers` is false.
pub struct MainRouterDeps {
    pub published: PublishedState,
    pub access: Access,
    pub zpages: Option<ZPagesDeps>,
    pub profiling: Option<ProfilingDeps>,
    /// Also `None` when the gate `ContainerCheckpoint` is off.
    pub checkpoints: Option<CheckpointDeps>,
    /// For `/runningpods/`.
    pub running: Option<Observer>,
    pub debug: Option<DebugDeps>,
}

pub fn health_router(published: PublishedState) -> Router {
    health::ping_routes(published).fallback(not_found)
}

/// The router of the main port. Every request passes authentication and authorization first, also those for paths
/// that do not exist.
pub fn main_router(deps: MainRouterDeps) -> Router {
    let MainRouterDeps { published, access, zpages, profiling, checkpoints, running, debug } = deps;
    let counter = RequestCounter { metrics: published.metrics.clone(), server: ServerType::ReadWrite };
    let router = read_routes(published)
        .merge(zpages.map_or_else(Router::new, zpages::routes))
        .merge(profiling.map_or_else(profiling::disabled_routes, profiling::routes))
        .merge(checkpoints.map_or_else(Router::new, checkpoint::routes))
        .merge(running.map_or_else(running_pods::disabled_routes, running_pods::routes))
        .merge(debug.map_or_else(debugging::disabled_routes, debugging::routes));
    with_fallbacks(router)
        .layer(from_fn_with_state(TraceParent::FromRequest, trace))
        .layer(from_fn_with_state(access, guard))
        .layer(from_fn_with_state(counter, count))
}

pub fn read_only_router(published: PublishedState) -> Router {
    let counter = RequestCounter { metrics: published.metrics.clone(), server: ServerType::ReadOnly };
    let router = read_routes(published)
        .merge(running_pods::disabled_routes())
        .merge(debugging::disabled_routes())
        .merge(profiling::disabled_routes());
    with_fallbacks(router)
        .layer(from_fn_with_state(TraceParent::None, trace))
        .layer(from_fn_with_state(counter, count))
}

/// The paths that the main port and the read-only port share.
fn read_routes(published: PublishedState) -> Router {
    Router::new()
        .merge(health::routes(published.clone()))
        .merge(pods::routes(published.clone()))
        .merge(health_check_metrics::routes(published.clone()))
        .merge(statistics::routes(published.statistics.clone()))
        .merge(metrics_pages::routes(published.clone()))
        .merge(local::routes(published))
}

fn with_fallbacks(router: Router) -> Router {
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
}
