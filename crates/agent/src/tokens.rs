//! Tokens of service accounts, kept until they are due to be renewed.
//!
//! A token that cannot be renewed is handed out until it ends; while the server is away even after that, since a pod
//! with an old token is better than none. [`Tokens::known`] and [`Tokens::seed`] carry tokens over a restart.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use decide::service_account_tokens::renew_at;
use model::{IssuedToken, PodUid, Timestamp, TokenRequest};
use ports::api::tokens::ApiTokens;
use ports::clock::Clock;

/// Time between two tries to renew a token.
const RETRY: Duration = Duration::from_secs(30);

/// The tokens of this node's pods.
pub struct Tokens {
    api: Arc<dyn ApiTokens>,
    clock: Arc<dyn Clock>,
    kept: Mutex<HashMap<TokenRequest, Kept>>,
}

struct Kept {
    token: IssuedToken,
    renew_at: Timestamp,
    /// Whether it is only renewed when somebody asks for it again.
    on_demand: bool,
}

impl Tokens {
    /// None yet.
    #[must_use]
    pub fn new(api: Arc<dyn ApiTokens>, clock: Arc<dyn Clock>) -> Self {
        Self { api, clock, kept: Mutex::default() }
    }

    /// A token that is good for now: the kept one, or a new one.
    ///
    /// # Errors
    /// Why there is none, in upstream's words.
    pub async fn get(&self, request: &TokenRequest) -> Result<IssuedToken, String> {
        let now = self.clock.now();
        let kept = self.kept().get(request).filter(|kept| now < kept.renew_at).map(|kept| kept.token.clone());
        if let Some(token) = kept {
            return Ok(token);
        }
        let asked = self.api.create(request).await;
        let now = self.clock.now();
        match asked {
            Ok(token) => {
                let renew_at = renew_at(&token, spread(request, &token));
                self.kept()
                    .insert(request.clone(), Kept { token: token.clone(), renew_at, on_demand: false });
                Ok(token)
            }
            Err(error) => {
                let mut kept = self.kept();
                let Some(old) = kept.get_mut(request) else {
                    return Err(format!("failed to fetch token: {error}"));
                };
                if now > old.token.expires_at && !error.is_transient() {
                    kept.remove(request);
                    let account = format!("{:?}/{:?}", request.account, request.namespace);
                    return Err(format!("token {account} expired and refresh failed: {error}"));
                }
                tracing::warn!(pod = %request.pod_name, account = %request.account, %error, "a token cannot be renewed; the old one stays");
                old.renew_at = now.after(RETRY);
                Ok(old.token.clone())
            }
        }
    }

    /// The same for who asks again whenever a token is needed: the pod is not woken to renew it, and it ends with the
    /// agent.
    ///
    /// # Errors
    /// As [`Tokens::get`].
    pub async fn get_on_demand(&self, request: &TokenRequest) -> Result<IssuedToken, String> {
        let token = self.get(request).await?;
        if let Some(kept) = self.kept().get_mut(request) {
            kept.on_demand = true;
        }
        Ok(token)
    }

    /// When the next token of a pod is due.
    #[must_use]
    pub fn renew_at(&self, uid: &PodUid) -> Option<Timestamp> {
        let kept = self.kept();
        let own = kept.iter().filter(|(request, kept)| request.pod_uid == *uid && !kept.on_demand);
        own.map(|(_, kept)| kept.renew_at).min()
    }

    /// Drops the tokens of a pod that is over.
    pub fn forget(&self, uid: &PodUid) {
        self.kept().retain(|request, _| request.pod_uid != *uid);
    }

    /// Every token that is held, for a store that outlives the agent. They are secret.
    #[must_use]
    pub fn known(&self) -> Vec<(TokenRequest, IssuedToken)> {
        let kept = self.kept();
        let lasting = kept.iter().filter(|(_, kept)| !kept.on_demand);
        lasting.map(|(request, kept)| (request.clone(), kept.token.clone())).collect()
    }

    /// Takes what an earlier agent held; a token that was asked for since is not replaced.
    pub fn seed(&self, tokens: Vec<(TokenRequest, IssuedToken)>) {
        let mut kept = self.kept();
        for (request, token) in tokens {
            let renew_at = renew_at(&token, spread(&request, &token));
            kept.entry(request).or_insert(Kept { token, renew_at, on_demand: false });
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<TokenRequest, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number from 0 to 1 that differs between tokens, so that not all are renewed at once.
fn spread(request: &TokenRequest, token: &IssuedToken) -> f64 {
    let mut hasher = DefaultHasher::new();
    (request, token.expires_at).hash(&mut hasher);
    f64::from(u32::try_from(hasher.finish() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use model::TokenWish;
    use ports::api::{ApiError, ApiErrorKind};

    use super::*;

    #[derive(Default)]
    struct Server {
        now: Mutex<i64>,
        asked: Mutex<usize>,
        failure: Mutex<Option<ApiErrorKind>>,
    }

    #[async_trait]
    impl ApiTokens for Server {
        async fn create(&self, _: &TokenRequest) -> Result<IssuedToken, ApiError> {
            if let Some(kind) = *self.failure.lock().unwrap() {
                return Err(ApiError { kind, message: "no".into(), retry_after: None });
            }
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            let expires_at = Timestamp::from_secs(*self.now.lock().unwrap() + 3600);
            Ok(IssuedToken { token: format!("token {asked}"), expires_at, expiration_seconds: 3600 })
        }
    }

    impl Clock for Server {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(*self.now.lock().unwrap())
        }
    }

    fn request(uid: &str) -> TokenRequest {
        TokenRequest {
            namespace: "ns".into(),
            account: "a".into(),
            account_uid: None,
            pod_name: uid.into(),
            pod_uid: uid.into(),
            wish: TokenWish { audiences: Vec::new(), expiration_seconds: Some(3600) },
        }
    }

    #[tokio::test]
    async fn a_token_is_renewed_when_due_and_kept_until_then() {
        let server = Arc::new(Server::default());
        let tokens = Tokens::new(server.clone(), server.clone());
        // Seconds, what the server says, what is handed out.
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
            *server.now.lock().unwrap() = at;
            *server.failure.lock().unwrap() = failure;
            let found = tokens.get(&request("u")).await;
            let found = found.as_ref().map(|token| token.token.as_str()).map_err(String::as_str);
            assert_eq!(found, expected, "at {at}");
        }
    }

    #[tokio::test]
    async fn tokens_go_with_their_pod_and_over_a_restart() {
        let server = Arc::new(Server::default());
        let tokens = Tokens::new(server.clone(), server.clone());
        tokens.get(&request("one")).await.unwrap();
        tokens.get(&request("two")).await.unwrap();
        assert!(tokens.renew_at(&"one".into()).unwrap() <= Timestamp::from_secs(2880));
        tokens.forget(&"one".into());
        assert_eq!(tokens.renew_at(&"one".into()), None);
        let next = Tokens::new(server.clone(), server.clone());
        next.seed(tokens.known());
        assert_eq!(next.get(&request("two")).await.unwrap().token, "token 2");
        assert_eq!(*server.asked.lock().unwrap(), 2);
    }
    #[tokio::test]
    async fn a_token_on_demand_wakes_nobody_and_goes_with_its_pod() {
        let server = Arc::new(Server::default());
        let tokens = Tokens::new(server.clone(), server.clone());
        for at in [0, 10, 2900] {
            *server.now.lock().unwrap() = at;
            tokens.get_on_demand(&request("u")).await.unwrap();
        }
        assert_eq!(*server.asked.lock().unwrap(), 2);
        assert_eq!(tokens.renew_at(&"u".into()), None);
        assert!(tokens.known().is_empty());
        tokens.forget(&"u".into());
        assert!(tokens.kept().is_empty());
    }
}
