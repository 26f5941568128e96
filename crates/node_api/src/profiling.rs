//! `/debug`: the log level, and profiles.

mod encoding;
mod memory;
mod pages;
mod processor;
mod profiles;
mod threads;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use ports::clock::Clock;
use ports::log_level::LogLevel;
use ports::profiler::Profiler;

use crate::answers::{DEBUGGING_DISABLED, disabled};

/// What may be debugged.
#[derive(Clone)]
pub struct ProfilingParts {
    /// `enableDebugFlagsHandler`: what sets the log level.
    pub log_level: Option<Arc<dyn LogLevel>>,
    /// `enableProfilingHandler`: who looks at this process.
    pub profiles: Option<Arc<dyn Profiler>>,
    /// The command line, for profilers.
    pub command: Arc<[String]>,
    /// Tells when a profile was taken.
    pub clock: Arc<dyn Clock>,
}

pub(crate) fn routes(parts: ProfilingParts) -> Router {
    let flags = match parts.log_level {
        Some(level) => Router::new().route("/debug/flags/v", any(verbosity)).with_state(level),
        None => Router::new().route("/debug/flags/v", any(async || disabled("flags endpoint is disabled."))),
    };
    let profiles = match parts.profiles {
        Some(profiler) => {
            profiles::routes(profiles::Profiles { profiler, command: parts.command, clock: parts.clock })
        }
        None => switched_off("profiling endpoint is disabled."),
    };
    flags.merge(profiles)
}

/// Profiles where nothing of the kind is served.
pub(crate) fn disabled_routes() -> Router {
    switched_off(DEBUGGING_DISABLED)
}

fn switched_off(text: &'static str) -> Router {
    let off = async move || disabled(text);
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

#[cfg(test)]
mod tests;
