//! Counts of requests to the API server.

use std::time::Duration;

/// Which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRequest<'a> {
    /// Such as `GET`.
    pub method: &'a str,
    /// The server's name with its port.
    pub host: &'a str,
}

/// Is told what becomes of requests. Must not block.
pub trait RequestMeter: Send + Sync {
    /// One was answered with this code, or not at all.
    fn answered(&self, request: SentRequest<'_>, code: Option<u16>);
    /// One ended that was not a watch; with all waiting and repetitions it took so long. It carried so many bytes.
    fn ended(&self, request: SentRequest<'_>, took: Duration, bytes: u64);
    /// The answer to one that was not a watch was read; it had so many bytes.
    fn received(&self, request: SentRequest<'_>, bytes: u64);
    /// The server's name was looked up in so long a time.
    fn resolved(&self, host: &str, took: Duration);
    /// One waited so long for its turn.
    fn waited(&self, request: SentRequest<'_>, took: Duration);
    /// One is sent again after an answer with this code.
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
