//! `/logs/`: the logs of the node itself, as files and, with `enableSystemLogQuery`, by query.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use decide::http::partial_content::{Part, RangeHeaders, http_date, part};
use decide::logs::node_logs::{LogTarget, NodeLogQuery, folder_page, likely_files, split_by_journal};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use model::Timestamp;
use ports::host::log_files::LogFile;
use ports::host::node_logs::{NodeLog, NodeLogs};
use ports::host::pod_folders::FileError;

use crate::queries;
use crate::responses::disabled;

const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
const CHUNK: usize = 64 * 1024;
/// In bytes. The rest of a longer list of systemd units is ignored.
const MAX_UNIT_LIST: usize = 4 << 20;

#[derive(Clone)]
pub struct NodeLogDeps {
    pub logs: Arc<dyn NodeLogs>,
    /// `enableSystemLogQuery`.
    pub queries_enabled: bool,
}

pub(crate) fn routes(deps: NodeLogDeps) -> Router {
    Router::new()
        .route("/logs", get(root))
        .route("/logs/", get(root))
        .route("/logs/{*path}", get(log))
        .with_state(deps)
}

/// The same paths when they are switched off.
pub(crate) fn disabled_routes(text: &'static str) -> Router {
    let off = async move || disabled(text);
    Router::new().route("/logs/", any(off)).route("/logs/{*path}", any(off))
}

async fn root(deps: State<NodeLogDeps>, query: RawQuery, headers: HeaderMap) -> Response {
    respond(&deps, "", query, &headers).await
}

async fn log(
    deps: State<NodeLogDeps>,
    Path(path): Path<String>,
    query: RawQuery,
    headers: HeaderMap,
) -> Response {
    respond(&deps, &path, query, &headers).await
}

async fn respond(deps: &NodeLogDeps, path: &str, RawQuery(query): RawQuery, headers: &HeaderMap) -> Response {
    if !deps.queries_enabled {
        return serve(&*deps.logs, path, headers).await;
    }
    let query = match NodeLogQuery::read(&queries::pairs(query.as_deref())) {
        Ok(Some(query)) => query,
        Ok(None) => return serve(&*deps.logs, path, headers).await,
        Err(problem) => return (StatusCode::BAD_REQUEST, problem + "\n").into_response(),
    };
    if !path.is_empty() {
        return (StatusCode::NOT_ACCEPTABLE, "path not allowed in query mode\n").into_response();
    }
    match query.target() {
        Ok(LogTarget::Services(services)) => {
            let use_gzip = headers.get(header::ACCEPT_ENCODING).is_some_and(|value| value == "gzip");
            serve_services(deps.logs.clone(), query, services, use_gzip)
        }
        Ok(LogTarget::File(file)) => match deps.logs.open(&file).await {
            Ok(NodeLog::Missing) => {
                let text = format!("query: Invalid value: {file:?}: no such file\n");
                (StatusCode::NOT_ACCEPTABLE, text).into_response()
            }
            _ => serve(&*deps.logs, &file, headers).await,
        },
        Err(problem) => (StatusCode::NOT_ACCEPTABLE, problem + "\n").into_response(),
    }
}

/// The content of a file, or the list of a folder.
async fn serve(logs: &dyn NodeLogs, path: &str, headers: &HeaderMap) -> Response {
    let response = match logs.open(path).await {
        Ok(NodeLog::File(file, changed_at)) => serve_file(file, changed_at, headers).await,
        Ok(NodeLog::Folder(names)) => Ok(Html(folder_page(&names)).into_response()),
        Ok(NodeLog::Missing) => Ok((StatusCode::NOT_FOUND, "404 page not found\n").into_response()),
        Err(error) => Err(error),
    };
    response.unwrap_or_else(|error| {
        tracing::warn!(%error, source = ?std::error::Error::source(&error), "failed to read node log");
        (StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n").into_response()
    })
}

/// A file, or the requested range of it.
async fn serve_file(
    file: Arc<dyn LogFile>,
    changed_at: Timestamp,
    headers: &HeaderMap,
) -> Result<Response, FileError> {
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    let requested = RangeHeaders {
        range: text(header::RANGE),
        if_range: text(header::IF_RANGE),
        if_modified_since: text(header::IF_MODIFIED_SINCE),
    };
    let size = file.size().await?;
    let (status, first, count) = match part(&requested, size, changed_at) {
        Part::Whole => (StatusCode::OK, 0, size),
        Part::Bytes { first, count } => (StatusCode::PARTIAL_CONTENT, first, count),
        Part::Unchanged => {
            return Ok(with_last_modified(StatusCode::NOT_MODIFIED.into_response(), changed_at));
        }
        Part::Nowhere(problem) => {
            let range = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            let response = (StatusCode::RANGE_NOT_SATISFIABLE, range, format!("{problem}\n"));
            return Ok(response.into_response());
        }
    };
    let content_headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (header::CONTENT_LENGTH, count.to_string()),
    ];
    let mut response =
        (status, content_headers, Body::from_stream(content(file, first, Some(count)))).into_response();
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {first}-{}/{size}", first + count - 1);
        response.headers_mut().extend(range.parse().ok().map(|range| (header::CONTENT_RANGE, range)));
    }
    Ok(with_last_modified(response, changed_at))
}

fn with_last_modified(mut response: Response, changed_at: Timestamp) -> Response {
    let date = http_date(changed_at).and_then(|date| date.parse().ok());
    response.headers_mut().extend(date.map(|date| (header::LAST_MODIFIED, date)));
    response
}

/// `count` bytes from `first` on, or everything up to the end of the file.
fn content(
    file: Arc<dyn LogFile>,
    first: u64,
    count: Option<u64>,
) -> impl Stream<Item = Result<Bytes, ports::host::pod_folders::FileError>> + Send {
    let end = count.map_or(u64::MAX, |count| first.saturating_add(count));
    stream::unfold(Some((file, first, end)), async |state| {
        let (file, position, end) = state?;
        let max = usize::try_from(end.saturating_sub(position)).unwrap_or(CHUNK).min(CHUNK);
        if max == 0 {
            return None;
        }
        match file.read_at(position, max).await {
            Ok(chunk) if chunk.is_empty() => None,
            Ok(chunk) => {
                let next = position + u64::try_from(chunk.len()).unwrap_or_default();
                Some((Ok(chunk.into()), Some((file, next, end))))
            }
            Err(error) => Some((Err(error), None)),
        }
    })
}

type Chunks = BoxStream<'static, Bytes>;

fn serve_services(
    logs: Arc<dyn NodeLogs>,
    query: NodeLogQuery,
    services: Vec<String>,
    use_gzip: bool,
) -> Response {
    let deadline = tokio::time::Instant::now() + QUERY_TIMEOUT;
    let chunks = stream::once(async move {
        let units = units(&*logs).await;
        service_logs(&logs, &query, &services, &units)
    });
    let chunks = chunks.flatten().take_until(tokio::time::sleep_until(deadline)).boxed();
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain;charset=UTF-8"));
    let chunks = if use_gzip {
        headers.insert(header::CONTENT_ENCODING, header::HeaderValue::from_static("gzip"));
        compress(chunks)
    } else {
        chunks
    };
    *response.body_mut() = Body::from_stream(chunks.map(Ok::<_, std::convert::Infallible>));
    response
}

/// The systemd units in the journal, one per line.
async fn units(logs: &dyn NodeLogs) -> String {
    let mut output = logs.journal(vec!["--field".to_owned(), "_SYSTEMD_UNIT".to_owned()]);
    let mut all = Vec::new();
    while let Some(Ok(chunk)) = output.next().await {
        all.extend(chunk);
        if all.len() > MAX_UNIT_LIST {
            break;
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn service_logs(logs: &Arc<dyn NodeLogs>, query: &NodeLogQuery, services: &[String], units: &str) -> Chunks {
    let (journal, files) = split_by_journal(services, units);
    let mut outputs: Vec<Chunks> = Vec::new();
    if !journal.is_empty() {
        let output = logs.journal(query.journal_arguments(&journal));
        let or_error = |chunk: std::io::Result<Vec<u8>>| {
            chunk.map_or_else(|_| "\nerror: journal output not available\n".into(), Bytes::from)
        };
        outputs.push(output.map(or_error).boxed());
    }
    if !files.is_empty() && query.has_options() {
        let text = format!(
            "\noptions present and query resolved to log files for {files:?}\ntry without specifying options\n"
        );
        outputs.push(stream::iter([Bytes::from(text)]).boxed());
    } else {
        let each = files.into_iter().map(|service| service_file(Arc::clone(logs), service));
        outputs.extend(each);
    }
    stream::iter(outputs).flatten().boxed()
}

fn service_file(logs: Arc<dyn NodeLogs>, service: String) -> Chunks {
    stream::once(async move {
        for path in likely_files(&service) {
            match logs.open(&path).await {
                Ok(NodeLog::File(file, _)) => {
                    return content(file, 0, None).filter_map(async |chunk| chunk.ok()).boxed();
                }
                Ok(NodeLog::Folder(_) | NodeLog::Missing) => {}
                Err(error) => {
                    let text = format!("\nerror getting log for {service}: {error}\n");
                    return stream::iter([Bytes::from(text)]).boxed();
                }
            }
        }
        stream::iter([Bytes::from(format!("\nlog not found for {service}\n"))]).boxed()
    })
    .flatten()
    .boxed()
}

fn compress(chunks: Chunks) -> Chunks {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    stream::unfold(Some((chunks, encoder)), async |state| {
        let (mut chunks, mut encoder) = state?;
        loop {
            let Some(chunk) = chunks.next().await else {
                return Some((Bytes::from(encoder.finish().ok()?), None));
            };
            std::io::Write::write_all(&mut encoder, &chunk).ok()?;
            let compressed = std::mem::take(encoder.get_mut());
            if !compressed.is_empty() {
                return Some((Bytes::from(compressed), Some((chunks, encoder))));
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests;
