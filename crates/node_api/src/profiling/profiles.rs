//! The responses below `/debug/pprof/`, compatible with Go's.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use ports::clock::Clock;
use ports::host::profiler::Profiler;
use tokio::runtime::Handle;

use super::encoding::{encode, proto};
use super::memory;
use super::pages::{self, Page};
#[cfg(feature = "profiler")]
use super::processor;
use super::threads::{self, Detail, RuntimeFacts};
use crate::queries;

#[derive(Clone)]
pub(super) struct Profiles {
    pub(super) profiler: Arc<dyn Profiler>,
    pub(super) command: Arc<[String]>,
    pub(super) clock: Arc<dyn Clock>,
}

pub(super) fn routes(profiles: Profiles) -> Router {
    Router::new()
        .route("/debug/pprof/", get(index))
        .route("/debug/pprof/cmdline", get(command))
        // The profiles contain the symbol names.
        .route("/debug/pprof/symbol", any(async || "num_symbols: 0\n"))
        .route("/debug/pprof/{*path}", get(named))
        .with_state(profiles)
}

async fn command(State(profiles): State<Profiles>) -> String {
    profiles.command.join("\0")
}

async fn index(State(profiles): State<Profiles>) -> Response {
    let tasks = Handle::current().metrics().num_alive_tasks();
    match run_blocking(move || profiles.profiler.threads()).await {
        Ok(threads) => {
            let page = pages::index(threads.len(), tasks);
            ([(header::CONTENT_TYPE, "text/html; charset=utf-8"), SNIFF], page).into_response()
        }
        Err(error) => read_error(&error),
    }
}

async fn named(
    State(profiles): State<Profiles>,
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = queries::pairs(query.as_deref());
    let debug = queries::first(&query, "debug").and_then(|level| level.parse::<i64>().ok()).unwrap_or(0);
    // Like upstream, ignores the path before the name.
    let name = path.rsplit('/').next().unwrap_or_default();
    match pages::page(name) {
        #[cfg(feature = "profiler")]
        Some(Page::Processor) => processor::page(profiles, queries::first(&query, "seconds")).await,
        Some(Page::Threads(name)) => thread_page(profiles, name, debug).await,
        Some(Page::Memory(name)) => memory_page(profiles, name, debug).await,
        Some(Page::Missing(name, reason)) => {
            error_response(StatusCode::NOT_IMPLEMENTED, &format!("podward has no {name} profile: {reason}"))
        }
        None => error_response(StatusCode::NOT_FOUND, "Unknown profile"),
    }
}

async fn thread_page(profiles: Profiles, name: &'static str, debug: i64) -> Response {
    let runtime = RuntimeFacts::new(&Handle::current().metrics());
    let (profiler, now) = (profiles.profiler, profiles.clock.now());
    let threads = match run_blocking(move || profiler.threads()).await {
        Ok(threads) => threads,
        Err(error) => return read_error(&error),
    };
    match debug {
        0 => protobuf(name, move || threads::profile(name, now, &threads, runtime)).await,
        1 => text(threads::text(name, Detail::Grouped, &threads, runtime)),
        _ => text(threads::text(name, Detail::Each, &threads, runtime)),
    }
}

async fn memory_page(profiles: Profiles, name: &'static str, debug: i64) -> Response {
    if debug == 0 {
        let reason = memory::NO_PROFILE;
        let text = format!("podward has no {name} profile: {reason}; use {name}?debug=1 for sums");
        return error_response(StatusCode::NOT_IMPLEMENTED, &text);
    }
    match run_blocking(move || profiles.profiler.memory()).await {
        Ok(facts) => text(memory::text(name, &facts)),
        Err(error) => read_error(&error),
    }
}

/// Go sends this header, too.
const SNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
const TEXT: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; charset=utf-8");

fn text(body: String) -> Response {
    ([TEXT, SNIFF], body).into_response()
}

/// An error with the header that makes `go tool pprof` print the text.
pub(super) fn error_response(status: StatusCode, text: &str) -> Response {
    let mark = (HeaderName::from_static("x-go-pprof"), "1");
    (status, [TEXT, SNIFF, mark], format!("{text}\n")).into_response()
}

fn read_error(error: &io::Error) -> Response {
    error_response(StatusCode::INTERNAL_SERVER_ERROR, &format!("failed to read /proc/self: {error}"))
}

/// A profile as a file for pprof.
pub(super) async fn protobuf(
    name: &str,
    profile: impl FnOnce() -> proto::Profile + Send + 'static,
) -> Response {
    match run_blocking(move || encode(&profile())).await {
        Ok(body) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
                (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
                (SNIFF.0, SNIFF.1.to_owned()),
            ];
            (headers, body).into_response()
        }
        Err(error) => error_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("failed to encode the profile: {error}"),
        ),
    }
}

/// Runs on a thread for blocking work, so that the workers of the runtime can serve other requests.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
