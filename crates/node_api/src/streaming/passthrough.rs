//! Connections that the runtime serves itself: the agent only copies bytes.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use super::backend::{self, UpgradeResult};
use super::closing::{CLOSE_TIMEOUT, close};
use super::{ErrorResponse, StreamSessions};

const CHUNK: usize = 32 * 1024;

/// Forwards the client's upgrade and, if the runtime accepts it, the bytes in both directions.
pub(super) async fn start(
    sessions: &StreamSessions,
    url: &str,
    mut request: Request,
) -> Result<Response, ErrorResponse> {
    let headers = backend::forwarded_headers(request.headers());
    match backend::open(sessions, url, request.method().clone(), headers).await? {
        UpgradeResult::Rejected(response) => Ok(response),
        UpgradeResult::Upgraded(head, runtime) => {
            let client = hyper::upgrade::on(&mut request);
            sessions.start(async move {
                match client.await {
                    Ok(client) => copy_both_ways(TokioIo::new(client), runtime).await,
                    Err(error) => tracing::debug!(%error, "client disconnected before its stream started"),
                }
            });
            Ok(switching_protocols(head.headers))
        }
    }
}

/// A response with status 101.
pub(super) fn switching_protocols(headers: HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    response
}

/// Copies until one side ends.
pub(super) async fn copy_both_ways<C, R>(client: C, runtime: R)
where
    C: AsyncRead + AsyncWrite + Unpin,
    R: AsyncRead + AsyncWrite + Unpin,
{
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_runtime, mut to_runtime) = tokio::io::split(runtime);
    {
        let upwards = copy(&mut from_client, &mut to_runtime);
        let downwards = copy(&mut from_runtime, &mut to_client);
        tokio::pin!(upwards, downwards);
        tokio::select! {
            () = &mut downwards => {}
            () = &mut upwards => {
                // The client sends no more data. The rest of the runtime's output is still delivered.
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, downwards).await;
            }
        }
    }
    close(from_client.unsplit(to_client)).await;
}

/// Copies until the reader ends or one side fails; shuts the writer down when the reader ends.
async fn copy<R, W>(from: &mut ReadHalf<R>, to: &mut WriteHalf<W>)
where
    R: AsyncRead,
    W: AsyncWrite,
{
    let mut chunk = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        let written = to.write_all(chunk.get(..count).unwrap_or_default()).await;
        if written.is_err() || to.flush().await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
