//! The network of a virtual node: answers what a test says, at once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ports::outbound::{GrpcHealth, HttpAnswer, HttpGet, Outbound, OutboundError};

/// A request that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// HTTP.
    Http(HttpGet),
    /// TCP: host and port.
    Tcp(String, u16),
    /// gRPC.
    Grpc(GrpcHealth),
}

type Hook = Box<dyn FnMut(&Asked) -> Result<HttpAnswer, OutboundError> + Send>;

/// Everything answers with status 200 until a hook says otherwise. Clones share the hook.
#[derive(Clone, Default)]
pub struct FakeOutbound(Arc<Mutex<Option<Hook>>>);

impl FakeOutbound {
    /// Decides over every request from now on; of an answer, TCP and gRPC only count that there is one.
    pub fn answer(&self, hook: impl FnMut(&Asked) -> Result<HttpAnswer, OutboundError> + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(hook));
    }

    fn ask(&self, asked: &Asked) -> Result<HttpAnswer, OutboundError> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(hook) => hook(asked),
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
        self.ask(&Asked::Http(request.clone()))
    }

    async fn tcp_connect(&self, host: &str, port: u16, _: Duration) -> Result<(), OutboundError> {
        self.ask(&Asked::Tcp(host.to_owned(), port)).map(|_| ())
    }

    async fn grpc_health(&self, check: &GrpcHealth) -> Result<(), OutboundError> {
        self.ask(&Asked::Grpc(check.clone())).map(|_| ())
    }
}
