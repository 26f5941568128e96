//! Tracks the requests in flight on a connection.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

#[derive(Clone)]
pub(super) struct ConnectionActivity(Arc<Mutex<State>>);

struct State {
    in_flight: usize,
    /// When the last request ended.
    idle_since: Instant,
}

impl ConnectionActivity {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { in_flight: 0, idle_since: Instant::now() })))
    }

    /// Starts a request, which ends when the result is dropped.
    pub(super) fn start_request(&self) -> ActiveRequest {
        self.0.lock().in_flight += 1;
        ActiveRequest(self.clone())
    }

    /// How long there has been no request.
    pub(super) fn idle_time(&self) -> Duration {
        let state = self.0.lock();
        if state.in_flight > 0 { Duration::ZERO } else { state.idle_since.elapsed() }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.0.lock().in_flight > 0
    }
}

pub(super) struct ActiveRequest(ConnectionActivity);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.in_flight -= 1;
        state.idle_since = Instant::now();
    }
}
