use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use ports::outbound::{GrpcHealth, OutboundError};
use prost::Message;
use timing::{Backoff, BackoffPolicy, random};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use values::duration::GoDuration;

use crate::dial::dial;
use crate::go_format::host_port;
use crate::http_get::drive_connection;
use crate::limit::within;

const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// Delay between connection attempts, same as grpc-go.
const CONNECT_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(120)).with_factor(1.6);
/// Time for an orderly shutdown of an HTTP/2 connection.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(50);

#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// Fails unless the service is SERVING.
pub(crate) async fn check(check: &GrpcHealth) -> Result<(), OutboundError> {
    let address = host_port(&check.host, check.port);
    let limit = GoDuration::from(check.limit).truncated_to_millis();
    let mut connected = false;
    let result = within(check.limit, async {
        // The server may open its port before the limit, so a failed attempt is repeated.
        let mut backoff = Backoff::new(CONNECT_BACKOFF);
        loop {
            if let Ok(stream) = dial(&check.host, check.port).await {
                connected = true;
                match call_health_check(stream, &address, &check.service).await {
                    Ok(result) => return result,
                    Err(ConnectionFailed) => connected = false,
                }
            }
            tokio::time::sleep(backoff.next(random())).await;
        }
    })
    .await;
    let message = match result {
        Some(Ok(1)) => return Ok(()),
        Some(Ok(status)) => format!("service unhealthy (responded with {:?})", status_name(status)),
        Some(Err(GrpcStatus { code: UNIMPLEMENTED, message })) => format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        ),
        Some(Err(GrpcStatus { code: DEADLINE_EXCEEDED, .. })) => {
            format!("timeout: health rpc did not complete within {limit}")
        }
        Some(Err(GrpcStatus { code, message })) => {
            let name = code_name(code);
            format!("error: health rpc probe failed: rpc error: code = {name} desc = {message}")
        }
        None if connected => format!("timeout: health rpc did not complete within {limit}"),
        None => format!(
            "timeout: failed to connect service {address:?} within {limit}: context deadline exceeded"
        ),
    };
    Err(OutboundError::Failed(message))
}

/// The server does not support HTTP/2, or closed the connection before it responded.
struct ConnectionFailed;

/// Code and message of a gRPC response.
struct GrpcStatus {
    code: u32,
    message: String,
}

async fn call_health_check(
    stream: TcpStream,
    address: &str,
    service: &str,
) -> Result<Result<i32, GrpcStatus>, ConnectionFailed> {
    let tasks = ConnectionTasks::default();
    let handshake = hyper::client::conn::http2::handshake(tasks.clone(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|_| ConnectionFailed)?;
    let request = Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "kube-probe/1.36")
        .body(Full::new(encode_frame(&HealthCheckRequest { service: service.to_owned() })));
    let request = request.map_err(|_| ConnectionFailed)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|_| ConnectionFailed)?;
        let result = read_response(response).await;
        drop(sender);
        Ok(result)
    };
    let result = drive_connection(connection, exchange).await;
    tasks.finish().await;
    result
}

async fn read_response(response: http::Response<hyper::body::Incoming>) -> Result<i32, GrpcStatus> {
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        let message = format!(
            "unexpected HTTP status code received from server: {} ({})",
            head.status.as_u16(),
            head.status.canonical_reason().unwrap_or_default()
        );
        let code = match head.status.as_u16() {
            400 => INTERNAL,
            401 => 16,
            403 => 7,
            404 => UNIMPLEMENTED,
            429 | 502..=504 => 14,
            _ => 2,
        };
        return Err(GrpcStatus { code, message });
    }
    let collected = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
    let collected = collected.map_err(|error| GrpcStatus { code: 14, message: error.to_string() })?;
    let status = collected.trailers().and_then(grpc_status).or_else(|| grpc_status(&head.headers));
    match status {
        Some(status) if status.code != 0 => Err(status),
        Some(_) => decode_frame(&collected.to_bytes()),
        None => Err(GrpcStatus {
            code: INTERNAL,
            message: "server closed the stream without sending trailers".to_owned(),
        }),
    }
}

fn grpc_status(headers: &HeaderMap) -> Option<GrpcStatus> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let message = percent_encoding::percent_decode_str(message).decode_utf8_lossy().into_owned();
    Some(GrpcStatus { code, message })
}

fn encode_frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(length + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // The buffer grows as needed, so encoding cannot fail.
    let _ = message.encode(&mut frame);
    frame.freeze()
}

fn decode_frame(frame: &[u8]) -> Result<i32, GrpcStatus> {
    let internal = |message: &str| GrpcStatus { code: INTERNAL, message: message.to_owned() };
    let (head, message) = frame.split_at_checked(5).ok_or_else(|| internal("unexpected EOF"))?;
    if head.first() != Some(&0) {
        return Err(internal("grpc: compressed flag set with identity or empty encoding"));
    }
    let response = HealthCheckResponse::decode(message);
    response.map(|response| response.status).map_err(|_| internal("grpc: error unmarshalling request"))
}

const DEADLINE_EXCEEDED: u32 = 4;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;

fn code_name(code: u32) -> String {
    let names = [
        "OK",
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];
    let name = usize::try_from(code).ok().and_then(|index| names.get(index));
    name.map_or_else(|| format!("Code({code})"), |name| (*name).to_owned())
}

fn status_name(status: i32) -> String {
    match status {
        0 => "UNKNOWN".to_owned(),
        2 => "NOT_SERVING".to_owned(),
        3 => "SERVICE_UNKNOWN".to_owned(),
        other => other.to_string(),
    }
}

/// Runs the background tasks of an HTTP/2 connection, which end when this is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionTasks(Arc<Mutex<JoinSet<()>>>);

impl ConnectionTasks {
    /// Waits a short time for an orderly shutdown of the connection.
    pub(crate) async fn finish(self) {
        let mut tasks = std::mem::take(&mut *self.0.lock());
        let all = async { while tasks.join_next().await.is_some() {} };
        // Dropping the set aborts the remaining tasks.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, all).await;
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for ConnectionTasks {
    fn execute(&self, task: F) {
        self.0.lock().spawn(task);
    }
}

#[cfg(test)]
mod tests;
