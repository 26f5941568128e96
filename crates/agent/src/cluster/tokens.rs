//! Service account tokens, cached until they are due for renewal.
//!
//! A token that cannot be renewed is used until it expires. While the server is unreachable it is used even after that,
//! because a pod with an expired token is better than no pod. [`Tokens::export`] and [`Tokens::seed`] transfer tokens to
//! the next agent.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::projected::service_account_tokens::renew_at;
use model::{IssuedToken, PodUid, Timestamp, TokenRequest};
use ports::api::tokens::ApiTokens;
use ports::clock::Clock;
use timing::fraction_of;

const RENEWAL_RETRY_PERIOD: Duration = Duration::from_secs(30);

pub struct Tokens {
    api: Arc<dyn ApiTokens>,
    clock: Arc<dyn Clock>,
    cached: Mutex<HashMap<TokenRequest, CachedToken>>,
}

struct CachedToken {
    token: IssuedToken,
    renew_at: Timestamp,
    /// Renewed only by the next request, not in advance.
    on_demand: bool,
}

impl Tokens {
    #[must_use]
    pub fn new(api: Arc<dyn ApiTokens>, clock: Arc<dyn Clock>) -> Self {
        Self { api, clock, cached: Mutex::default() }
    }

    /// The cached token, or a new one if it is due for renewal.
    ///
    /// # Errors
    /// Upstream's message.
    pub async fn get(&self, request: &TokenRequest) -> Result<IssuedToken, String> {
        let now = self.clock.now();
        let cached = self
            .cached
            .lock()
            .get(request)
            .filter(|cached| now < cached.renew_at)
            .map(|cached| cached.token.clone());
        if let Some(token) = cached {
            return Ok(token);
        }
        let created = self.api.create(request).await;
        let now = self.clock.now();
        match created {
            Ok(token) => {
                let renew_at = renew_at(&token, fraction_of(&(request, token.expires_at)));
                self.cached.lock().insert(
                    request.clone(),
                    CachedToken { token: token.clone(), renew_at, on_demand: false },
                );
                Ok(token)
            }
            Err(error) => {
                let mut cached = self.cached.lock();
                let Some(old) = cached.get_mut(request) else {
                    return Err(format!("failed to fetch token: {error}"));
                };
                if now > old.token.expires_at && !error.is_transient() {
                    cached.remove(request);
                    let account = format!("{:?}/{:?}", request.account, request.namespace);
                    return Err(format!("token {account} expired and refresh failed: {error}"));
                }
                tracing::warn!(pod = %request.pod_name, account = %request.account, %error, "failed to renew service account token, using the old one");
                old.renew_at = now.after(RENEWAL_RETRY_PERIOD);
                Ok(old.token.clone())
            }
        }
    }

    /// Like [`Tokens::get`] for callers that request the token again whenever they need it: the token is neither renewed in
    /// advance nor exported.
    ///
    /// # Errors
    /// As [`Tokens::get`].
    pub async fn get_on_demand(&self, request: &TokenRequest) -> Result<IssuedToken, String> {
        let token = self.get(request).await?;
        if let Some(cached) = self.cached.lock().get_mut(request) {
            cached.on_demand = true;
        }
        Ok(token)
    }

    /// When the pod's next token is due for renewal.
    #[must_use]
    pub fn renew_at(&self, uid: &PodUid) -> Option<Timestamp> {
        let cached = self.cached.lock();
        let own = cached.iter().filter(|(request, cached)| request.pod_uid == *uid && !cached.on_demand);
        own.map(|(_, cached)| cached.renew_at).min()
    }

    /// Drops the tokens of a finished pod.
    pub fn forget(&self, uid: &PodUid) {
        self.cached.lock().retain(|request, _| request.pod_uid != *uid);
    }

    /// All tokens except those on demand, for the offline cache. They are secret.
    #[must_use]
    pub fn export(&self) -> Vec<(TokenRequest, IssuedToken)> {
        let cached = self.cached.lock();
        let exported = cached.iter().filter(|(_, cached)| !cached.on_demand);
        exported.map(|(request, cached)| (request.clone(), cached.token.clone())).collect()
    }

    /// Adds the tokens of the previous agent. Existing tokens are not replaced.
    pub fn seed(&self, tokens: Vec<(TokenRequest, IssuedToken)>) {
        let mut cached = self.cached.lock();
        for (request, token) in tokens {
            let renew_at = renew_at(&token, fraction_of(&(&request, token.expires_at)));
            cached.entry(request).or_insert(CachedToken { token, renew_at, on_demand: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use model::TokenSpec;
    use ports::api::{ApiError, ApiErrorKind};
    use testkit::fake_clock::FakeClock;

    use super::*;

    #[derive(Default)]
    struct Server {
        clock: Arc<FakeClock>,
        created: Mutex<usize>,
        failure: Mutex<Option<ApiErrorKind>>,
    }

    #[async_trait]
    impl ApiTokens for Server {
        async fn create(&self, _: &TokenRequest) -> Result<IssuedToken, ApiError> {
            if let Some(kind) = *self.failure.lock() {
                return Err(ApiError { kind, message: "no".into(), retry_after: None });
            }
            let mut created = self.created.lock();
            *created += 1;
            let expires_at = self.clock.now().after(Duration::from_secs(3600));
            Ok(IssuedToken { token: format!("token {created}"), expires_at, expiration_seconds: 3600 })
        }
    }

    fn request(uid: &str) -> TokenRequest {
        TokenRequest {
            namespace: "ns".into(),
            account: "a".into(),
            account_uid: None,
            pod_name: uid.into(),
            pod_uid: uid.into(),
            wish: TokenSpec { audiences: Vec::new(), expiration_seconds: Some(3600) },
        }
    }

    #[tokio::test]
    async fn renews_token_when_due_and_falls_back_to_cached_one() {
        let server = Arc::new(Server::default());
        let tokens = Tokens::new(server.clone(), server.clock.clone());
        // Time in seconds, error of the server, expected token or error.
        let steps = [
            (0, Some(ApiErrorKind::NotFound), Err("failed to fetch token: no")),
            (0, None, Ok("token 1")),
            (2860, None, Ok("token 1")),
            (2881, Some(ApiErrorKind::Forbidden), Ok("token 1")),
            (2882, None, Ok("token 1")),
            (2912, None, Ok("token 2")),
            (2912 + 3601, Some(ApiErrorKind::Unreachable), Ok("token 2")),
            (
                2912 + 3640,
                Some(ApiErrorKind::NotFound),
                Err("token \"a\"/\"ns\" expired and refresh failed: no"),
            ),
        ];
        for (at, failure, expected) in steps {
            server.clock.set(Timestamp::from_secs(at));
            *server.failure.lock() = failure;
            let found = tokens.get(&request("u")).await;
            let found = found.as_ref().map(|token| token.token.as_str()).map_err(String::as_str);
            assert_eq!(found, expected, "at {at}");
        }
    }

    #[tokio::test]
    async fn forgets_tokens_of_pod_and_restores_exported_ones() {
        let server = Arc::new(Server::default());
        let tokens = Tokens::new(server.clone(), server.clock.clone());
        tokens.get(&request("one")).await.unwrap();
        tokens.get(&request("two")).await.unwrap();
        assert!(tokens.renew_at(&"one".into()).unwrap() <= Timestamp::from_secs(2880));
        tokens.forget(&"one".into());
        assert_eq!(tokens.renew_at(&"one".into()), None);
        let next = Tokens::new(server.clone(), server.clock.clone());
        next.seed(tokens.export());
        assert_eq!(next.get(&request("two")).await.unwrap().token, "token 2");
        assert_eq!(*server.created.lock(), 2);
    }

    #[tokio::test]
    async fn token_on_demand_is_neither_scheduled_nor_exported() {
        let server = Arc::new(Server::default());
        let tokens = Tokens::new(server.clone(), server.clock.clone());
        for at in [0, 10, 2900] {
            server.clock.set(Timestamp::from_secs(at));
            tokens.get_on_demand(&request("u")).await.unwrap();
        }
        assert_eq!(*server.created.lock(), 2);
        assert_eq!(tokens.renew_at(&"u".into()), None);
        assert!(tokens.export().is_empty());
        tokens.forget(&"u".into());
        assert!(tokens.cached.lock().is_empty());
    }
}
