//! Metrics of requests to the API server.

use std::time::Duration;

/// A request to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRequest<'a> {
    /// Such as `GET`.
    pub method: &'a str,
    /// The server's name with its port.
    pub host: &'a str,
}

/// Counts requests. Must not block.
pub trait RequestMeter: Send + Sync {
    /// A response with this status code arrived, or `None` for a connection error.
    fn answered(&self, request: SentRequest<'_>, code: Option<u16>);
    /// A request other than a watch ended. `took` includes waiting and retries; `bytes` is the size of its body.
    fn ended(&self, request: SentRequest<'_>, took: Duration, bytes: u64);
    /// The body of a response other than a watch was read.
    fn received(&self, request: SentRequest<'_>, bytes: u64);
    /// The server's name was resolved.
    fn resolved(&self, host: &str, took: Duration);
    /// A request waited for the client-side rate limit.
    fn waited(&self, request: SentRequest<'_>, took: Duration);
    /// A request is retried after this status code.
    fn repeated(&self, request: SentRequest<'_>, code: u16);
}

impl RequestMeter for () {
    fn answered(&self, _: SentRequest<'_>, _: Option<u16>) {}
    fn ended(&self, _: SentRequest<'_>, _: Duration, _: u64) {}
    fn received(&self, _: SentRequest<'_>, _: u64) {}
    fn resolved(&self, _: &str, _: Duration) {}
    fn waited(&self, _: SentRequest<'_>, _: Duration) {}
    fn repeated(&self, _: SentRequest<'_>, _: u16) {}
}
