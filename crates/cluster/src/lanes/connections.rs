//! The connections of one or more lanes, and how they are changed for new ones under way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use kube::client::Body;
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use super::dial::{Dialer, HttpClient};

/// Requests and watches on one HTTP/2 connection. The API server allows 100; hyper would let the next ones wait behind
/// watches that never end.
const STREAMS: usize = 80;

/// Connections to the API server. Clones share them.
#[derive(Clone)]
pub(crate) struct Connections {
    shared: Arc<Shared>,
}

struct Shared {
    dialer: Dialer,
    generation: Mutex<Generation>,
}

/// Connections made with one identity.
struct Generation {
    retired: CancellationToken,
    pools: Vec<Pool>,
}

struct Pool {
    client: HttpClient,
    /// One reference here, and one with each request or answer under way.
    streams: Arc<()>,
}

/// What was sent, and where.
pub(crate) struct Sent {
    pub(crate) response: BoxFuture<'static, Result<Response<Incoming>, BoxError>>,
    /// To be kept until the answer was read.
    pub(crate) stream: Arc<()>,
    retired: CancellationToken,
}

impl Sent {
    /// Completes when the connection it was sent on is given up.
    pub(crate) fn retired(&self) -> BoxFuture<'static, ()> {
        let retired = self.retired.clone();
        Box::pin(async move { retired.cancelled_owned().await })
    }
}

impl Connections {
    /// None yet; they are made when they are needed.
    pub(crate) fn new(dialer: Dialer) -> Self {
        let generation = Mutex::new(Generation::new());
        Self { shared: Arc::new(Shared { dialer, generation }) }
    }

    /// Sends a request on the first connection with room for it.
    pub(crate) fn send(&self, request: Request<Body>) -> Sent {
        let mut generation = self.generation();
        let retired = generation.retired.clone();
        let room = generation.pools.iter().position(|pool| Arc::strong_count(&pool.streams) <= STREAMS);
        let (client, stream) = match room.and_then(|index| generation.pools.get(index)) {
            Some(pool) => (pool.client.clone(), pool.streams.clone()),
            None => {
                let pool = Pool { client: self.shared.dialer.client(), streams: Arc::new(()) };
                let taken = (pool.client.clone(), pool.streams.clone());
                generation.pools.push(pool);
                taken
            }
        };
        drop(generation);
        let response = Box::pin(async move { client.request(request).await.map_err(Into::into) });
        Sent { response, stream, retired }
    }

    /// From now on requests go over new connections. Requests under way end on the old ones; watches end now, to be
    /// taken up again.
    pub(crate) fn renew(&self) {
        let old = std::mem::replace(&mut *self.generation(), Generation::new());
        old.retired.cancel();
    }

    fn generation(&self) -> MutexGuard<'_, Generation> {
        self.shared.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generation {
    fn new() -> Self {
        Self { retired: CancellationToken::new(), pools: Vec::new() }
    }
}
