//! The end of the machine: the node stops being ready and takes no pods, those it has end by priority, and the machine
//! waits for that.
//!
//! Comes in: what logind says ([`watching`]). Goes out: kill requests to the sync loop, one group of pods after the other
//! ([`ending`]), whether the machine goes down (`node_inputs`), events on the node, and a record on disk ([`record`]).
//! Whether the machine goes down is asked of logind at every start, so an agent that was killed meanwhile goes on.

mod ending;
mod record;
#[cfg(test)]
mod tests;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use decide::admission::Shutdown;
use decide::node_shutdown::{EVENT, Onset, Periods};
use futures::future::BoxFuture;
use model::{EventSubject, EventType, Pod, RecordedEvent, WorkerView};
use ports::checkpoints::Checkpoints;
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::logind::{InhibitorLock, Logind};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::messages::KillRequest;
use crate::metrics::ShutdownMetrics;
use crate::published::Reader;
use ending::Ordered;
use watching::{News, Watcher};

/// How long pods wait at the start of the agent to hear whether the machine goes down.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// What the stage needs.
pub struct Parts {
    /// Who shuts the machine down.
    pub logind: Arc<dyn Logind>,
    /// How long pods have.
    pub periods: Periods,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// How far their workers are.
    pub workers: Reader<WorkerView>,
    /// Whether every source has spoken.
    pub sources_ready: watch::Receiver<bool>,
    /// The sync loop.
    pub kills: mpsc::UnboundedSender<KillRequest>,
    /// Where it is told whether the machine goes down.
    pub report: watch::Sender<Option<Shutdown>>,
    /// Files in upstream's form.
    pub state: Arc<dyn Checkpoints>,
    /// The times of the last end, which are also kept on disk; `None` with `GracefulNodeShutdownBasedOnPodPriority` off.
    pub metrics: Option<Arc<ShutdownMetrics>>,
    /// The node's name.
    pub node: String,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Runs until cancelled. The machine's end is then held up for us no more.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = Stage { parts: &parts, lock: None, work: Work::None }.run() => {}
    }
}

struct Stage<'a> {
    parts: &'a Parts,
    lock: Option<InhibitorLock>,
    work: Work<'a>,
}

/// What there is to do.
enum Work<'a> {
    None,
    /// Pods end, group by group.
    Ending(BoxFuture<'a, Vec<Ordered>>),
    /// All groups had their time; who is still there is told as late.
    Late(BoxFuture<'a, ()>),
}

/// What came of it.
enum Done {
    Ended(Vec<Ordered>),
    Told,
}

impl Work<'_> {
    async fn progress(&mut self) -> Done {
        match self {
            Self::None => std::future::pending().await,
            Self::Ending(ending) => Done::Ended(ending.await),
            Self::Late(late) => {
                late.await;
                Done::Told
            }
        }
    }
}

impl Stage<'_> {
    async fn run(mut self) {
        self.parts.show_record().await;
        let (news, mut heard) = mpsc::unbounded_channel();
        let watcher = Watcher { logind: &*self.parts.logind, needed: self.parts.periods.whole(), news };
        let mut watching = std::pin::pin!(watcher.run());
        let mut first_look = std::pin::pin!(tokio::time::sleep(FIRST_LOOK));
        loop {
            let is_known = self.parts.report.borrow().is_some();
            tokio::select! {
                () = &mut watching => return,
                Some(news) = heard.recv() => self.hear(news).await,
                done = self.work.progress() => self.follow(done),
                () = &mut first_look, if !is_known => self.tell(Shutdown::None),
            }
        }
    }

    async fn hear(&mut self, news: News) {
        let is_down = *self.parts.report.borrow() == Some(Shutdown::Imminent);
        match news {
            News::Armed(lock) => {
                self.lock = Some(lock);
                if is_down {
                    tracing::info!("the machine stays up; that was not told while logind was out of reach");
                    self.call_off().await;
                } else {
                    self.tell(Shutdown::None);
                }
            }
            // Once is enough, also when it is heard of again.
            News::Imminent(_) if is_down => {}
            News::Imminent(onset) => self.begin(onset),
            News::Cancelled => {
                self.event("Shutdown manager detected shutdown cancellation");
                if is_down {
                    tracing::info!("the shutdown of the machine was cancelled");
                    self.call_off().await;
                }
            }
            News::OutOfReach if self.parts.report.borrow().is_none() => self.tell(Shutdown::None),
            News::OutOfReach => {}
        }
    }

    fn begin(&mut self, onset: Onset) {
        tracing::warn!(?onset, "the machine is shutting down");
        self.event("Shutdown manager detected shutdown event");
        self.tell(Shutdown::Imminent);
        self.work = Work::Ending(Box::pin(self.parts.end_pods(onset)));
    }

    /// Pods of groups that have not begun yet stay.
    async fn call_off(&mut self) {
        if let Work::Ending(ending) = std::mem::replace(&mut self.work, Work::None) {
            drop(ending);
            self.parts.record_end().await;
        }
        self.tell(Shutdown::None);
    }

    fn follow(&mut self, done: Done) {
        match done {
            Done::Ended(ordered) => {
                tracing::info!("pods have ended, or had their time; the machine may shut down");
                self.lock = None;
                self.work = Work::Late(Box::pin(self.parts.tell_all_late(ordered)));
            }
            Done::Told => self.work = Work::None,
        }
    }

    fn tell(&self, shutdown: Shutdown) {
        self.parts.report.send_if_modified(|known| known.replace(shutdown) != Some(shutdown));
    }

    fn event(&self, message: &str) {
        self.parts.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::Node(self.parts.node.clone()),
            kind: EventType::Normal,
            reason: EVENT.to_owned(),
            message: message.to_owned(),
            at: self.parts.clock.now(),
        });
    }
}
