//! A stand-in for the one who shuts the machine down.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ports::logind::{InhibitorLock, Logind, LogindError, LogindSession, ShutdownSignal};
use tokio::sync::mpsc;

/// What it does and saw.
#[derive(Debug, Default)]
pub struct LogindWorld {
    /// Whether nobody can reach it.
    pub away: bool,
    /// Whether it answers nothing.
    pub silent: bool,
    /// Whether the machine goes down. Locks are refused then.
    pub preparing: bool,
    /// The longest delay.
    pub delay: Duration,
    /// The longest delay that it lets others ask for.
    pub highest_delay: Duration,
    /// Conversations begun.
    pub conversations: usize,
    /// Delays asked for.
    pub raised: Vec<Duration>,
    /// Locks taken so far.
    pub locks_taken: usize,
    /// Locks held now.
    pub locks_held: usize,
    listeners: Vec<mpsc::UnboundedSender<ShutdownSignal>>,
}

/// The stand-in; clones share it.
#[derive(Clone, Debug, Default)]
pub struct FakeLogind(Arc<Mutex<LogindWorld>>);

impl FakeLogind {
    /// One that holds up the machine's end for as long as anybody likes.
    #[must_use]
    pub fn patient() -> Self {
        let logind = Self::default();
        logind.change(|world| world.delay = Duration::from_secs(3600));
        logind
    }

    /// Changes or reads it.
    pub fn change<T>(&self, change: impl FnOnce(&mut LogindWorld) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins or cancels the end of the machine, and says so.
    pub fn signal(&self, signal: ShutdownSignal) {
        self.change(|world| {
            world.preparing = signal == ShutdownSignal::Imminent;
            world.listeners.retain(|listener| listener.send(signal).is_ok());
        });
    }

    /// Ends all conversations.
    pub fn hang_up(&self) {
        self.change(|world| world.listeners.clear());
    }

    async fn answer<T>(
        &self,
        operation: &'static str,
        answer: impl FnOnce(&mut LogindWorld) -> Result<T, &'static str>,
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
    async fn longest_delay(&mut self) -> Result<Duration, LogindError> {
        self.logind.answer("read the delay", |world| Ok(world.delay)).await
    }

    async fn raise_longest_delay(&mut self, to: Duration) -> Result<(), LogindError> {
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
