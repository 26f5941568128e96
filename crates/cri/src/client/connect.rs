use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use timing::BackoffPolicy;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint as Target, Uri};
use tower::service_fn;

use super::Endpoint;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Without jitter, because the agent is the only client.
const BACKOFF: BackoffPolicy = BackoffPolicy::doubling(Duration::from_millis(100), Duration::from_secs(3));

/// Returns a channel that connects on first use and reconnects after a loss. While the runtime is unreachable, calls fail
/// immediately, and connection attempts back off.
#[must_use]
pub fn connect(endpoint: &Endpoint) -> Channel {
    let path: Arc<std::path::Path> = endpoint.path().into();
    let backoff = Arc::new(Mutex::new(ConnectBackoff::default()));
    // The authority that gRPC uses for unix sockets; it is not resolved.
    Target::from_static("http://localhost").connect_with_connector_lazy(service_fn(move |_: Uri| {
        let (path, backoff) = (path.clone(), backoff.clone());
        async move {
            backoff.lock().check(Instant::now())?;
            let attempt = timeout(CONNECT_TIMEOUT, UnixStream::connect(&path)).await;
            let result = attempt.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let result = result.map_err(|error| {
                io::Error::new(error.kind(), format!("connect to {}: {error}", path.display()))
            });
            backoff.lock().record(&result, Instant::now());
            result.map(TokioIo::new)
        }
    }))
}

/// Backoff between connection attempts.
#[derive(Debug, Default)]
enum ConnectBackoff {
    #[default]
    Inactive,
    Until {
        at: Instant,
        delay: Duration,
        kind: io::ErrorKind,
        message: String,
    },
}

impl ConnectBackoff {
    /// Fails with the last error during the backoff.
    fn check(&self, now: Instant) -> io::Result<()> {
        match self {
            Self::Until { at, kind, message, .. } if now < *at => Err(io::Error::new(*kind, message.clone())),
            Self::Until { .. } | Self::Inactive => Ok(()),
        }
    }

    fn record<T>(&mut self, result: &io::Result<T>, now: Instant) {
        let Err(error) = result else {
            *self = Self::Inactive;
            return;
        };
        let delay = match self {
            Self::Inactive => BACKOFF.initial,
            Self::Until { delay, .. } => BACKOFF.grow(*delay),
        };
        *self = Self::Until { at: now + delay, delay, kind: error.kind(), message: error.to_string() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn backoff_doubles_to_three_seconds_and_resets_on_success() {
        let mut backoff = ConnectBackoff::default();
        let refused = || Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionRefused));
        for expected in [100, 200, 400, 800, 1600, 3000, 3000] {
            let now = Instant::now();
            assert!(backoff.check(now).is_ok());
            backoff.record(&refused(), now);
            let wait = Duration::from_millis(expected);
            let error = backoff.check(now + wait - Duration::from_millis(1)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            tokio::time::advance(wait).await;
        }
        backoff.record(&Ok(()), Instant::now());
        assert!(backoff.check(Instant::now()).is_ok());
        backoff.record(&refused(), Instant::now());
        assert!(backoff.check(Instant::now() + BACKOFF.initial).is_ok());
    }
}
