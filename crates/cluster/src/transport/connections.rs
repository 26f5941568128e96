//! Connections to the API server that one or more clients share, and their replacement when the certificate changes.

use parking_lot::Mutex;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use kube::client::Body;
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use super::dial::{Dialer, HttpClient};

/// Requests and watches on one HTTP/2 connection. The API server allows 100; above that, hyper would queue requests
/// behind watches that never end.
const MAX_STREAMS_PER_CONNECTION: usize = 80;

/// Clones share the connections.
#[derive(Clone)]
pub(crate) struct Connections {
    shared: Arc<Shared>,
}

struct Shared {
    dialer: Dialer,
    generation: Mutex<Generation>,
}

/// Connections that were opened with the same client certificate.
struct Generation {
    retired: CancellationToken,
    pools: Vec<Pool>,
}

struct Pool {
    client: HttpClient,
    /// Reference count: one here, plus one per request or response in flight.
    streams: Arc<()>,
}

pub(crate) struct InFlightRequest {
    pub(crate) response: BoxFuture<'static, Result<Response<Incoming>, BoxError>>,
    /// Keep this until the response body is read.
    pub(crate) stream: Arc<()>,
    retired: CancellationToken,
}

impl InFlightRequest {
    /// Completes when the connection of this request is retired.
    pub(crate) fn retired(&self) -> BoxFuture<'static, ()> {
        let retired = self.retired.clone();
        Box::pin(async move { retired.cancelled_owned().await })
    }
}

impl Connections {
    /// Opens connections on demand.
    pub(crate) fn new(dialer: Dialer) -> Self {
        let generation = Mutex::new(Generation::new());
        Self { shared: Arc::new(Shared { dialer, generation }) }
    }

    /// Sends a request on the first connection with a free stream.
    pub(crate) fn send(&self, request: Request<Body>) -> InFlightRequest {
        let mut generation = self.shared.generation.lock();
        let retired = generation.retired.clone();
        let free = generation
            .pools
            .iter()
            .position(|pool| Arc::strong_count(&pool.streams) <= MAX_STREAMS_PER_CONNECTION);
        let (client, stream) = match free.and_then(|index| generation.pools.get(index)) {
            Some(pool) => (pool.client.clone(), pool.streams.clone()),
            None => {
                let pool = Pool { client: self.shared.dialer.client(), streams: Arc::new(()) };
                let client_and_stream = (pool.client.clone(), pool.streams.clone());
                generation.pools.push(pool);
                client_and_stream
            }
        };
        drop(generation);
        let response = Box::pin(async move { client.request(request).await.map_err(Into::into) });
        InFlightRequest { response, stream, retired }
    }

    /// Makes later requests use new connections. Requests in flight finish on the old ones; watches end now and their
    /// watchers resume them.
    pub(crate) fn renew(&self) {
        let old = std::mem::replace(&mut *self.shared.generation.lock(), Generation::new());
        old.retired.cancel();
    }
}

impl Generation {
    fn new() -> Self {
        Self { retired: CancellationToken::new(), pools: Vec::new() }
    }
}
