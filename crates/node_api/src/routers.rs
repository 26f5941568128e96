//! Which listener has which paths.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;

use crate::access::{Access, guard};
use crate::request_metrics::{Counted, count};
use crate::views::Views;
use crate::{health, local, metrics_pages, pods};

/// No body of a request is longer; streams are not bodies.
const BODY_LIMIT: usize = 1024 * 1024;

/// What the main port needs.
pub struct MainParts {
    /// The agent's tables.
    pub views: Views,
    /// Who may ask.
    pub access: Access,
}

/// The router of the local health check.
pub fn health_router() -> Router {
    health::ping_routes()
}

/// The router of the main port. Every request passes authentication and authorization first, also those for paths
/// that do not exist.
pub fn main_router(parts: MainParts) -> Router {
    let MainParts { views, access } = parts;
    let counted = Counted { metrics: views.metrics.clone(), server: "readwrite" };
    Router::new()
        .merge(health::routes(views.clone()))
        .merge(pods::routes(views.clone()))
        .merge(metrics_pages::routes(views.clone()))
        .merge(local::routes(views))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(from_fn_with_state(access, guard))
        .layer(from_fn_with_state(counted, count))
}

/// The router of the read-only port.
pub fn read_only_router(views: Views) -> Router {
    let counted = Counted { metrics: views.metrics.clone(), server: "readonly" };
    Router::new()
        .merge(health::routes(views.clone()))
        .merge(pods::routes(views.clone()))
        .merge(metrics_pages::routes(views.clone()))
        .merge(local::routes(views))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(from_fn_with_state(counted, count))
}
