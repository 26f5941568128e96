//! A fake logind.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::host::logind::{InhibitorLock, Logind, LogindError, LogindSession, ShutdownSignal};
use tokio::sync::mpsc;

#[derive(Debug, Default)]
pub struct LogindState {
    /// Whether connections fail.
    pub away: bool,
    pub silent: bool,
    /// Whether a shutdown is in progress. Inhibitor locks are refused then.
    pub preparing: bool,
    pub delay: Duration,
    /// The longest inhibitor delay that it can be configured to.
    pub highest_delay: Duration,
    pub conversations: usize,
    pub raised: Vec<Duration>,
    pub locks_taken: usize,
    pub locks_held: usize,
    listeners: Vec<mpsc::UnboundedSender<ShutdownSignal>>,
}

/// Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct FakeLogind(Arc<Mutex<LogindState>>);

impl FakeLogind {
    /// A logind that accepts any inhibitor delay.
    #[must_use]
    pub fn with_unlimited_delay() -> Self {
        let logind = Self::default();
        logind.change(|world| world.delay = Duration::from_secs(3600));
        logind
    }

    /// Reads or changes the state.
    pub fn change<T>(&self, change: impl FnOnce(&mut LogindState) -> T) -> T {
        change(&mut self.0.lock())
    }

    /// Starts or cancels a shutdown and sends the signal.
    pub fn signal(&self, signal: ShutdownSignal) {
        self.change(|world| {
            world.preparing = signal == ShutdownSignal::Imminent;
            world.listeners.retain(|listener| listener.send(signal).is_ok());
        });
    }

    /// Closes all connections.
    pub fn disconnect_all(&self) {
        self.change(|world| world.listeners.clear());
    }

    async fn answer<T>(
        &self,
        operation: &'static str,
        answer: impl FnOnce(&mut LogindState) -> Result<T, &'static str>,
    ) -> Result<T, LogindError> {
        if self.change(|world| world.silent) {
            std::future::pending::<()>().await;
        }
        let away = self.change(|world| world.away);
        let answered = if away { Err("away") } else { self.change(answer) };
        answered.map_err(|reason| LogindError { operation, reason: reason.to_owned() })
    }
}

#[async_trait]
impl Logind for FakeLogind {
    async fn connect(&self) -> Result<Box<dyn LogindSession>, LogindError> {
        let signals = self
            .answer("connect", |world| {
                let (listener, signals) = mpsc::unbounded_channel();
                world.listeners.push(listener);
                world.conversations += 1;
                Ok(signals)
            })
            .await?;
        Ok(Box::new(Session { logind: self.clone(), signals }))
    }
}

struct Session {
    logind: FakeLogind,
    signals: mpsc::UnboundedReceiver<ShutdownSignal>,
}

struct Held(FakeLogind);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.change(|world| world.locks_held -= 1);
    }
}

#[async_trait]
impl LogindSession for Session {
    async fn max_delay(&mut self) -> Result<Duration, LogindError> {
        self.logind.answer("read the delay", |world| Ok(world.delay)).await
    }

    async fn raise_max_delay(&mut self, to: Duration) -> Result<(), LogindError> {
        self.logind
            .answer("raise the delay", |world| {
                world.raised.push(to);
                world.delay = to.min(world.highest_delay).max(world.delay);
                Ok(())
            })
            .await
    }

    async fn is_shutting_down(&mut self) -> Result<bool, LogindError> {
        self.logind.answer("ask for the shutdown", |world| Ok(world.preparing)).await
    }

    async fn inhibit(&mut self) -> Result<InhibitorLock, LogindError> {
        let taken = self.logind.answer("inhibit", |world| {
            if world.preparing {
                return Err("already running");
            }
            world.locks_taken += 1;
            world.locks_held += 1;
            Ok(())
        });
        taken.await?;
        Ok(InhibitorLock::new(Held(self.logind.clone())))
    }

    async fn next(&mut self) -> Result<ShutdownSignal, LogindError> {
        let ended = || LogindError { operation: "listen", reason: "hung up".to_owned() };
        self.signals.recv().await.ok_or_else(ended)
    }
}
