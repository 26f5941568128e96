//! Gathers the credentials that may open an image.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use decide::credentials::{
    ProviderAnswer, cache_keys, first_readable, is_asked_about, kept_for, matching, read_answer,
    write_request,
};
use futures::FutureExt;
use model::{AccountProof, CredentialProvider, Pod, ProviderToken, RegistryCredential, Timestamp};
use ports::clock::Clock;
use ports::credential_sources::{CredentialFiles, CredentialPrograms};
use tokio::time::Instant;

use super::accounts::{Accounts, Proof};
use super::single_flight::SingleFlight;
use crate::metrics::Metrics;

/// What the credentials come from.
pub struct CredentialParts {
    /// The node's files.
    pub files: Arc<dyn CredentialFiles>,
    /// Runs provider programs.
    pub programs: Arc<dyn CredentialPrograms>,
    /// The provider programs, in the order they were configured.
    pub providers: Vec<CredentialProvider>,
    /// Service accounts of pods; none without an API server.
    pub accounts: Option<Accounts>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// The node's credentials: its files, then the provider programs.
pub struct Credentials {
    files: Arc<dyn CredentialFiles>,
    programs: Arc<dyn CredentialPrograms>,
    providers: Vec<Arc<CredentialProvider>>,
    accounts: Option<Accounts>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    kept: Mutex<HashMap<KeptKey, Kept>>,
    asked: SingleFlight<Question, Result<ProviderAnswer, String>>,
}

/// The program, for whom its answer is kept, and what it is about.
type KeptKey = (usize, String, String);
/// The program, the repository and the account.
type Question = (usize, String, Option<AccountProof>);

struct Kept {
    entries: Vec<RegistryCredential>,
    until: Timestamp,
}

impl Credentials {
    /// Credentials from these sources.
    #[must_use]
    pub fn new(parts: CredentialParts) -> Self {
        Self {
            files: parts.files,
            programs: parts.programs,
            providers: parts.providers.into_iter().map(Arc::new).collect(),
            accounts: parts.accounts,
            clock: parts.clock,
            metrics: parts.metrics,
            kept: Mutex::default(),
            asked: SingleFlight::default(),
        }
    }

    /// Everything that matches a repository, in the order it is tried: the pod's own, the node's files, the
    /// programs.
    pub(super) async fn for_repository(
        &self,
        pod: &Pod,
        own: &[RegistryCredential],
        repository: &str,
    ) -> Vec<RegistryCredential> {
        let node = first_readable(&self.files.read().await);
        let answers = (0..self.providers.len()).map(|index| self.provided(index, pod, repository));
        let provided: Vec<RegistryCredential> =
            futures::future::join_all(answers).await.into_iter().flatten().collect();
        let sources: [&[RegistryCredential]; 3] = [own, &node, &provided];
        sources.into_iter().flat_map(|entries| matching(entries, repository)).cloned().collect()
    }

    /// What one program knows; nothing when it fails, which is logged.
    async fn provided(&self, index: usize, pod: &Pod, repository: &str) -> Vec<RegistryCredential> {
        let Some(provider) = self.providers.get(index) else { return Vec::new() };
        if !is_asked_about(provider, repository) {
            return Vec::new();
        }
        match self.ask(index, provider, pod, repository).await {
            Ok(entries) => entries,
            Err(error) => {
                tracing::error!(provider = %provider.name, image = %repository, pod = %pod.full_name, %error, "no credentials from the provider");
                Vec::new()
            }
        }
    }

    async fn ask(
        &self,
        index: usize,
        provider: &Arc<CredentialProvider>,
        pod: &Pod,
        repository: &str,
    ) -> Result<Vec<RegistryCredential>, String> {
        let account = match &provider.token {
            None => None,
            Some(token) => match self.proof(token, pod).await? {
                Proof::Account(account) => Some(account),
                Proof::Unneeded => None,
                Proof::Excluded => return Ok(Vec::new()),
            },
        };
        let owner = kept_for(provider, account.as_ref());
        if let Some(kept) = self.kept(index, &owner, repository) {
            return Ok(kept);
        }
        let work = self.asked.join((index, repository.to_owned(), account.clone()), || {
            let (programs, provider) = (Arc::clone(&self.programs), Arc::clone(provider));
            let (repository, metrics) = (repository.to_owned(), Arc::clone(&self.metrics));
            async move {
                let request = write_request(&provider, &repository, account.as_ref());
                let begun = Instant::now();
                let answer = programs.run(&provider, request).await;
                metrics.images.provider_run(&provider.name, begun.elapsed(), answer.is_err());
                let text = answer.map_err(|error| error.to_string())?;
                read_answer(&provider, &repository, account.as_ref(), &text)
                    .map_err(|error| error.to_string())
            }
            .boxed()
        });
        let answer = work.await?;
        self.keep(index, owner, &answer);
        Ok(answer.entries)
    }

    /// What a program is told of the pod's account. Static pods have none, nor have those of a node without a cluster.
    async fn proof(&self, token: &ProviderToken, pod: &Pod) -> Result<Proof, String> {
        let name = pod.spec.service_account_name.as_deref().filter(|name| !name.is_empty());
        match (&self.accounts, name) {
            (Some(accounts), Some(name)) => accounts.proof(token, pod, name).await,
            (None, _) | (_, None) if token.requires_account => Ok(Proof::Excluded),
            (None, _) | (_, None) => Ok(Proof::Unneeded),
        }
    }

    fn kept(&self, index: usize, owner: &str, repository: &str) -> Option<Vec<RegistryCredential>> {
        let now = self.clock.now();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        cache_keys(repository)
            .into_iter()
            .filter_map(|key| kept.get(&(index, owner.to_owned(), key)))
            .find(|kept| now <= kept.until)
            .map(|kept| kept.entries.clone())
    }

    fn keep(&self, index: usize, owner: String, answer: &ProviderAnswer) {
        let Some((key, duration)) = &answer.keep else { return };
        let now = self.clock.now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| now <= kept.until);
        let entry = Kept { entries: answer.entries.clone(), until: now.after(*duration) };
        kept.insert((index, owner, key.clone()), entry);
    }
}

#[cfg(test)]
mod tests;
