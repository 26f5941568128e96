//! `/logs/`: the node's own logs, as files and, if `enableSystemLogQuery` allows it, by query.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use decide::node_logs::{NodeLogQuery, Wanted, folder_page, likely_files, split_by_journal};
use decide::partial_content::{Asked, Part, http_date, part};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use model::Timestamp;
use ports::log_files::LogFile;
use ports::node_logs::{NodeLog, NodeLogs};
use ports::pod_folders::FileError;

use crate::answers::disabled;
use crate::queries;

/// A query takes no longer.
const LIMIT: Duration = Duration::from_secs(30);
const PIECE: usize = 64 * 1024;
/// The list of units is not longer; more of it is not looked at.
const LONGEST_LIST: usize = 4 << 20;

/// Where the node's logs are.
#[derive(Clone)]
pub struct NodeLogParts {
    /// Files and journal.
    pub logs: Arc<dyn NodeLogs>,
    /// `enableSystemLogQuery`.
    pub queries: bool,
}

/// The paths.
pub(crate) fn routes(parts: NodeLogParts) -> Router {
    Router::new()
        .route("/logs", get(top))
        .route("/logs/", get(top))
        .route("/logs/{*path}", get(below))
        .with_state(parts)
}

/// The same paths, where they are switched off.
pub(crate) fn disabled_routes(text: &'static str) -> Router {
    let off = async move || disabled(text);
    Router::new().route("/logs/", any(off)).route("/logs/{*path}", any(off))
}

async fn top(parts: State<NodeLogParts>, query: RawQuery, headers: HeaderMap) -> Response {
    answer(&parts, "", query, &headers).await
}

async fn below(
    parts: State<NodeLogParts>,
    Path(path): Path<String>,
    query: RawQuery,
    headers: HeaderMap,
) -> Response {
    answer(&parts, &path, query, &headers).await
}

async fn answer(
    parts: &NodeLogParts,
    path: &str,
    RawQuery(query): RawQuery,
    headers: &HeaderMap,
) -> Response {
    if !parts.queries {
        return serve(&*parts.logs, path, headers).await;
    }
    let query = match NodeLogQuery::read(&queries::pairs(query.as_deref())) {
        Ok(Some(query)) => query,
        Ok(None) => return serve(&*parts.logs, path, headers).await,
        Err(problem) => return (StatusCode::BAD_REQUEST, problem + "\n").into_response(),
    };
    if !path.is_empty() {
        return (StatusCode::NOT_ACCEPTABLE, "path not allowed in query mode\n").into_response();
    }
    match query.wanted() {
        Ok(Wanted::Services(services)) => {
            let compressed = headers.get(header::ACCEPT_ENCODING).is_some_and(|value| value == "gzip");
            show_services(parts.logs.clone(), query, services, compressed)
        }
        Ok(Wanted::File(file)) => match parts.logs.open(&file).await {
            Ok(NodeLog::Missing) => {
                let text = format!("query: Invalid value: {file:?}: no such file\n");
                (StatusCode::NOT_ACCEPTABLE, text).into_response()
            }
            _ => serve(&*parts.logs, &file, headers).await,
        },
        Err(problem) => (StatusCode::NOT_ACCEPTABLE, problem + "\n").into_response(),
    }
}

/// A file's content or a folder's list.
async fn serve(logs: &dyn NodeLogs, path: &str, headers: &HeaderMap) -> Response {
    let shown = match logs.open(path).await {
        Ok(NodeLog::File(file, changed_at)) => show(file, changed_at, headers).await,
        Ok(NodeLog::Folder(names)) => Ok(Html(folder_page(&names)).into_response()),
        Ok(NodeLog::Missing) => Ok((StatusCode::NOT_FOUND, "404 page not found\n").into_response()),
        Err(error) => Err(error),
    };
    shown.unwrap_or_else(|error| {
        tracing::warn!(%error, source = ?std::error::Error::source(&error), "cannot show a log of the node");
        (StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n").into_response()
    })
}

/// A file or the part of it that is asked for.
async fn show(
    file: Arc<dyn LogFile>,
    changed_at: Timestamp,
    headers: &HeaderMap,
) -> Result<Response, FileError> {
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    let asked = Asked {
        range: text(header::RANGE),
        if_range: text(header::IF_RANGE),
        if_modified_since: text(header::IF_MODIFIED_SINCE),
    };
    let size = file.size().await?;
    let (status, first, count) = match part(&asked, size, changed_at) {
        Part::Whole => (StatusCode::OK, 0, size),
        Part::Bytes { first, count } => (StatusCode::PARTIAL_CONTENT, first, count),
        Part::Unchanged => {
            return Ok(dated(StatusCode::NOT_MODIFIED.into_response(), changed_at));
        }
        Part::Nowhere(problem) => {
            let place = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            let answer = (StatusCode::RANGE_NOT_SATISFIABLE, place, format!("{problem}\n"));
            return Ok(answer.into_response());
        }
    };
    let about = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (header::CONTENT_LENGTH, count.to_string()),
    ];
    let mut answer = (status, about, Body::from_stream(content(file, first, Some(count)))).into_response();
    if status == StatusCode::PARTIAL_CONTENT {
        let place = format!("bytes {first}-{}/{size}", first + count - 1);
        answer.headers_mut().extend(place.parse().ok().map(|place| (header::CONTENT_RANGE, place)));
    }
    Ok(dated(answer, changed_at))
}

fn dated(mut answer: Response, changed_at: Timestamp) -> Response {
    let date = http_date(changed_at).and_then(|date| date.parse().ok());
    answer.headers_mut().extend(date.map(|date| (header::LAST_MODIFIED, date)));
    answer
}

/// So many bytes of a file from a place on, or all to the end that it has when it is reached.
fn content(
    file: Arc<dyn LogFile>,
    first: u64,
    count: Option<u64>,
) -> impl Stream<Item = Result<Bytes, ports::pod_folders::FileError>> + Send {
    let end = count.map_or(u64::MAX, |count| first.saturating_add(count));
    stream::unfold(Some((file, first, end)), async |state| {
        let (file, place, end) = state?;
        let most = usize::try_from(end.saturating_sub(place)).unwrap_or(PIECE).min(PIECE);
        if most == 0 {
            return None;
        }
        match file.read_at(place, most).await {
            Ok(piece) if piece.is_empty() => None,
            Ok(piece) => {
                let next = place + u64::try_from(piece.len()).unwrap_or_default();
                Some((Ok(piece.into()), Some((file, next, end))))
            }
            Err(error) => Some((Err(error), None)),
        }
    })
}

type Pieces = BoxStream<'static, Bytes>;

fn show_services(
    logs: Arc<dyn NodeLogs>,
    query: NodeLogQuery,
    services: Vec<String>,
    compressed: bool,
) -> Response {
    let end = tokio::time::Instant::now() + LIMIT;
    let pieces = stream::once(async move {
        let units = units(&*logs).await;
        service_logs(&logs, &query, &services, &units)
    });
    let pieces = pieces.flatten().take_until(tokio::time::sleep_until(end)).boxed();
    let mut answer = Response::new(Body::empty());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain;charset=UTF-8"));
    let pieces = if compressed {
        headers.insert(header::CONTENT_ENCODING, header::HeaderValue::from_static("gzip"));
        compress(pieces)
    } else {
        pieces
    };
    *answer.body_mut() = Body::from_stream(pieces.map(Ok::<_, std::convert::Infallible>));
    answer
}

/// The units that the journal knows.
async fn units(logs: &dyn NodeLogs) -> String {
    let mut output = logs.journal(vec!["--field".to_owned(), "_SYSTEMD_UNIT".to_owned()]);
    let mut all = Vec::new();
    while let Some(Ok(piece)) = output.next().await {
        all.extend(piece);
        if all.len() > LONGEST_LIST {
            break;
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn service_logs(logs: &Arc<dyn NodeLogs>, query: &NodeLogQuery, services: &[String], units: &str) -> Pieces {
    let (journal, files) = split_by_journal(services, units);
    let mut parts: Vec<Pieces> = Vec::new();
    if !journal.is_empty() {
        let output = logs.journal(query.journal_arguments(&journal));
        let told = |piece: std::io::Result<Vec<u8>>| {
            piece.map_or_else(|_| "\nerror: journal output not available\n".into(), Bytes::from)
        };
        parts.push(output.map(told).boxed());
    }
    if !files.is_empty() && query.has_options() {
        let text = format!(
            "\noptions present and query resolved to log files for {files:?}\ntry without specifying options\n"
        );
        parts.push(stream::iter([Bytes::from(text)]).boxed());
    } else {
        let each = files.into_iter().map(|service| file_of_service(Arc::clone(logs), service));
        parts.extend(each);
    }
    stream::iter(parts).flatten().boxed()
}

fn file_of_service(logs: Arc<dyn NodeLogs>, service: String) -> Pieces {
    stream::once(async move {
        for path in likely_files(&service) {
            match logs.open(&path).await {
                Ok(NodeLog::File(file, _)) => {
                    return content(file, 0, None).filter_map(async |piece| piece.ok()).boxed();
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

fn compress(pieces: Pieces) -> Pieces {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    stream::unfold(Some((pieces, encoder)), async |state| {
        let (mut pieces, mut encoder) = state?;
        loop {
            let Some(piece) = pieces.next().await else {
                return Some((Bytes::from(encoder.finish().ok()?), None));
            };
            std::io::Write::write_all(&mut encoder, &piece).ok()?;
            let packed = std::mem::take(encoder.get_mut());
            if !packed.is_empty() {
                return Some((Bytes::from(packed), Some((pieces, encoder))));
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests;
