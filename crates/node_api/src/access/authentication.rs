//! Who asks: by certificate, by token, or nobody in particular.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::User;
use ports::api::ApiError;
use ports::api::token_reviews::ApiTokenReviews;
use ports::client_certificates::ClientCertificates;
use sha2::{Digest, Sha256};

use super::verdicts::Verdicts;
use crate::peer::Peer;

/// Verdicts on tokens that are remembered.
const REMEMBERED: usize = 4096;
/// A token that nobody knows may become known, and is soon asked for again.
const UNKNOWN_TTL: Duration = Duration::from_secs(10);
/// Browsers cannot send other headers with a WebSocket.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
const BEARER: &str = "bearer ";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";

/// Bearer tokens, checked with the API server.
pub struct TokenChecks {
    reviews: Arc<dyn ApiTokenReviews>,
    known_ttl: Duration,
    /// By digest: tokens themselves are not kept.
    verdicts: Verdicts<[u8; 32], Option<User>>,
}

impl TokenChecks {
    /// Remembers a verdict as long as `authentication.webhook.cacheTTL` says.
    #[must_use]
    pub fn new(reviews: Arc<dyn ApiTokenReviews>, ttl: Duration) -> Self {
        Self { reviews, known_ttl: ttl, verdicts: Verdicts::new(REMEMBERED) }
    }

    async fn owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        let key: [u8; 32] = Sha256::digest(token).into();
        let (reviews, token) = (self.reviews.clone(), token.to_owned());
        let ask = move || {
            let (reviews, token) = (reviews.clone(), token.clone());
            async move { reviews.owner(&token).await }
        };
        let ttl = |owner: &Option<User>| match owner {
            Some(_) => self.known_ttl,
            None => self.known_ttl.min(UNKNOWN_TTL),
        };
        self.verdicts.get(key, ask, ttl).await
    }
}

/// How clients prove who they are.
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
    /// Who asks. A credential that is wrong is never taken for none.
    pub(super) async fn user(&self, peer: &Peer, headers: &mut HeaderMap) -> Result<User, String> {
        let mut wrong = Vec::new();
        if let Some(authorities) = self.certificates.as_ref().filter(|_| peer.has_certificate()) {
            match authorities.owner(&peer.certificates()) {
                Ok(user) => return Ok(known(user)),
                Err(error) => wrong.push(error.to_string()),
            }
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, take_token(headers)) {
            match tokens.owner(&token).await {
                Ok(Some(user)) => return Ok(known(user)),
                Ok(None) => wrong.push("invalid bearer token".to_owned()),
                Err(error) => {
                    tracing::warn!(%error, "the API server could not be asked about a token");
                    wrong.push(error.to_string());
                }
            }
        }
        match wrong.as_slice() {
            [] if self.anonymous => Ok(nobody()),
            [] => Err("no credentials".to_owned()),
            _ => Err(wrong.join(", ")),
        }
    }
}

fn known(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

fn nobody() -> User {
    User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
}

/// The token of a request. One that came as a WebSocket protocol is taken out: nobody further on may see it.
fn take_token(headers: &mut HeaderMap) -> Option<String> {
    if let Some(value) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) {
        let start = value.get(..BEARER.len())?;
        let token = value.get(BEARER.len()..)?.trim();
        return (start.eq_ignore_ascii_case(BEARER) && !token.is_empty()).then(|| token.to_owned());
    }
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<String> =
        offered.flat_map(|value| value.split(',')).map(|part| part.trim().to_owned()).collect();
    let encoded = offered.iter().find_map(|protocol| protocol.strip_prefix(TOKEN_PROTOCOL))?;
    let token = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()?;
    let others: Vec<&str> = (offered.iter().map(String::as_str))
        .filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL))
        .collect();
    // A server must choose one of those offered, and may not choose the token.
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
    fn tokens_come_in_two_headers() {
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
