use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// A bucket of calls that may be made, refilled at a rate.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: f64,
    burst: f64,
    state: Mutex<(f64, Instant)>,
}

impl Rate {
    /// A full bucket.
    pub(super) fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, state: Mutex::new((burst, Instant::now())) }
    }

    /// Whether a call may be made now.
    pub(super) fn take(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (calls, at) = *state;
        let filled = (calls + now.duration_since(at).as_secs_f64() * self.per_second).min(self.burst);
        let granted = filled >= 1.0;
        *state = (if granted { filled - 1.0 } else { filled }, now);
        granted
    }
}
