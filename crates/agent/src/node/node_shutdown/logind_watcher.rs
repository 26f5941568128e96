//! Watches logind for shutdowns and reconnects when the connection fails.

use std::time::Duration;

use decide::node::node_shutdown::ShutdownOnset;
use ports::host::logind::{InhibitorLock, Logind, LogindError, LogindSession, ShutdownSignal};
use timing::{Backoff, BackoffPolicy, random};
use tokio::sync::mpsc;

const CONNECT_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(10));
/// logind applies a raised delay asynchronously, so it is read several times.
const MAX_DELAY_CHECKS: u32 = 5;
const DELAY_CHECK_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_millis(100), Duration::from_millis(800));

#[derive(Debug)]
pub(super) enum LogindEvent {
    /// No shutdown is in progress, and the lock delays the next one.
    Armed(InhibitorLock),
    Imminent(ShutdownOnset),
    Cancelled,
    /// The shutdown state is unknown.
    Unreachable,
}

pub(super) struct LogindWatcher<'a> {
    pub(super) logind: &'a dyn Logind,
    /// How long the inhibitor lock must be able to delay a shutdown.
    pub(super) required_delay: Duration,
    pub(super) events: mpsc::UnboundedSender<LogindEvent>,
}

impl LogindWatcher<'_> {
    pub(super) async fn run(self) {
        let mut backoff = Backoff::new(CONNECT_BACKOFF);
        let mut last_error = None;
        loop {
            let mut is_connected = false;
            let Err(error) = self.watch(&mut is_connected).await;
            if is_connected {
                backoff.reset();
                last_error = None;
            }
            self.send(LogindEvent::Unreachable);
            // The same error is logged only once.
            if last_error.as_ref() != Some(&error) {
                tracing::error!(%error, "failed to watch logind; pods are not terminated gracefully at a shutdown");
                last_error = Some(error);
            }
            tokio::time::sleep(backoff.next(random())).await;
        }
    }

    /// Watches until the connection fails; sets `is_connected` once it is established.
    async fn watch(&self, is_connected: &mut bool) -> Result<std::convert::Infallible, LogindError> {
        let mut session = self.logind.connect().await?;
        // During a shutdown logind grants no locks and does not repeat its signal.
        if session.is_shutting_down().await? {
            self.send(LogindEvent::Imminent(ShutdownOnset::FoundInProgress));
        } else {
            self.arm(&mut *session).await?;
            tracing::info!("watching for shutdowns with an inhibitor lock");
        }
        *is_connected = true;
        loop {
            match session.next().await? {
                ShutdownSignal::Imminent => self.send(LogindEvent::Imminent(ShutdownOnset::Signalled)),
                ShutdownSignal::Cancelled => {
                    self.send(LogindEvent::Cancelled);
                    self.arm(&mut *session).await?;
                }
            }
        }
    }

    async fn arm(&self, session: &mut dyn LogindSession) -> Result<(), LogindError> {
        if session.max_delay().await? < self.required_delay {
            session.raise_max_delay(self.required_delay).await?;
            self.wait_for_delay(session).await?;
        }
        self.send(LogindEvent::Armed(session.inhibit().await?));
        Ok(())
    }

    async fn wait_for_delay(&self, session: &mut dyn LogindSession) -> Result<(), LogindError> {
        let mut delay = session.max_delay().await?;
        let mut backoff = Backoff::new(DELAY_CHECK_BACKOFF);
        for _ in 1..MAX_DELAY_CHECKS {
            if delay >= self.required_delay {
                return Ok(());
            }
            tokio::time::sleep(backoff.next(random())).await;
            delay = session.max_delay().await?;
        }
        if delay >= self.required_delay {
            return Ok(());
        }
        let reason = format!(
            "InhibitDelayMaxSec of logind stays at {delay:?}, but the shutdown grace periods of pods require {:?}; \
             another file in logind.conf.d may set it",
            self.required_delay
        );
        Err(LogindError { operation: "raise the maximum shutdown delay", reason })
    }

    fn send(&self, event: LogindEvent) {
        // Fails only while the agent stops.
        let _ = self.events.send(event);
    }
}
