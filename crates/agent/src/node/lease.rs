//! Renews the node lease, the heartbeat that the control plane checks.
//!
//! The lease has a separate API client and task and shares nothing with other work, so that a busy node does not miss a
//! renewal.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use decide::node::node_lease::{LeaseSettings, first_lease, renewed};
use k8s_openapi::api::coordination::v1::Lease;
use ports::api::leases::ApiLeases;
use ports::api::{ApiError, ApiErrorKind};
use ports::clock::Clock;
use timing::{Backoff, BackoffPolicy, fraction_of, jitter};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster::api_timeout::with_timeout;
use crate::node::node_view::NodeView;

/// Maximum random part of the renewal period, as a fraction of it.
const JITTER: f64 = 0.04;
/// Attempts before the lease is read again.
const MAX_ATTEMPTS: usize = 5;
const BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_millis(200), Duration::from_secs(7)).with_jitter(JITTER);

pub struct LeaseDeps {
    pub leases: Arc<dyn ApiLeases>,
    pub settings: LeaseSettings,
    /// The node, which owns the lease.
    pub view: watch::Receiver<NodeView>,
    pub request_timeout: Duration,
    pub clock: Arc<dyn Clock>,
}

/// Renews the lease until cancelled. The lease is not released at the end, because the pods continue to run.
pub async fn run(mut deps: LeaseDeps, cancel: CancellationToken) {
    cancel.run_until_cancelled(deps.renew_forever()).await;
}

impl LeaseDeps {
    async fn renew_forever(&mut self) {
        let seconds = u64::try_from(self.settings.duration_seconds).unwrap_or(1).max(1);
        let period = Duration::from_secs(seconds) / 4;
        let mut current: Option<Lease> = None;
        loop {
            current = match current {
                Some(lease) => self.renew(&lease).await,
                None => Some(self.acquire().await),
            };
            // A lost lease is acquired again without delay.
            if current.is_some() {
                tokio::time::sleep(jitter(period, JITTER, self.random())).await;
            }
        }
    }

    /// Renews the lease; `None` when it must be read again.
    async fn renew(&self, lease: &Lease) -> Option<Lease> {
        for attempt in 1..=MAX_ATTEMPTS {
            let next = renewed(lease, &self.settings, self.node_uid().as_deref(), self.clock.now());
            match with_timeout(self.request_timeout, self.leases.replace(&next)).await {
                Ok(lease) => return Some(lease),
                Err(error) if matches!(error.kind, ApiErrorKind::Conflict | ApiErrorKind::NotFound) => {
                    tracing::warn!(%error, "node lease was changed or deleted, reading it again");
                    return None;
                }
                Err(error) => tracing::warn!(%error, attempt, "failed to renew node lease"),
            }
        }
        None
    }

    /// Renews the existing lease or creates one. Retries until it succeeds.
    async fn acquire(&mut self) -> Lease {
        let mut backoff = Backoff::new(BACKOFF);
        loop {
            match self.try_acquire().await {
                Ok(lease) => return lease,
                Err(error) => {
                    tracing::warn!(%error, "failed to acquire node lease");
                    let delay = backoff.next(self.random());
                    tokio::time::sleep(delay.max(error.retry_after.unwrap_or_default())).await;
                }
            }
        }
    }

    async fn try_acquire(&mut self) -> Result<Lease, ApiError> {
        match with_timeout(self.request_timeout, self.leases.get()).await {
            Ok(lease) => {
                let next = renewed(&lease, &self.settings, self.node_uid().as_deref(), self.clock.now());
                with_timeout(self.request_timeout, self.leases.replace(&next)).await
            }
            Err(error) if error.kind == ApiErrorKind::NotFound => {
                // Waits for the UID of the node: without an owner, the lease would not be deleted with its node.
                let view = crate::node::node_view::wait_until_known(&mut self.view).await;
                let uid = uid(&view).unwrap_or_default();
                let lease = first_lease(&self.settings, &uid, self.clock.now());
                with_timeout(self.request_timeout, self.leases.create(&lease)).await
            }
            Err(error) => Err(error),
        }
    }

    fn node_uid(&self) -> Option<String> {
        uid(&self.view.borrow())
    }

    /// A number in `0..1` for jitter that differs between nodes and over time.
    fn random(&self) -> f64 {
        fraction_of(&(&self.settings.node, self.clock.now()))
    }
}

fn uid(view: &NodeView) -> Option<String> {
    view.node()?.metadata.uid.clone()
}
