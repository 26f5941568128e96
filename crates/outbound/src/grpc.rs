use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use ports::outbound::{GrpcHealth, OutboundError};
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::dial::dial;
use crate::http_get::alongside;
use crate::limit::within;
use crate::words::{duration, host_port};

const LARGEST_ANSWER: usize = 64 * 1024;
/// Wait before the second try to connect; each further one is longer.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// How long an HTTP/2 connection may take to say goodbye.
const GOODBYE: Duration = Duration::from_millis(50);

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

/// Asks whether a service is SERVING.
pub(crate) async fn check(check: &GrpcHealth) -> Result<(), OutboundError> {
    let address = host_port(&check.host, check.port);
    let limit = duration(check.limit);
    let mut connected = false;
    let asked = within(check.limit, async {
        // A server may open its port while we wait, so a failed try is not the end.
        let mut wait = FIRST_WAIT;
        loop {
            if let Ok(stream) = dial(&check.host, check.port).await {
                connected = true;
                match ask(stream, &address, &check.service).await {
                    Ok(answer) => return answer,
                    Err(NotGrpc) => connected = false,
                }
            }
            tokio::time::sleep(wait).await;
            wait = wait * 8 / 5;
        }
    })
    .await;
    let problem = match asked {
        Some(Ok(1)) => return Ok(()),
        Some(Ok(status)) => format!("service unhealthy (responded with {:?})", status_name(status)),
        Some(Err(Refusal { code: UNIMPLEMENTED, message })) => format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        ),
        Some(Err(Refusal { code: DEADLINE_EXCEEDED, .. })) => {
            format!("timeout: health rpc did not complete within {limit}")
        }
        Some(Err(Refusal { code, message })) => {
            let name = code_name(code);
            format!("error: health rpc probe failed: rpc error: code = {name} desc = {message}")
        }
        None if connected => format!("timeout: health rpc did not complete within {limit}"),
        None => format!(
            "timeout: failed to connect service {address:?} within {limit}: context deadline exceeded"
        ),
    };
    Err(OutboundError::Failed(problem))
}

/// The other side does not speak HTTP/2, or hung up before it answered.
struct NotGrpc;

/// An answer with a status other than OK.
struct Refusal {
    code: u32,
    message: String,
}

async fn ask(stream: TcpStream, address: &str, service: &str) -> Result<Result<i32, Refusal>, NotGrpc> {
    let tasks = OwnTasks::default();
    let handshake = hyper::client::conn::http2::handshake(tasks.clone(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|_| NotGrpc)?;
    let request = Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "kube-probe/1.36")
        .body(Full::new(framed(&HealthCheckRequest { service: service.to_owned() })));
    let request = request.map_err(|_| NotGrpc)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|_| NotGrpc)?;
        let answer = read(response).await;
        drop(sender);
        Ok(answer)
    };
    let answer = alongside(connection, exchange).await;
    tasks.finish().await;
    answer
}

async fn read(response: http::Response<hyper::body::Incoming>) -> Result<i32, Refusal> {
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
        return Err(Refusal { code, message });
    }
    let collected = Limited::new(body, LARGEST_ANSWER).collect().await;
    let collected = collected.map_err(|error| Refusal { code: 14, message: error.to_string() })?;
    let status = collected.trailers().and_then(status_of).or_else(|| status_of(&head.headers));
    match status {
        Some(refusal) if refusal.code != 0 => Err(refusal),
        Some(_) => unframed(&collected.to_bytes()),
        None => Err(Refusal {
            code: INTERNAL,
            message: "server closed the stream without sending trailers".to_owned(),
        }),
    }
}

fn status_of(headers: &HeaderMap) -> Option<Refusal> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").and_then(|value| value.to_str().ok()).unwrap_or_default();
    Some(Refusal { code, message: unescaped(message) })
}

/// Messages travel percent-encoded.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        match after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(b'%');
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(length + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // The buffer grows as needed, so encoding cannot fail.
    let _ = message.encode(&mut frame);
    frame.freeze()
}

fn unframed(frame: &[u8]) -> Result<i32, Refusal> {
    let broken = |message: &str| Refusal { code: INTERNAL, message: message.to_owned() };
    let (head, message) = frame.split_at_checked(5).ok_or_else(|| broken("unexpected EOF"))?;
    if head.first() != Some(&0) {
        return Err(broken("grpc: compressed flag set with identity or empty encoding"));
    }
    let answer = HealthCheckResponse::decode(message);
    answer.map(|answer| answer.status).map_err(|_| broken("grpc: error unmarshalling request"))
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
    let name = usize::try_from(code).ok().and_then(|at| names.get(at));
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

/// Runs what an HTTP/2 connection does on its own; it ends with the connection's owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnTasks(Arc<Mutex<JoinSet<()>>>);

impl OwnTasks {
    /// Lets the connection say goodbye.
    pub(crate) async fn finish(self) {
        let mut tasks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async { while tasks.join_next().await.is_some() {} };
        // Whoever does not end in time is aborted with the set.
        let _ = tokio::time::timeout(GOODBYE, all).await;
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for OwnTasks {
    fn execute(&self, task: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
    }
}

#[cfg(test)]
mod tests;
