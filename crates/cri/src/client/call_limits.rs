//! Limits of calls at the same time. When many pods start at once, more concurrent calls do not start them faster, but cost
//! memory in the agent and the runtime.

use std::time::Duration;

use model::StartUrgency;
use timing::Limiter;

const MAX_CONCURRENT_CALLS: usize = 32;
/// A call that takes longer goes on without its permit, so that calls that hang do not block those of other pods.
const MAX_HOLD: Duration = Duration::from_secs(2);

/// Sandboxes have separate limits because a network plugin that hangs delays only them.
#[derive(Debug)]
pub(super) struct CallLimits {
    sandboxes: Limiter,
    urgent_sandboxes: Limiter,
    containers: Limiter,
}

/// Which limit applies to a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallLimit {
    Unlimited,
    Sandbox(StartUrgency),
    Container,
}

impl CallLimit {
    /// The limit of calls other than the creation of sandboxes.
    pub(super) fn of(operation: &str) -> Self {
        match operation {
            "create_container" | "start_container" | "image_status" => Self::Container,
            _ => Self::Unlimited,
        }
    }
}

impl Default for CallLimits {
    fn default() -> Self {
        let limiter = || Limiter::new(MAX_CONCURRENT_CALLS, MAX_HOLD);
        Self { sandboxes: limiter(), urgent_sandboxes: limiter(), containers: limiter() }
    }
}

impl CallLimits {
    pub(super) async fn run<T>(&self, limit: CallLimit, call: impl Future<Output = T>) -> T {
        let limiter = match limit {
            CallLimit::Unlimited => return call.await,
            CallLimit::Sandbox(StartUrgency::Ordinary) => &self.sandboxes,
            CallLimit::Sandbox(StartUrgency::Urgent) => &self.urgent_sandboxes,
            CallLimit::Container => &self.containers,
        };
        limiter.run(call).await
    }
}
