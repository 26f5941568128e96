//! The one who shuts the machine down, and waits for those who ask it to.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

/// What went wrong between us and the one who shuts the machine down. A conversation that failed is given up; a new one
/// may go well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {reason}")]
pub struct LogindError {
    /// What was tried.
    pub operation: &'static str,
    /// What came of it.
    pub reason: String,
}

/// Something that was said to everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownSignal {
    /// The machine shuts down as soon as those who hold it up let it.
    Imminent,
    /// It does not after all.
    Cancelled,
}

/// Holds up the end of the machine until it is dropped, or until it has waited for as long as it waits for anybody.
pub struct InhibitorLock(#[expect(dead_code, reason = "what counts is when it goes")] Box<dyn Send + Sync>);

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

/// Reaches the one who shuts the machine down.
#[async_trait]
pub trait Logind: Send + Sync {
    /// Begins a conversation. What is said to everyone from then on is not missed. Has a deadline.
    async fn connect(&self) -> Result<Box<dyn LogindSession>, LogindError>;
}

/// A conversation. Every question has a deadline; after a failure it must be given up.
#[async_trait]
pub trait LogindSession: Send {
    /// The longest that the machine's end is held up for anybody.
    async fn longest_delay(&mut self) -> Result<Duration, LogindError>;

    /// Asks for a longer one, for good. It counts a little later, or never where the machine's owner says otherwise.
    async fn raise_longest_delay(&mut self, to: Duration) -> Result<(), LogindError>;

    /// Whether the machine is shutting down.
    async fn is_shutting_down(&mut self) -> Result<bool, LogindError>;

    /// Asks to be waited for when the machine shuts down. Refused while it does.
    async fn inhibit(&mut self) -> Result<InhibitorLock, LogindError>;

    /// The next thing that is said to everyone; waits without a deadline and loses nothing when it is given up. Fails
    /// when the conversation has ended.
    async fn next(&mut self) -> Result<ShutdownSignal, LogindError>;
}
