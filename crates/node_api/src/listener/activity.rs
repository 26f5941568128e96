//! Whether a connection is used.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
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

/// The body of an answer, which is under way until it was sent.
pub(super) struct AnswerBody {
    pub(super) body: Body,
    pub(super) _under_way: UnderWay,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
