//! Which listener has which paths.

use agent::observation::Observer;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;

use crate::about::{self, About};
use crate::access::{Access, guard};
use crate::answers::{method_not_allowed, not_found};
use crate::checkpoint::{self, CheckpointParts};
use crate::debugging::{self, DebugParts};
use crate::profiling::{self, ProfilingParts};
use crate::request_metrics::{Counted, ServerType, count};
use crate::request_spans::{Traces, trace};
use crate::views::Views;
use crate::{check_record, health, local, metrics_pages, pods, running_pods, statistics};

/// No body of a request is longer; streams are not bodies.
const BODY_LIMIT: usize = 1024 * 1024;

/// What the main port needs.
pub struct MainParts {
    /// The agent's tables.
    pub views: Views,
    /// Who may ask.
    pub access: Access,
    /// What the agent says of itself; `None` when debugging is switched off.
    pub about: Option<About>,
    /// Log level and profiles; `None` when debugging is switched off.
    pub profiling: Option<ProfilingParts>,
    /// Checkpoints; `None` with the gate `ContainerCheckpoint` off, or when debugging is switched off.
    pub checkpoints: Option<CheckpointParts>,
    /// What the runtime runs; `None` when debugging is switched off.
    pub running: Option<Observer>,
    /// What looks into pods; `None` when debugging is switched off.
    pub debug: Option<DebugParts>,
}

/// The router of the local health check.
pub fn health_router(views: Views) -> Router {
    health::ping_routes(views).fallback(not_found)
}

/// The router of the main port. Every request passes authentication and authorization first, also those for paths
/// that do not exist.
pub fn main_router(parts: MainParts) -> Router {
    let MainParts { views, access, about, profiling, checkpoints, running, debug } = parts;
    let counted = Counted { metrics: views.metrics.clone(), server: ServerType::ReadWrite };
    let router = Router::new()
        .merge(health::routes(views.clone()))
        .merge(pods::routes(views.clone()))
        .merge(check_record::routes(views.clone()))
        .merge(statistics::routes(views.statistics.clone()))
        .merge(metrics_pages::routes(views.clone()))
        .merge(local::routes(views))
        .merge(about.map_or_else(Router::new, about::routes))
        .merge(profiling.map_or_else(profiling::disabled_routes, profiling::routes))
        .merge(checkpoints.map_or_else(Router::new, checkpoint::routes))
        .merge(running.map_or_else(running_pods::disabled_routes, running_pods::routes))
        .merge(debug.map_or_else(debugging::disabled_routes, debugging::routes));
    finished(router)
        .layer(from_fn_with_state(Traces::Continued, trace))
        .layer(from_fn_with_state(access, guard))
        .layer(from_fn_with_state(counted, count))
}

/// The router of the read-only port.
pub fn read_only_router(views: Views) -> Router {
    let counted = Counted { metrics: views.metrics.clone(), server: ServerType::ReadOnly };
    let router = Router::new()
        .merge(health::routes(views.clone()))
        .merge(pods::routes(views.clone()))
        .merge(check_record::routes(views.clone()))
        .merge(statistics::routes(views.statistics.clone()))
        .merge(metrics_pages::routes(views.clone()))
        .merge(local::routes(views))
        .merge(running_pods::disabled_routes())
        .merge(debugging::disabled_routes())
        .merge(profiling::disabled_routes());
    finished(router).layer(from_fn_with_state(Traces::Own, trace)).layer(from_fn_with_state(counted, count))
}

/// What all paths have in common.
fn finished(router: Router) -> Router {
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
}
