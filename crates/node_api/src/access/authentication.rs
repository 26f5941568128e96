//! Authenticates requests by client certificate or bearer token, or as the anonymous user.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::User;
use ports::api::ApiError;
use ports::api::token_reviews::ApiTokenReviews;
use ports::served::client_certificates::ClientCertificates;
use sha2::{Digest, Sha256};

use super::review_cache::ReviewCache;
use crate::peer::Peer;

const MAX_CACHED_TOKENS: usize = 4096;
/// How long an unknown token is cached. It is short because the token may become valid.
const UNKNOWN_TTL: Duration = Duration::from_secs(10);
/// A WebSocket protocol that carries a token, because browsers cannot set other headers on a WebSocket.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
const BEARER: &str = "bearer ";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";

/// Checks bearer tokens with the API server.
pub struct TokenChecks {
    reviews: Arc<dyn ApiTokenReviews>,
    known_ttl: Duration,
    /// By digest, so that tokens do not stay in memory.
    cache: ReviewCache<[u8; 32], Option<User>>,
}

impl TokenChecks {
    /// `ttl` is `authentication.webhook.cacheTTL`.
    #[must_use]
    pub fn new(reviews: Arc<dyn ApiTokenReviews>, ttl: Duration) -> Self {
        Self { reviews, known_ttl: ttl, cache: ReviewCache::new(MAX_CACHED_TOKENS) }
    }

    async fn owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        let key: [u8; 32] = Sha256::digest(token).into();
        let (reviews, token) = (self.reviews.clone(), token.to_owned());
        let review = move || {
            let (reviews, token) = (reviews.clone(), token.clone());
            async move { reviews.owner(&token).await }
        };
        let ttl = |owner: &Option<User>| match owner {
            Some(_) => self.known_ttl,
            None => self.known_ttl.min(UNKNOWN_TTL),
        };
        self.cache.get(key, review, ttl).await
    }
}

/// The authentication methods that are enabled.
#[derive(Default)]
pub struct Authentication {
    /// Client certificates, with `authentication.x509.clientCAFile`.
    pub certificates: Option<Arc<dyn ClientCertificates>>,
    /// Bearer tokens, with `authentication.webhook.enabled`.
    pub tokens: Option<TokenChecks>,
    /// `authentication.anonymous.enabled`.
    pub anonymous: bool,
}

impl Authentication {
    /// A request with invalid credentials is rejected, also where anonymous requests are allowed.
    pub(super) async fn user(&self, peer: &Peer, headers: &mut HeaderMap) -> Result<User, String> {
        let mut failures = Vec::new();
        if let Some(authorities) = self.certificates.as_ref().filter(|_| peer.has_certificate()) {
            match authorities.owner(&peer.certificates()) {
                Ok(user) => return Ok(authenticated(user)),
                Err(error) => failures.push(error.to_string()),
            }
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, take_token(headers)) {
            match tokens.owner(&token).await {
                Ok(Some(user)) => return Ok(authenticated(user)),
                Ok(None) => failures.push("invalid bearer token".to_owned()),
                Err(error) => {
                    tracing::warn!(%error, "failed to review token with the API server");
                    failures.push(error.to_string());
                }
            }
        }
        match failures.as_slice() {
            [] if self.anonymous => Ok(anonymous()),
            [] => Err("no credentials".to_owned()),
            _ => Err(failures.join(", ")),
        }
    }
}

fn authenticated(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

fn anonymous() -> User {
    User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
}

/// The bearer token of a request. A token in the WebSocket protocol header is removed, so that no handler sees it.
fn take_token(headers: &mut HeaderMap) -> Option<String> {
    if let Some(value) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) {
        let start = value.get(..BEARER.len())?;
        let token = value.get(BEARER.len()..)?.trim();
        return (start.eq_ignore_ascii_case(BEARER) && !token.is_empty()).then(|| token.to_owned());
    }
    let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let protocols: Vec<String> =
        protocols.flat_map(|value| value.split(',')).map(|part| part.trim().to_owned()).collect();
    let encoded = protocols.iter().find_map(|protocol| protocol.strip_prefix(TOKEN_PROTOCOL))?;
    let token = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()?;
    let others: Vec<&str> = (protocols.iter().map(String::as_str))
        .filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL))
        .collect();
    // A server must choose one of the offered protocols, and may not choose the token.
    let others = HeaderValue::from_str(&others.join(",")).ok().filter(|_| !others.is_empty())?;
    headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    Some(token).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (name.parse().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn reads_token_from_authorization_or_websocket_protocol() {
        fn token(pairs: &[(&'static str, &str)]) -> Option<String> {
            take_token(&mut headers(pairs))
        }
        assert_eq!(token(&[("authorization", "Bearer abc")]).as_deref(), Some("abc"));
        assert_eq!(token(&[("authorization", "bearer  abc ")]).as_deref(), Some("abc"));
        for bad in ["Bearer ", "Basic abc", "Bearer", ""] {
            assert_eq!(token(&[("authorization", bad)]), None, "{bad:?}");
        }
        let protocols = format!("v4.channel.k8s.io, {TOKEN_PROTOCOL}YWJj");
        let mut with_token = headers(&[("sec-websocket-protocol", &protocols)]);
        assert_eq!(take_token(&mut with_token).as_deref(), Some("abc"));
        assert_eq!(with_token.get(SEC_WEBSOCKET_PROTOCOL).unwrap(), "v4.channel.k8s.io");
        let alone = format!("{TOKEN_PROTOCOL}YWJj");
        assert_eq!(token(&[("sec-websocket-protocol", &alone)]), None, "nothing else to choose");
    }
}
