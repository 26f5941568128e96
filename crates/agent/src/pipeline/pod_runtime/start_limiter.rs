//! Limits the number of pods that start in parallel. With more starts than the CPUs can handle all pods become ready late,
//! instead of some of them early.

use std::time::Duration;

use decide::pipeline::start_limit::max_parallel_starts;
use model::StartUrgency;
use timing::{Limiter, Permit};

/// A permit is released after this time even if the start goes on, so that a pod that waits for its network or an image
/// pull does not block others.
const MAX_HOLD: Duration = Duration::from_secs(2);

/// Issues permits in the order of the requests. Urgent pods do not wait for others.
pub(super) struct StartLimiter {
    ordinary: Limiter,
    urgent: Limiter,
}

impl StartLimiter {
    pub(super) fn new(cpus: usize) -> Self {
        let limiter = || Limiter::new(max_parallel_starts(cpus), MAX_HOLD);
        Self { ordinary: limiter(), urgent: limiter() }
    }

    /// Creates the permit of one start. It is not acquired yet.
    pub(super) fn permit(&self, urgency: StartUrgency) -> Permit {
        match urgency {
            StartUrgency::Ordinary => self.ordinary.permit(),
            StartUrgency::Urgent => self.urgent.permit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn urgent_pods_do_not_wait_for_ordinary_ones() {
        let limiter = StartLimiter::new(1);
        let held: Vec<Permit> = (0..8).map(|_| limiter.permit(StartUrgency::Ordinary)).collect();
        for permit in &held {
            permit.acquire().await;
        }
        let moment = Duration::from_millis(1);
        let ordinary = limiter.permit(StartUrgency::Ordinary);
        assert!(tokio::time::timeout(moment, ordinary.acquire()).await.is_err());
        let urgent = limiter.permit(StartUrgency::Urgent);
        assert!(tokio::time::timeout(moment, urgent.acquire()).await.is_ok());
    }
}
