//! The network of a virtual node: a test's hook answers every request at once.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::outbound::{GrpcHealth, HttpAnswer, HttpGet, Outbound, OutboundError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboundRequest {
    Http(HttpGet),
    /// Host and port.
    Tcp(String, u16),
    Grpc(GrpcHealth),
}

type Hook = Box<dyn FnMut(&OutboundRequest) -> Result<HttpAnswer, OutboundError> + Send>;

/// Every request succeeds with status 200 until a hook is set. Clones share the hook.
#[derive(Clone, Default)]
pub struct FakeOutbound(Arc<Mutex<Option<Hook>>>);

impl FakeOutbound {
    /// Sets the hook that answers every request. For TCP and gRPC only success or failure matters.
    pub fn answer(
        &self,
        hook: impl FnMut(&OutboundRequest) -> Result<HttpAnswer, OutboundError> + Send + 'static,
    ) {
        *self.0.lock() = Some(Box::new(hook));
    }

    fn call_hook(&self, request: &OutboundRequest) -> Result<HttpAnswer, OutboundError> {
        match self.0.lock().as_mut() {
            Some(hook) => hook(request),
            None => Ok(HttpAnswer { status: 200, body: b"ok".to_vec() }),
        }
    }
}

impl fmt::Debug for FakeOutbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeOutbound")
    }
}

#[async_trait]
impl Outbound for FakeOutbound {
    async fn http_get(&self, request: &HttpGet) -> Result<HttpAnswer, OutboundError> {
        self.call_hook(&OutboundRequest::Http(request.clone()))
    }

    async fn tcp_connect(&self, host: &str, port: u16, _: Duration) -> Result<(), OutboundError> {
        self.call_hook(&OutboundRequest::Tcp(host.to_owned(), port)).map(|_| ())
    }

    async fn grpc_health(&self, check: &GrpcHealth) -> Result<(), OutboundError> {
        self.call_hook(&OutboundRequest::Grpc(check.clone())).map(|_| ())
    }
}
