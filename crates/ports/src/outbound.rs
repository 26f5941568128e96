//! Requests of the agent to what runs in pods: probes and lifecycle hooks.

use std::time::Duration;

use async_trait::async_trait;

/// Asks things that listen on the network. Connections are made for one request and closed after it, no proxy is
/// used, certificates are not checked.
///
/// Time limits are of the request's own time: time in which the agent itself was not given the processor is not
/// counted. Error texts are upstream's, complete with their subject.
#[async_trait]
pub trait Outbound: Send + Sync {
    /// A GET request. Redirects within the same host name are followed, ten at most; the answer that would lead
    /// to another host is returned as it is. Any status is an answer; a body is cut at 10 KiB.
    async fn http_get(&self, request: &HttpGet) -> Result<HttpAnswer, OutboundError>;

    /// Opens a TCP connection and closes it.
    async fn tcp_connect(&self, host: &str, port: u16, limit: Duration) -> Result<(), OutboundError>;

    /// Asks `grpc.health.v1.Health/Check` without TLS. Anything but SERVING is a failure.
    async fn grpc_health(&self, check: &GrpcHealth) -> Result<(), OutboundError>;
}

/// A GET request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGet {
    /// With or without TLS.
    pub scheme: Scheme,
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path with an optional query, as in the spec.
    pub path: String,
    /// Headers as in the spec. `Host` replaces the host in the request, an empty `Accept` or `User-Agent` leaves
    /// that header out.
    pub headers: Vec<(String, String)>,
    /// Who asks.
    pub purpose: Purpose,
    /// The time for all of it, `None` for no limit.
    pub limit: Option<Duration>,
}

/// With or without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without.
    Http,
    /// With.
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

/// Who asks; it shows in the `User-Agent` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A probe: `kube-probe/1.36`.
    Probe,
    /// A lifecycle hook: `kube-lifecycle/1.36`.
    Hook,
}

/// The answer to a GET request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// At most 10 KiB of the body.
    pub body: Vec<u8>,
}

/// A question about the health of a gRPC service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcHealth {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The service, empty for the whole server.
    pub service: String,
    /// The time for all of it.
    pub limit: Duration,
}

/// Why there is no (good) answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The other side could not be reached, did not answer in time, or answered badly.
    #[error("{0}")]
    Failed(String),
    /// TLS was asked for and the other side answered in plain HTTP.
    #[error("{0}")]
    PlainAnswer(String),
    /// The answer began, but its body could not be read to the end.
    #[error("{0}")]
    Body(String),
    /// The request itself cannot be made, such as a header that is none.
    #[error("{0}")]
    Request(String),
}
