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
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use ports::log_files::LogFile;
use ports::node_logs::{NodeLog, NodeLogs};

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
        return serve(&*parts.logs, path).await;
    }
    let query = match NodeLogQuery::read(&queries::pairs(query.as_deref())) {
        Ok(Some(query)) => query,
        Ok(None) => return serve(&*parts.logs, path).await,
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
            _ => serve(&*parts.logs, &file).await,
        },
        Err(problem) => (StatusCode::NOT_ACCEPTABLE, problem + "\n").into_response(),
    }
}

/// A file's content or a folder's list.
async fn serve(logs: &dyn NodeLogs, path: &str) -> Response {
    match logs.open(path).await {
        Ok(NodeLog::File(file)) => {
            let body = Body::from_stream(content(file));
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
        }
        Ok(NodeLog::Folder(names)) => Html(folder_page(&names)).into_response(),
        Ok(NodeLog::Missing) => (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
        Err(error) => {
            tracing::warn!(%error, source = ?std::error::Error::source(&error), "cannot show a log of the node");
            (StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n").into_response()
        }
    }
}

/// A file from its beginning to the end that it has when it is reached.
fn content(
    file: Arc<dyn LogFile>,
) -> impl Stream<Item = Result<Bytes, ports::pod_folders::FileError>> + Send {
    stream::unfold(Some((file, 0)), async |state| {
        let (file, place) = state?;
        match file.read_at(place, PIECE).await {
            Ok(piece) if piece.is_empty() => None,
            Ok(piece) => {
                let next = place + u64::try_from(piece.len()).unwrap_or_default();
                Some((Ok(piece.into()), Some((file, next))))
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
                Ok(NodeLog::File(file)) => {
                    return content(file).filter_map(async |piece| piece.ok()).boxed();
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
