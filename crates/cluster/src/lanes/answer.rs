//! The body of an answer, which ends in time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use ports::request_meter::{RequestMeter, SentRequest};
use tokio::time::{Instant, Sleep};
use tower::BoxError;

/// No answer to one question is larger; a server or proxy gone mad must not fill the node's memory.
const LARGEST: u64 = 256 * 1024 * 1024;

/// Why an answer broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    /// The deadline passed.
    #[error("no whole answer from the API server in {0:?}")]
    TooSlow(Duration),
    /// Larger than anything sensible.
    #[error("an answer of more than {LARGEST} bytes")]
    TooLarge,
}

/// What ends an answer besides its own end.
pub(crate) enum Bound {
    /// One answer to one question: an error past the deadline or when it grows without end.
    Deadline {
        /// When.
        at: Instant,
        /// How long that was from the start, for the words.
        allowed: Duration,
    },
    /// A watch: it just ends when its connection is given up, and whoever watches takes up where it ended.
    Retired(BoxFuture<'static, ()>),
}

/// A body, bounded, that counts as a stream of its connection while it exists.
pub(crate) struct Answer {
    body: Incoming,
    limit: Limit,
    tally: Option<Tally>,
    _stream: Arc<()>,
}

/// Bytes of an answer, told when it was read or given up.
pub(crate) struct Tally {
    meter: Arc<dyn RequestMeter>,
    method: Method,
    host: String,
    bytes: u64,
}

impl Tally {
    pub(crate) fn new(meter: Arc<dyn RequestMeter>, method: Method, host: String) -> Self {
        Self { meter, method, host, bytes: 0 }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let sent = SentRequest { method: self.method.as_str(), host: &self.host };
        self.meter.received(sent, self.bytes);
    }
}

enum Limit {
    Deadline { sleep: Pin<Box<Sleep>>, allowed: Duration, left: u64 },
    Retired(BoxFuture<'static, ()>),
}

impl Answer {
    pub(crate) fn new(body: Incoming, bound: Bound, stream: Arc<()>) -> Self {
        let limit = match bound {
            Bound::Deadline { at, allowed } => {
                Limit::Deadline { sleep: Box::pin(tokio::time::sleep_until(at)), allowed, left: LARGEST }
            }
            Bound::Retired(retired) => Limit::Retired(retired),
        };
        Self { body, limit, tally: None, _stream: stream }
    }

    /// Tells how large it is.
    pub(crate) fn told_to(self, tally: Tally) -> Self {
        Self { tally: Some(tally), ..self }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let frame = match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                return match &mut this.limit {
                    Limit::Deadline { sleep, allowed, .. } => sleep
                        .as_mut()
                        .poll(context)
                        .map(|()| Some(Err(AnswerError::TooSlow(*allowed).into()))),
                    Limit::Retired(retired) => retired.as_mut().poll(context).map(|()| None),
                };
            }
        };
        if let (Some(Ok(frame)), Some(tally)) = (&frame, &mut this.tally) {
            tally.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        if let (Some(Ok(frame)), Limit::Deadline { left, .. }) = (&frame, &mut this.limit) {
            let length = frame.data_ref().map_or(0, |data| data.len() as u64);
            let Some(rest) = left.checked_sub(length) else {
                return Poll::Ready(Some(Err(AnswerError::TooLarge.into())));
            };
            *left = rest;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
