//! Requests of the agent to what runs in pods: the adapter of `ports::outbound`.
//!
//! Comes in: what a probe or hook asks for. Goes out: the answer, or an error in upstream's words.
//!
//! Invariants: one connection for each request, driven by the future that asked and gone with it, nothing runs on
//! its own; no proxies, no certificate checks, no cookies; bodies are cut at 10 KiB; a time limit counts the
//! request's own time only.
//!
//! It deliberately sets no `SO_LINGER`: on Linux that changes nothing about a connection that was closed, it only
//! lets `close` block the thread for up to that time.

mod dial;
mod grpc;
mod http_get;
mod limit;
mod tls;
mod url;
mod words;

pub use dial::LOOKUP_PLACES;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::outbound::{GrpcHealth, HttpAnswer, HttpGet, Outbound, OutboundError};
use rustls::ClientConfig;

/// Asks over the network of the machine.
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
    /// Ready to ask.
    #[must_use]
    pub fn new() -> Self {
        Self { tls: Arc::new(tls::trusting_config()) }
    }
}

#[async_trait]
impl Outbound for NetworkOutbound {
    async fn http_get(&self, request: &HttpGet) -> Result<HttpAnswer, OutboundError> {
        http_get::run(&self.tls, request).await
    }

    async fn tcp_connect(&self, host: &str, port: u16, limit: Duration) -> Result<(), OutboundError> {
        let dialed = limit::within(limit, dial::dial(host, port)).await;
        let address = words::host_port(host, port);
        match dialed {
            Some(Ok(_stream)) => Ok(()),
            Some(Err(problem)) => Err(OutboundError::Failed(problem)),
            None => Err(OutboundError::Failed(format!("dial tcp {address}: i/o timeout"))),
        }
    }

    async fn grpc_health(&self, check: &GrpcHealth) -> Result<(), OutboundError> {
        grpc::check(check).await
    }
}
