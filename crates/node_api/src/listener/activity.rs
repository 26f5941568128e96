//! Whether a connection is used.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Requests under way on one connection.
#[derive(Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

struct State {
    under_way: usize,
    since: Instant,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { under_way: 0, since: Instant::now() })))
    }

    /// A request begins; it ends when the result is dropped.
    pub(super) fn begin(&self) -> UnderWay {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).under_way += 1;
        UnderWay(self.clone())
    }

    /// How long nothing was under way.
    pub(super) fn idle(&self) -> Duration {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.under_way > 0 { Duration::ZERO } else { state.since.elapsed() }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).under_way > 0
    }
}

/// A request under way.
pub(super) struct UnderWay(Activity);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.under_way -= 1;
        state.since = Instant::now();
    }
}
