//! Requests that wait for their client, by the one-time token of their URL.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;
use tokio::time::Instant;

use super::backend::StreamOptions;

const LIFETIME: Duration = Duration::from_secs(60);
const MAX_WAITING: usize = 1000;
const TOKEN_BYTES: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    pub container: String,
    pub command: Vec<String>,
    pub options: StreamOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachRequest {
    pub container: String,
    pub options: StreamOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortForwardRequest {
    pub sandbox: String,
    /// Used by clients that do not name the port of each stream.
    pub ports: Vec<u16>,
}

/// A request of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamRequest {
    Exec(ExecRequest),
    Attach(AttachRequest),
    PortForward(PortForwardRequest),
}

impl StreamRequest {
    /// The first part of the URL's path.
    pub(super) fn route(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Attach(_) => "attach",
            Self::PortForward(_) => "portforward",
        }
    }
}

/// CRI answers with the code ResourceExhausted.
#[derive(Debug, Error)]
pub enum TooManyRequests {
    #[error("maximum number of in-flight streaming requests exceeded")]
    Waiting,
    #[error("the system has no random numbers")]
    Random,
}

/// The requests in the order in which they expire.
#[derive(Default)]
pub(super) struct Tokens {
    waiting: Mutex<VecDeque<WaitingRequest>>,
}

struct WaitingRequest {
    token: String,
    request: StreamRequest,
    until: Instant,
}

impl Tokens {
    /// Keeps a request for one minute; returns its token.
    pub(super) fn insert(&self, request: StreamRequest) -> Result<String, TooManyRequests> {
        let mut random = [0; TOKEN_BYTES];
        SystemRandom::new().fill(&mut random).map_err(|_| TooManyRequests::Random)?;
        let token = URL_SAFE_NO_PAD.encode(random);
        let now = Instant::now();
        let mut waiting = self.waiting.lock();
        while waiting.front().is_some_and(|first| first.until <= now) {
            waiting.pop_front();
        }
        if waiting.len() >= MAX_WAITING {
            return Err(TooManyRequests::Waiting);
        }
        waiting.push_back(WaitingRequest { token: token.clone(), request, until: now + LIFETIME });
        Ok(token)
    }

    /// Takes the request of a URL. A URL of another route does not use up the token.
    pub(super) fn take(&self, route: &str, token: &str) -> Option<StreamRequest> {
        let now = Instant::now();
        let mut waiting = self.waiting.lock();
        let matches = |entry: &WaitingRequest| entry.token == token && entry.request.route() == route;
        let found = waiting.iter().position(matches)?;
        waiting.remove(found).filter(|entry| entry.until > now).map(|entry| entry.request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> StreamRequest {
        StreamRequest::Attach(AttachRequest { container: "c".into(), options: StreamOptions::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn token_works_once_and_on_its_route_only() {
        let tokens = Tokens::default();
        let token = tokens.insert(request()).unwrap();
        assert_eq!(tokens.take("exec", &token), None);
        assert_eq!(tokens.take("attach", "other"), None);
        assert_eq!(tokens.take("attach", &token), Some(request()));
        assert_eq!(tokens.take("attach", &token), None);
    }

    #[tokio::test(start_paused = true)]
    async fn token_expires_after_a_minute() {
        let tokens = Tokens::default();
        let token = tokens.insert(request()).unwrap();
        tokio::time::advance(LIFETIME).await;
        assert_eq!(tokens.take("attach", &token), None);
    }

    #[tokio::test(start_paused = true)]
    async fn thousand_waiting_requests_are_the_limit_until_they_expire() {
        let tokens = Tokens::default();
        for _ in 0..MAX_WAITING {
            tokens.insert(request()).unwrap();
        }
        assert!(matches!(tokens.insert(request()), Err(TooManyRequests::Waiting)));
        tokio::time::advance(LIFETIME).await;
        tokens.insert(request()).unwrap();
    }
}
