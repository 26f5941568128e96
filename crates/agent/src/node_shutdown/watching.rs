//! The conversation with logind, begun again when it breaks off.

use std::time::Duration;

use decide::node_shutdown::Onset;
use ports::logind::{InhibitorLock, Logind, LogindError, LogindSession, ShutdownSignal};
use tokio::sync::mpsc;

/// First and longest pause before logind is tried again.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);
/// A longer delay counts a little after it was asked for: looks, and the pause after the first one, doubled each time.
const LOOKS: u32 = 5;
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// What is known of the machine.
#[derive(Debug)]
pub(super) enum News {
    /// It stays up, and its end is held up for us.
    Armed(InhibitorLock),
    /// It goes down.
    Imminent(Onset),
    /// It does not after all.
    Cancelled,
    /// Nothing is known.
    OutOfReach,
}

pub(super) struct Watcher<'a> {
    pub(super) logind: &'a dyn Logind,
    /// How long the machine's end must be held up.
    pub(super) needed: Duration,
    pub(super) news: mpsc::UnboundedSender<News>,
}

impl Watcher<'_> {
    pub(super) async fn run(self) {
        let mut pause = PAUSE_FIRST;
        let mut told = None;
        loop {
            let mut begun = false;
            let Err(error) = self.converse(&mut begun).await;
            if begun {
                (pause, told) = (PAUSE_FIRST, None);
            }
            self.tell(News::OutOfReach);
            // The same again and again says nothing new.
            if told.as_ref() != Some(&error) {
                tracing::error!(%error, "the machine's shutdown is not watched; pods may not end in order with it");
                told = Some(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LONGEST);
        }
    }

    /// Listens until the conversation ends; `begun` tells that it came so far.
    async fn converse(&self, begun: &mut bool) -> Result<std::convert::Infallible, LogindError> {
        let mut session = self.logind.connect().await?;
        // Whoever shuts down gives out no locks, and tells it only once.
        if session.is_shutting_down().await? {
            self.tell(News::Imminent(Onset::FoundUnderWay));
        } else {
            self.arm(&mut *session).await?;
            tracing::info!("the machine's shutdown is watched and held up for pods");
        }
        *begun = true;
        loop {
            match session.next().await? {
                ShutdownSignal::Imminent => self.tell(News::Imminent(Onset::Signalled)),
                ShutdownSignal::Cancelled => {
                    self.tell(News::Cancelled);
                    self.arm(&mut *session).await?;
                }
            }
        }
    }

    async fn arm(&self, session: &mut dyn LogindSession) -> Result<(), LogindError> {
        if session.longest_delay().await? < self.needed {
            session.raise_longest_delay(self.needed).await?;
            self.await_delay(session).await?;
        }
        self.tell(News::Armed(session.inhibit().await?));
        Ok(())
    }

    async fn await_delay(&self, session: &mut dyn LogindSession) -> Result<(), LogindError> {
        let mut delay = session.longest_delay().await?;
        for look in 1..LOOKS {
            if delay >= self.needed {
                return Ok(());
            }
            tokio::time::sleep(LOOK_PAUSE * 2_u32.pow(look - 1)).await;
            delay = session.longest_delay().await?;
        }
        if delay >= self.needed {
            return Ok(());
        }
        let reason = format!(
            "InhibitDelayMaxSec of logind stays at {delay:?} though the shutdown grace periods of pods need {:?}; \
             another file in logind.conf.d may set it",
            self.needed
        );
        Err(LogindError { operation: "raise the longest delay of a shutdown", reason })
    }

    fn tell(&self, news: News) {
        // Fails only while the agent stops.
        let _ = self.news.send(news);
    }
}
