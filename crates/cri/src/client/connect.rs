use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint as Target, Uri};
use tower::service_fn;

use super::Endpoint;

/// How long a runtime may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after the first failure.
const BASE_DELAY: Duration = Duration::from_millis(100);
/// The longest pause.
const MAX_DELAY: Duration = Duration::from_secs(3);

/// A channel that connects on first use, and anew after every loss. While the runtime is away calls fail at once,
/// and only every so often does one of them try the socket.
#[must_use]
pub fn connect(endpoint: &Endpoint) -> Channel {
    let path: Arc<std::path::Path> = endpoint.path().into();
    let pause = Arc::new(Mutex::new(Pause::default()));
    // The authority that gRPC names for unix sockets; nobody resolves it.
    Target::from_static("http://localhost").connect_with_connector_lazy(service_fn(move |_: Uri| {
        let (path, pause) = (path.clone(), pause.clone());
        async move {
            lock(&pause).check(Instant::now())?;
            let attempt = timeout(CONNECT_TIMEOUT, UnixStream::connect(&path)).await;
            let result = attempt.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let result = result.map_err(|error| {
                io::Error::new(error.kind(), format!("connect to {}: {error}", path.display()))
            });
            lock(&pause).note(&result, Instant::now());
            result.map(TokioIo::new)
        }
    }))
}

fn lock(pause: &Mutex<Pause>) -> std::sync::MutexGuard<'_, Pause> {
    pause.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Between failed attempts. Without jitter: nobody else connects in step with us.
#[derive(Debug, Default)]
enum Pause {
    #[default]
    Over,
    Until {
        at: Instant,
        delay: Duration,
        kind: io::ErrorKind,
        message: String,
    },
}

impl Pause {
    /// Fails with the last error while the pause lasts.
    fn check(&self, now: Instant) -> io::Result<()> {
        match self {
            Self::Until { at, kind, message, .. } if now < *at => Err(io::Error::new(*kind, message.clone())),
            Self::Until { .. } | Self::Over => Ok(()),
        }
    }

    fn note<T>(&mut self, result: &io::Result<T>, now: Instant) {
        let Err(error) = result else {
            *self = Self::Over;
            return;
        };
        let delay = match self {
            Self::Over => BASE_DELAY,
            Self::Until { delay, .. } => delay.saturating_mul(2).min(MAX_DELAY),
        };
        *self = Self::Until { at: now + delay, delay, kind: error.kind(), message: error.to_string() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_three_seconds_and_end_with_success() {
        let mut pause = Pause::default();
        let refused = || Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionRefused));
        for expected in [100, 200, 400, 800, 1600, 3000, 3000] {
            let now = Instant::now();
            assert!(pause.check(now).is_ok());
            pause.note(&refused(), now);
            let wait = Duration::from_millis(expected);
            let error = pause.check(now + wait - Duration::from_millis(1)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            tokio::time::advance(wait).await;
        }
        pause.note(&Ok(()), Instant::now());
        assert!(pause.check(Instant::now()).is_ok());
        pause.note(&refused(), Instant::now());
        assert!(pause.check(Instant::now() + BASE_DELAY).is_ok());
    }
}
