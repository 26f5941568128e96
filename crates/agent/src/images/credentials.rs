//! Collects the registry credentials that match an image.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use decide::images::credentials::{
    ProviderResponse, cache_keys, cache_owner, first_readable, handles_image, matching, read_response,
    write_request,
};
use futures::FutureExt;
use model::{AccountIdentity, CredentialProvider, Pod, ProviderToken, RegistryCredential, Timestamp};
use ports::clock::Clock;
use ports::host::credential_sources::{CredentialFiles, CredentialPrograms};
use tokio::time::Instant;

use super::service_accounts::{ProviderAccount, ServiceAccounts};
use super::single_flight::SingleFlight;
use crate::metrics::Metrics;

pub struct CredentialsDeps {
    pub files: Arc<dyn CredentialFiles>,
    pub programs: Arc<dyn CredentialPrograms>,
    /// In the order of the configuration.
    pub providers: Vec<CredentialProvider>,
    /// `None` without an API server.
    pub accounts: Option<ServiceAccounts>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

/// Credentials of the node: files and credential provider programs.
pub struct Credentials {
    deps: CredentialsDeps,
    cache: Mutex<HashMap<CacheKey, CachedCredentials>>,
    requests: SingleFlight<RequestKey, Result<ProviderResponse, String>>,
}

/// Index of the program, scope of its answer, and cache key from the answer.
type CacheKey = (usize, String, String);
/// Index of the program, repository, and service account.
type RequestKey = (usize, String, Option<AccountIdentity>);

struct CachedCredentials {
    entries: Vec<RegistryCredential>,
    expires_at: Timestamp,
}

impl Credentials {
    #[must_use]
    pub fn new(deps: CredentialsDeps) -> Self {
        Self { deps, cache: Mutex::default(), requests: SingleFlight::default() }
    }

    /// All credentials that match a repository, in the order in which they are tried: pull secrets of the pod, files of
    /// the node, programs.
    pub(super) async fn for_repository(
        &self,
        pod: &Pod,
        secrets: &[RegistryCredential],
        repository: &str,
    ) -> Vec<RegistryCredential> {
        let node = first_readable(&self.deps.files.read().await);
        let providers = self.deps.providers.iter().enumerate();
        let answers = providers.map(|(index, provider)| self.provided(index, provider, pod, repository));
        let provided: Vec<RegistryCredential> =
            futures::future::join_all(answers).await.into_iter().flatten().collect();
        let sources: [&[RegistryCredential]; 3] = [secrets, &node, &provided];
        sources.into_iter().flat_map(|entries| matching(entries, repository)).cloned().collect()
    }

    /// The credentials of one program; empty when it fails, which is logged.
    async fn provided(
        &self,
        index: usize,
        provider: &CredentialProvider,
        pod: &Pod,
        repository: &str,
    ) -> Vec<RegistryCredential> {
        if !handles_image(provider, repository) {
            return Vec::new();
        }
        match self.request(index, provider, pod, repository).await {
            Ok(entries) => entries,
            Err(error) => {
                tracing::error!(provider = %provider.name, image = %repository, pod = %pod.full_name, %error, "credential provider failed, pulling without its credentials");
                Vec::new()
            }
        }
    }

    async fn request(
        &self,
        index: usize,
        provider: &CredentialProvider,
        pod: &Pod,
        repository: &str,
    ) -> Result<Vec<RegistryCredential>, String> {
        let account = match &provider.token {
            None => None,
            Some(token) => match self.provider_account(token, pod).await? {
                ProviderAccount::Account(account) => Some(account),
                ProviderAccount::NotRequired => None,
                ProviderAccount::Excluded => return Ok(Vec::new()),
            },
        };
        let scope = cache_owner(provider, account.as_ref());
        if let Some(credentials) = self.cached(index, &scope, repository) {
            return Ok(credentials);
        }
        let work = self.requests.join((index, repository.to_owned(), account.clone()), || {
            let (programs, provider) = (Arc::clone(&self.deps.programs), provider.clone());
            let (repository, metrics) = (repository.to_owned(), Arc::clone(&self.deps.metrics));
            async move {
                let request = write_request(&provider, &repository, account.as_ref());
                let start = Instant::now();
                let answer = programs.run(&provider, request).await;
                metrics.images.provider_run(&provider.name, start.elapsed(), answer.is_err());
                let text = answer.map_err(|error| error.to_string())?;
                read_response(&provider, &repository, account.as_ref(), &text)
                    .map_err(|error| error.to_string())
            }
            .boxed()
        });
        let answer = work.await?;
        self.cache_answer(index, scope, &answer);
        Ok(answer.entries)
    }

    /// The service account that a program receives. Static pods and nodes without an API server have none.
    async fn provider_account(&self, token: &ProviderToken, pod: &Pod) -> Result<ProviderAccount, String> {
        let name = pod.spec.service_account_name.as_deref().filter(|name| !name.is_empty());
        match (&self.deps.accounts, name) {
            (Some(accounts), Some(name)) => accounts.account_for_provider(token, pod, name).await,
            (None, _) | (_, None) if token.requires_account => Ok(ProviderAccount::Excluded),
            (None, _) | (_, None) => Ok(ProviderAccount::NotRequired),
        }
    }

    fn cached(&self, index: usize, scope: &str, repository: &str) -> Option<Vec<RegistryCredential>> {
        let now = self.deps.clock.now();
        let cache = self.cache.lock();
        cache_keys(repository)
            .into_iter()
            .filter_map(|key| cache.get(&(index, scope.to_owned(), key)))
            .find(|cached| now <= cached.expires_at)
            .map(|cached| cached.entries.clone())
    }

    fn cache_answer(&self, index: usize, scope: String, answer: &ProviderResponse) {
        let Some((key, duration)) = &answer.keep else { return };
        let now = self.deps.clock.now();
        let mut cache = self.cache.lock();
        cache.retain(|_, cached| now <= cached.expires_at);
        let entry = CachedCredentials { entries: answer.entries.clone(), expires_at: now.after(*duration) };
        cache.insert((index, scope, key.clone()), entry);
    }
}

#[cfg(test)]
mod tests;
