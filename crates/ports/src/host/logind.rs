//! systemd-logind: inhibitor locks and shutdown signals.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

/// A failed call to logind. The session is unusable afterwards; a new one may work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {reason}")]
pub struct LogindError {
    /// The failed operation.
    pub operation: &'static str,
    /// The reason.
    pub reason: String,
}

/// A broadcast signal from logind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownSignal {
    /// The machine shuts down as soon as all inhibitor locks are released.
    Imminent,
    /// The shutdown was cancelled.
    Cancelled,
}

/// Delays the shutdown of the machine until it is dropped, or until logind's maximum delay has passed.
pub struct InhibitorLock(#[expect(dead_code, reason = "only its drop matters")] Box<dyn Send + Sync>);

impl InhibitorLock {
    /// A lock that is released when `held` is dropped.
    #[must_use]
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for InhibitorLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InhibitorLock")
    }
}

/// Connects to logind.
#[async_trait]
pub trait Logind: Send + Sync {
    /// Opens a session. Signals from then on are not missed. Has a deadline.
    async fn connect(&self) -> Result<Box<dyn LogindSession>, LogindError>;
}

/// A session with logind. Every call has a deadline; after a failure the session must be dropped.
#[async_trait]
pub trait LogindSession: Send {
    /// The maximum delay of a shutdown (`InhibitDelayMaxSec`).
    async fn max_delay(&mut self) -> Result<Duration, LogindError>;

    /// Requests a longer maximum permanently. Takes effect a little later, or never if the administrator overrides it.
    async fn raise_max_delay(&mut self, to: Duration) -> Result<(), LogindError>;

    /// Whether the machine is shutting down.
    async fn is_shutting_down(&mut self) -> Result<bool, LogindError>;

    /// Takes an inhibitor lock. Rejected during a shutdown.
    async fn inhibit(&mut self) -> Result<InhibitorLock, LogindError>;

    /// The next signal; waits without a deadline. Cancel safe. Fails when the connection has ended.
    async fn next(&mut self) -> Result<ShutdownSignal, LogindError>;
}
