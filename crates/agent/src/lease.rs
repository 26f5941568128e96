//! The node's lease: the proof of life that the control plane waits for.
//!
//! It has a client and a task of its own and shares nothing with other work, so that a busy node never looks dead.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use decide::node_lease::{LeaseTerms, first_lease, renewed};
use decide::node_status::schedule::share;
use k8s_openapi::api::coordination::v1::Lease;
use ports::api::leases::ApiLeases;
use ports::api::{ApiError, ApiErrorKind};
use ports::clock::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api_deadline::within;
use crate::node_view::NodeView;

/// Renewals are spread by this part of their period.
const JITTER: f64 = 0.04;
/// Attempts before the next renewal.
const ATTEMPTS: usize = 5;
/// First and longest wait while the lease cannot be had.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(7);

/// What the stage needs.
pub struct Parts {
    /// The API server.
    pub leases: Arc<dyn ApiLeases>,
    /// What the lease says.
    pub terms: LeaseTerms,
    /// The node, which owns the lease.
    pub view: watch::Receiver<NodeView>,
    /// Deadline of a request.
    pub deadline: Duration,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Keeps the lease until cancelled. It is not given up at the end: the pods go on running.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = parts.keep() => {}
    }
}

impl Parts {
    async fn keep(&mut self) {
        let seconds = u64::try_from(self.terms.duration_seconds).unwrap_or(1).max(1);
        let period = Duration::from_secs(seconds) / 4;
        let mut held: Option<Lease> = None;
        loop {
            held = match held {
                Some(lease) => self.renew(&lease).await,
                None => Some(self.obtain().await),
            };
            // A lease that was lost is looked for at once.
            if held.is_some() {
                tokio::time::sleep(self.spread(period)).await;
            }
        }
    }

    /// Renews the lease; `None` when it has to be read anew.
    async fn renew(&self, lease: &Lease) -> Option<Lease> {
        for attempt in 1..=ATTEMPTS {
            let next = renewed(lease, &self.terms, self.node_uid().as_deref(), self.clock.now());
            match within(self.deadline, self.leases.replace(&next)).await {
                Ok(lease) => return Some(lease),
                // Someone else wrote it, or it is gone.
                Err(error) if matches!(error.kind, ApiErrorKind::Conflict | ApiErrorKind::NotFound) => {
                    tracing::warn!(%error, "the lease changed");
                    return None;
                }
                Err(error) => tracing::warn!(%error, attempt, "the lease cannot be renewed"),
            }
        }
        None
    }

    /// Reads and renews the lease or makes it, however long that takes.
    async fn obtain(&mut self) -> Lease {
        let mut wait = FIRST_WAIT;
        loop {
            match self.try_to_obtain().await {
                Ok(lease) => return lease,
                Err(error) => {
                    tracing::warn!(%error, "the lease cannot be had");
                    let pause = self.spread(wait).max(error.retry_after.unwrap_or_default());
                    tokio::time::sleep(pause).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
            }
        }
    }

    async fn try_to_obtain(&mut self) -> Result<Lease, ApiError> {
        match within(self.deadline, self.leases.get()).await {
            Ok(lease) => {
                let next = renewed(&lease, &self.terms, self.node_uid().as_deref(), self.clock.now());
                within(self.deadline, self.leases.replace(&next)).await
            }
            Err(error) if error.kind == ApiErrorKind::NotFound => {
                // Without an owner it would outlive its node.
                let view = crate::node_view::known(&mut self.view).await;
                let uid = uid(&view).unwrap_or_default();
                let lease = first_lease(&self.terms, &uid, self.clock.now());
                within(self.deadline, self.leases.create(&lease)).await
            }
            Err(error) => Err(error),
        }
    }

    fn node_uid(&self) -> Option<String> {
        uid(&self.view.borrow())
    }

    fn spread(&self, period: Duration) -> Duration {
        period.mul_f64(1.0 + JITTER * share(&self.terms.node, self.clock.now()))
    }
}

fn uid(view: &NodeView) -> Option<String> {
    view.node()?.metadata.uid.clone()
}
