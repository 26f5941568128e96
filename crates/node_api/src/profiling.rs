//! `/debug`: the log level, and profiles.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use ports::log_level::LogLevel;

use crate::answers::{DEBUGGING_DISABLED, disabled};

/// What may be debugged.
#[derive(Clone)]
pub struct ProfilingParts {
    /// `enableDebugFlagsHandler`: what sets the log level.
    pub log_level: Option<Arc<dyn LogLevel>>,
    /// `enableProfilingHandler`.
    pub profiles: bool,
    /// The command line, for profilers.
    pub command: Arc<[String]>,
}

pub(crate) fn routes(parts: ProfilingParts) -> Router {
    let flags = match parts.log_level.clone() {
        Some(level) => Router::new().route("/debug/flags/v", any(verbosity)).with_state(level),
        None => Router::new().route("/debug/flags/v", any(async || disabled("flags endpoint is disabled."))),
    };
    let profiles = if parts.profiles {
        Router::new()
            .route("/debug/pprof/cmdline", get(command))
            .route("/debug/pprof/symbol", any(async || "num_symbols: 0\n"))
            .route("/debug/pprof/{name}", any(profile))
            .with_state(parts)
    } else {
        let off = async || disabled("profiling endpoint is disabled.");
        Router::new().route("/debug/pprof/", any(off)).route("/debug/pprof/{*rest}", any(off))
    };
    flags.merge(profiles)
}

/// Profiles where nothing of the kind is served.
pub(crate) fn disabled_routes() -> Router {
    let off = async || disabled(DEBUGGING_DISABLED);
    Router::new().route("/debug/pprof/", any(off)).route("/debug/pprof/{*rest}", any(off))
}

async fn verbosity(State(level): State<Arc<dyn LogLevel>>, method: Method, body: String) -> Response {
    if method != Method::PUT {
        return (StatusCode::NOT_ACCEPTABLE, "unsupported http method\n").into_response();
    }
    let Ok(wanted) = body.trim().parse::<u32>() else {
        let text = format!("{:?} is no level: PUT a number as --v takes it\n", body.trim());
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    match level.set(wanted) {
        Ok(()) => {
            tracing::info!(verbosity = wanted, "the log level was changed");
            format!("successfully set klog.logging.verbosity to {wanted}\n").into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

async fn command(State(parts): State<ProfilingParts>) -> String {
    parts.command.join("\0")
}

/// Go's profiles have no counterpart here; tools of the system see more.
async fn profile(Path(name): Path<String>) -> Response {
    let known = ["profile", "trace", "heap", "goroutine", "allocs", "block", "mutex", "threadcreate"];
    if !known.contains(&name.as_str()) {
        return (StatusCode::NOT_FOUND, "Unknown profile\n").into_response();
    }
    let text = format!(
        "podward has no {name} profile of the Go runtime; use `perf record -g -p PID` for processor time\n"
    );
    (StatusCode::NOT_IMPLEMENTED, text).into_response()
}
