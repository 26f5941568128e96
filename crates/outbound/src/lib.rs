//! Network requests of probes and lifecycle hooks: implements `ports::outbound`.
//!
//! Error messages match those of upstream, because users and tools read them in events.
//!
//! Invariants: one connection per request, which is driven by the request's future and closed with it, without
//! background tasks; no proxies, no certificate verification, no cookies; bodies are truncated at 10 KiB; time in which
//! the agent was not scheduled does not count toward a time limit.
//!
//! There is deliberately no `SO_LINGER`: on Linux it does not speed up the end of a closed connection, but may block the
//! thread in `close`.

mod dial;
mod go_format;
mod grpc;
mod http_get;
mod limit;
mod tls;
mod url;

pub use dial::MAX_LOOKUP_THREADS;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::outbound::{GrpcHealth, HttpAnswer, HttpGet, Outbound, OutboundError};
use rustls::ClientConfig;

/// Sends requests over the network of the node.
#[derive(Clone, Debug)]
pub struct NetworkOutbound {
    tls: Arc<ClientConfig>,
}

impl Default for NetworkOutbound {
    fn default() -> Self {
        Self::new()
    }
}

impl NetworkOutbound {
    /// Builds the TLS configuration.
    #[must_use]
    pub fn new() -> Self {
        Self { tls: Arc::new(tls::unverified_config()) }
    }
}

#[async_trait]
impl Outbound for NetworkOutbound {
    async fn http_get(&self, request: &HttpGet) -> Result<HttpAnswer, OutboundError> {
        http_get::run(&self.tls, request).await
    }

    async fn tcp_connect(&self, host: &str, port: u16, limit: Duration) -> Result<(), OutboundError> {
        let connected = limit::within(limit, dial::dial(host, port)).await;
        let address = go_format::host_port(host, port);
        match connected {
            Some(Ok(_stream)) => Ok(()),
            Some(Err(message)) => Err(OutboundError::Failed(message)),
            None => Err(OutboundError::Failed(format!("dial tcp {address}: i/o timeout"))),
        }
    }

    async fn grpc_health(&self, check: &GrpcHealth) -> Result<(), OutboundError> {
        grpc::check(check).await
    }
}
