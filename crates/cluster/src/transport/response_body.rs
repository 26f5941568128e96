//! A response body with a deadline and a size limit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use ports::telemetry::request_meter::{RequestMeter, SentRequest};
use tokio::time::{Instant, Sleep};
use tower::BoxError;

/// Protects the node's memory from a faulty server or proxy.
const MAX_RESPONSE_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ResponseError {
    #[error("no complete response from the API server within {0:?}")]
    Timeout(Duration),
    #[error("response of the API server exceeds {MAX_RESPONSE_BYTES} bytes")]
    TooLarge,
}

pub(crate) enum BodyLimit {
    /// For all requests but watches: fails after the deadline or above [`MAX_RESPONSE_BYTES`].
    Deadline {
        sleep: Pin<Box<Sleep>>,
        /// The duration that ends with `sleep`, for the error message.
        timeout: Duration,
        bytes_left: u64,
    },
    /// For watches: ends without an error when the connection is retired, so that the watcher resumes on a new one.
    Retired(BoxFuture<'static, ()>),
}

impl BodyLimit {
    pub(crate) fn deadline(deadline: Instant, timeout: Duration) -> Self {
        let sleep = Box::pin(tokio::time::sleep_until(deadline));
        Self::Deadline { sleep, timeout, bytes_left: MAX_RESPONSE_BYTES }
    }
}

/// A response body that counts as a stream of its connection until it is dropped.
pub(crate) struct ResponseBody {
    body: Incoming,
    limit: BodyLimit,
    counter: Option<ByteCounter>,
    _stream: Arc<()>,
}

/// Counts the bytes of a response and reports them to the meter on drop.
pub(crate) struct ByteCounter {
    meter: Arc<dyn RequestMeter>,
    method: Method,
    host: String,
    bytes: u64,
}

impl ByteCounter {
    pub(crate) fn new(meter: Arc<dyn RequestMeter>, method: Method, host: String) -> Self {
        Self { meter, method, host, bytes: 0 }
    }
}

impl Drop for ByteCounter {
    fn drop(&mut self) {
        let sent = SentRequest { method: self.method.as_str(), host: &self.host };
        self.meter.received(sent, self.bytes);
    }
}

impl ResponseBody {
    pub(crate) fn new(body: Incoming, limit: BodyLimit, stream: Arc<()>) -> Self {
        Self { body, limit, counter: None, _stream: stream }
    }

    pub(crate) fn counted_by(self, counter: ByteCounter) -> Self {
        Self { counter: Some(counter), ..self }
    }
}

impl Body for ResponseBody {
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
                    BodyLimit::Deadline { sleep, timeout, .. } => sleep
                        .as_mut()
                        .poll(context)
                        .map(|()| Some(Err(ResponseError::Timeout(*timeout).into()))),
                    BodyLimit::Retired(retired) => retired.as_mut().poll(context).map(|()| None),
                };
            }
        };
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        let length = data.map_or(0, |data| data.len() as u64);
        if let Some(counter) = &mut this.counter {
            counter.bytes += length;
        }
        if let BodyLimit::Deadline { bytes_left, .. } = &mut this.limit {
            let Some(rest) = bytes_left.checked_sub(length) else {
                return Poll::Ready(Some(Err(ResponseError::TooLarge.into())));
            };
            *bytes_left = rest;
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
