//! The answers below `/debug/pprof/`, in the form of Go's own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use ports::clock::Clock;
use ports::profiler::{Profiler, ProfilerError};
use tokio::runtime::Handle;

use super::encoding::{encode, proto};
use super::pages::{self, Page};
use super::threads::{self, Detail, RuntimeFacts};
use super::{memory, processor};
use crate::queries;

/// Processor time is looked at for so long where nobody says how long.
const DEFAULT_LENGTH: i64 = 30;

/// A profile takes less: upstream's server gives up an answer after four hours.
const LIMIT: i64 = 4 * 60 * 60;

/// What the pages are made of.
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
        // Names are in the profiles already.
        .route("/debug/pprof/symbol", any(async || "num_symbols: 0\n"))
        .route("/debug/pprof/{*path}", get(named))
        .with_state(profiles)
}

async fn command(State(profiles): State<Profiles>) -> String {
    profiles.command.join("\0")
}

async fn index(State(profiles): State<Profiles>) -> Response {
    let tasks = Handle::current().metrics().num_alive_tasks();
    match apart(move || profiles.profiler.threads()).await {
        Ok(threads) => {
            let page = pages::index(threads.len(), tasks);
            ([(header::CONTENT_TYPE, "text/html; charset=utf-8"), SNIFF], page).into_response()
        }
        Err(error) => unread(&error),
    }
}

async fn named(
    State(profiles): State<Profiles>,
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = queries::pairs(query.as_deref());
    let debug = queries::first(&query, "debug").and_then(|level| level.parse::<i64>().ok()).unwrap_or(0);
    // As upstream: what stands before the name does not count.
    let name = path.rsplit('/').next().unwrap_or_default();
    match pages::page(name) {
        Some(Page::Processor) => processor_time(profiles, queries::first(&query, "seconds")).await,
        Some(Page::Threads(name)) => thread_page(profiles, name, debug).await,
        Some(Page::Memory(name)) => memory_page(profiles, name, debug).await,
        Some(Page::Missing(name, reason)) => {
            refused(StatusCode::NOT_IMPLEMENTED, &format!("podward has no {name} profile: {reason}"))
        }
        None => refused(StatusCode::NOT_FOUND, "Unknown profile"),
    }
}

async fn processor_time(profiles: Profiles, seconds: Option<&str>) -> Response {
    let wanted = seconds.and_then(|seconds| seconds.parse().ok()).filter(|seconds| *seconds > 0);
    let seconds = wanted.unwrap_or(DEFAULT_LENGTH);
    let Some(length) = u64::try_from(seconds).ok().filter(|_| seconds < LIMIT).map(Duration::from_secs)
    else {
        return refused(StatusCode::BAD_REQUEST, "profile duration exceeds server's WriteTimeout");
    };
    let began = profiles.clock.now();
    match profiles.profiler.processor_time(length).await {
        Ok(taken) => protobuf("profile", move || processor::profile(&taken, began)).await,
        Err(error) => not_enabled(&error),
    }
}

fn not_enabled(error: &ProfilerError) -> Response {
    let cause = std::error::Error::source(error).map(|cause| format!(" ({cause})")).unwrap_or_default();
    let text = format!("Could not enable CPU profiling: {error}{cause}");
    refused(StatusCode::INTERNAL_SERVER_ERROR, &text)
}

async fn thread_page(profiles: Profiles, name: &'static str, debug: i64) -> Response {
    let runtime = RuntimeFacts::new(&Handle::current().metrics());
    let (profiler, now) = (profiles.profiler, profiles.clock.now());
    let threads = match apart(move || profiler.threads()).await {
        Ok(threads) => threads,
        Err(error) => return unread(&error),
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
        let words = format!("podward has no {name} profile: {reason}; use {name}?debug=1 for sums");
        return refused(StatusCode::NOT_IMPLEMENTED, &words);
    }
    match apart(move || profiles.profiler.memory()).await {
        Ok(facts) => text(memory::text(name, &facts)),
        Err(error) => unread(&error),
    }
}

/// Go's answers carry it, and so do ours.
const SNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
const TEXT: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; charset=utf-8");

fn text(body: String) -> Response {
    ([TEXT, SNIFF], body).into_response()
}

/// A failure by the mark that pprof's tools know: its text is shown to the user.
fn refused(status: StatusCode, text: &str) -> Response {
    let mark = (HeaderName::from_static("x-go-pprof"), "1");
    (status, [TEXT, SNIFF, mark], format!("{text}\n")).into_response()
}

fn unread(error: &io::Error) -> Response {
    refused(
        StatusCode::INTERNAL_SERVER_ERROR,
        &format!("this process could not be read from /proc/self: {error}"),
    )
}

/// A file as pprof reads it.
async fn protobuf(name: &str, profile: impl FnOnce() -> proto::Profile + Send + 'static) -> Response {
    match apart(move || encode(&profile())).await {
        Ok(body) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
                (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
                (SNIFF.0, SNIFF.1.to_owned()),
            ];
            (headers, body).into_response()
        }
        Err(error) => {
            refused(StatusCode::INTERNAL_SERVER_ERROR, &format!("the profile could not be written: {error}"))
        }
    }
}

/// Apart from the runtime's workers, which have other requests to answer.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
