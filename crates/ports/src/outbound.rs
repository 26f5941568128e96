//! Requests to containers: probes and lifecycle hooks.

use std::time::Duration;

use async_trait::async_trait;

/// Sends requests to containers. Each uses a new connection, no proxy, and does not verify certificates.
///
/// Time in which the agent itself did not get the processor does not count towards the limit of a request. Error texts are
/// upstream's, with their subject.
#[async_trait]
pub trait Outbound: Send + Sync {
    /// Sends a GET request. Follows at most ten redirects within the same host name; a redirect to another host is returned
    /// as the answer. Any status is an answer; a body is cut at 10 KiB.
    async fn http_get(&self, request: &HttpGet) -> Result<HttpAnswer, OutboundError>;

    /// Opens a TCP connection and closes it.
    async fn tcp_connect(&self, host: &str, port: u16, limit: Duration) -> Result<(), OutboundError>;

    /// Calls `grpc.health.v1.Health/Check` without TLS. Anything but SERVING is a failure.
    async fn grpc_health(&self, check: &GrpcHealth) -> Result<(), OutboundError>;
}

/// A GET request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGet {
    /// HTTP or HTTPS.
    pub scheme: Scheme,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path with an optional query, as in the spec.
    pub path: String,
    /// Headers as in the spec. `Host` replaces the host in the request, an empty `Accept` or `User-Agent` leaves
    /// that header out.
    pub headers: Vec<(String, String)>,
    /// Sets the `User-Agent`.
    pub purpose: Purpose,
    /// Time limit for the whole request; `None` for no limit.
    pub limit: Option<Duration>,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// As in a URL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The purpose of a request; decides the `User-Agent` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A probe: `kube-probe/1.36`.
    Probe,
    /// A lifecycle hook: `kube-lifecycle/1.36`.
    Hook,
}

/// The response to a GET request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// At most 10 KiB of the body.
    pub body: Vec<u8>,
}

/// A health check of a gRPC service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcHealth {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The service, empty for the whole server.
    pub service: String,
    /// Time limit for the whole call.
    pub limit: Duration,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The container could not be reached, did not answer in time, or sent an invalid answer.
    #[error("{0}")]
    Failed(String),
    /// The container answered an HTTPS request in plain HTTP.
    #[error("{0}")]
    PlainAnswer(String),
    /// The body of the answer could not be read to its end.
    #[error("{0}")]
    Body(String),
    /// The request is invalid, for instance because of a bad header.
    #[error("{0}")]
    Request(String),
}
