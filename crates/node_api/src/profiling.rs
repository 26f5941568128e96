//! `/debug`: the log level and profiles.

mod encoding;
mod memory;
mod pages;
#[cfg(feature = "profiler")]
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
use ports::host::profiler::Profiler;
use ports::telemetry::log_level::LogLevel;

use crate::responses::{DEBUGGING_DISABLED, disabled};

#[derive(Clone)]
pub struct ProfilingDeps {
    /// `None` unless `enableDebugFlagsHandler` is set.
    pub log_level: Option<Arc<dyn LogLevel>>,
    /// `None` unless `enableProfilingHandler` is set.
    pub profiles: Option<Arc<dyn Profiler>>,
    /// The command line of this process.
    pub command: Arc<[String]>,
    pub clock: Arc<dyn Clock>,
}

pub(crate) fn routes(deps: ProfilingDeps) -> Router {
    let flags = match deps.log_level {
        Some(level) => Router::new().route("/debug/flags/v", any(verbosity)).with_state(level),
        None => Router::new().route("/debug/flags/v", any(async || disabled("flags endpoint is disabled."))),
    };
    let profiles = match deps.profiles {
        Some(profiler) => {
            profiles::routes(profiles::Profiles { profiler, command: deps.command, clock: deps.clock })
        }
        None => switched_off("profiling endpoint is disabled."),
    };
    flags.merge(profiles)
}

/// The paths of profiles when debugging is switched off.
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
    let Ok(verbosity) = body.trim().parse::<u32>() else {
        let text = format!("{:?} is not a log level: PUT a number, as for --v\n", body.trim());
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    match level.set(verbosity) {
        Ok(()) => {
            tracing::info!(verbosity, "changed log level");
            format!("successfully set klog.logging.verbosity to {verbosity}\n").into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests;
