use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tonic::{Code, Status};

use super::rpc::{Rpc, Subject};

/// A fault of a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The call fails without doing anything.
    Fail(Code, String),
    Delay(Duration),
    /// The call starts when the test releases it, or never.
    Hang,
    /// The work is done, but the caller receives an error.
    LoseAnswer(Code),
    /// The work is done, but the response is sent only when the test releases the call, or never.
    HoldAnswer,
    /// For stop calls: nothing is done, but the caller receives success.
    ClaimStopped,
}

/// A fault and the calls that it applies to.
#[derive(Clone, Debug)]
pub struct Injection {
    rpc: Option<Rpc>,
    fault: Fault,
    subject: Option<String>,
    spared: usize,
    times: usize,
    percent: u64,
}

impl Injection {
    #[must_use]
    pub fn new(rpc: Rpc, fault: Fault) -> Self {
        Self { rpc: Some(rpc), ..Self::on_any(fault) }
    }

    #[must_use]
    pub fn on_any(fault: Fault) -> Self {
        Self { rpc: None, fault, subject: None, spared: 0, times: usize::MAX, percent: 100 }
    }

    /// Skips the next `spared` matching calls.
    #[must_use]
    pub fn sparing(self, spared: usize) -> Self {
        Self { spared, ..self }
    }

    /// Limits it to `times` matching calls.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    /// Hits this share of the matching calls, pseudo-random but the same in every run.
    #[must_use]
    pub fn percent(self, percent: u64) -> Self {
        Self { percent, ..self }
    }

    /// Limits it to calls about this ID, image, pod UID or container name.
    #[must_use]
    pub fn on(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }
}

/// Handle to an injected fault. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Injected(Arc<Rule>);

#[derive(Debug)]
struct Rule {
    injection: Injection,
    to_spare: AtomicUsize,
    left: AtomicUsize,
    /// State of the pseudo-random choice.
    random: AtomicU64,
    hits: watch::Sender<usize>,
    released: watch::Sender<bool>,
}

impl Injected {
    #[must_use]
    pub fn hits(&self) -> usize {
        *self.0.hits.borrow()
    }

    pub async fn wait_hits(&self, count: usize) {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = self.0.hits.subscribe().wait_for(|hits| *hits >= count).await;
    }

    async fn released(&self) {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = self.0.released.subscribe().wait_for(|released| *released).await;
    }

    /// Releases hanging calls; later calls pass.
    pub fn release(&self) {
        self.0.left.store(0, Ordering::SeqCst);
        self.0.released.send_replace(true);
    }
}

impl Injected {
    /// Whether this call is one of those to skip first, or is not chosen.
    fn spares(&self) -> bool {
        let count = |left: usize| left.checked_sub(1);
        self.0.to_spare.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count).is_ok() || !self.chooses()
    }

    fn chooses(&self) -> bool {
        // Knuth's MMIX generator; the high bits are the random ones.
        let step = |state: u64| {
            Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        };
        let state = self.0.random.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step).unwrap_or_default();
        (state >> 33) % 100 < self.0.injection.percent
    }
}

/// Active faults in order of injection.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Injected>>);

impl Faults {
    pub(crate) fn inject(&self, injection: Injection) -> Injected {
        let rule = Injected(Arc::new(Rule {
            to_spare: AtomicUsize::new(injection.spared),
            left: AtomicUsize::new(injection.times),
            random: AtomicU64::new(1),
            injection,
            hits: watch::Sender::new(0),
            released: watch::Sender::new(false),
        }));
        self.0.lock().push(rule.clone());
        rule
    }

    pub(crate) fn clear(&self) {
        for rule in self.0.lock().drain(..) {
            rule.release();
        }
    }

    /// Applies every matching fault to the call. The caller must complete the returned value with the response.
    pub(crate) async fn enter(&self, rpc: Rpc, subject: &Subject) -> Result<Answering, Status> {
        let mut answering = Answering { lost: None, held: None, only_claimed: false };
        for rule in self.take_hits(rpc, subject) {
            match &rule.0.injection.fault {
                Fault::Fail(code, message) => return Err(Status::new(*code, message.clone())),
                Fault::Delay(delay) => tokio::time::sleep(*delay).await,
                Fault::Hang => rule.released().await,
                Fault::LoseAnswer(code) => answering.lost = Some((rpc, *code)),
                Fault::HoldAnswer => answering.held = Some(rule),
                Fault::ClaimStopped => answering.only_claimed = true,
            }
        }
        Ok(answering)
    }

    fn take_hits(&self, rpc: Rpc, subject: &Subject) -> Vec<Injected> {
        let mut rules = self.0.lock();
        rules.retain(|rule| rule.0.left.load(Ordering::SeqCst) > 0);
        let hit = rules
            .iter()
            .filter(|rule| rule.0.injection.hits(rpc, subject) && !rule.spares())
            .cloned()
            .collect::<Vec<_>>();
        for rule in &hit {
            rule.0.left.fetch_sub(1, Ordering::SeqCst);
            rule.0.hits.send_modify(|hits| *hits += 1);
        }
        hit
    }
}

impl Injection {
    fn hits(&self, rpc: Rpc, subject: &Subject) -> bool {
        self.rpc.is_none_or(|expected| expected == rpc)
            && self.subject.as_deref().is_none_or(|expected| subject.is(expected))
    }
}

/// An admitted call; its response may still get lost.
#[derive(Debug)]
pub(crate) struct Answering {
    lost: Option<(Rpc, Code)>,
    held: Option<Injected>,
    /// Whether to skip the work.
    pub(crate) only_claimed: bool,
}

impl Answering {
    pub(crate) async fn answer<T>(self, answer: Result<T, Status>) -> Result<T, Status> {
        if let Some(rule) = &self.held {
            rule.released().await;
        }
        match self.lost {
            Some((rpc, code)) => Err(Status::new(code, format!("the answer to {rpc} was lost"))),
            None => answer,
        }
    }
}
