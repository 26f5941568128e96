//! Connections whose bytes the runtime understands.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use super::backend::{self, Answer};
use super::closing::{GRACE, close};
use super::{Refusal, Sessions};

const PIECE: usize = 32 * 1024;

/// Passes the client's upgrade on and, if the runtime agrees, the bytes both ways.
pub(super) async fn start(sessions: &Sessions, url: &str, mut request: Request) -> Result<Response, Refusal> {
    let headers = backend::passed_on(request.headers());
    match backend::open(sessions, url, request.method().clone(), headers).await? {
        Answer::Refused(answer) => Ok(answer),
        Answer::Upgraded(head, runtime) => {
            let client = hyper::upgrade::on(&mut request);
            sessions.start(async move {
                match client.await {
                    Ok(client) => join(TokioIo::new(client), runtime).await,
                    Err(error) => tracing::debug!(%error, "a client left before its stream began"),
                }
            });
            Ok(switching(head.headers))
        }
    }
}

/// `101` with headers.
pub(super) fn switching(headers: HeaderMap) -> Response {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = headers;
    answer
}

/// Copies both ways until one side has ended.
pub(super) async fn join<C, R>(client: C, runtime: R)
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
                // The client sends no more; what the runtime has to say to that is still taken to it.
                let _ = tokio::time::timeout(GRACE, downwards).await;
            }
        }
    }
    close(from_client.unsplit(to_client)).await;
}

/// Copies until the reader ends or either fails, and then tells the writer's side.
async fn copy<R, W>(from: &mut ReadHalf<R>, to: &mut WriteHalf<W>)
where
    R: AsyncRead,
    W: AsyncWrite,
{
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let written = to.write_all(piece.get(..count).unwrap_or_default()).await;
        if written.is_err() || to.flush().await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
