//! Gathers the credentials that may open an image.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use decide::credentials::{
    ProviderAnswer, cache_keys, first_readable, is_asked_about, matching, read_answer, write_request,
};
use futures::FutureExt;
use model::{CredentialProvider, RegistryCredential, Timestamp};
use ports::clock::Clock;
use ports::credential_sources::{CredentialFiles, CredentialPrograms};
use tokio::time::Instant;

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
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    kept: Mutex<HashMap<(usize, String), Kept>>,
    asked: SingleFlight<(usize, String), Result<ProviderAnswer, String>>,
}

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
        own: &[RegistryCredential],
        repository: &str,
    ) -> Vec<RegistryCredential> {
        let node = first_readable(&self.files.read().await);
        let answers = (0..self.providers.len()).map(|index| self.provided(index, repository));
        let provided: Vec<RegistryCredential> =
            futures::future::join_all(answers).await.into_iter().flatten().collect();
        let sources: [&[RegistryCredential]; 3] = [own, &node, &provided];
        sources.into_iter().flat_map(|entries| matching(entries, repository)).cloned().collect()
    }

    /// What one program knows; nothing when it fails, which is logged.
    async fn provided(&self, index: usize, repository: &str) -> Vec<RegistryCredential> {
        let Some(provider) = self.providers.get(index) else { return Vec::new() };
        // Pods of a node without a cluster have no service account.
        if provider.requires_service_account || !is_asked_about(provider, repository) {
            return Vec::new();
        }
        if let Some(kept) = self.kept(index, repository) {
            return kept;
        }
        let work = self.asked.join((index, repository.to_owned()), || {
            let (programs, provider) = (Arc::clone(&self.programs), Arc::clone(provider));
            let (repository, metrics) = (repository.to_owned(), Arc::clone(&self.metrics));
            async move {
                let request = write_request(&provider, &repository);
                let begun = Instant::now();
                let answer = programs.run(&provider, request).await;
                metrics.images.provider_run(&provider.name, begun.elapsed(), answer.is_err());
                let text = answer.map_err(|error| error.to_string())?;
                read_answer(&provider, &repository, &text).map_err(|error| error.to_string())
            }
            .boxed()
        });
        match work.await {
            Ok(answer) => {
                self.keep(index, &answer);
                answer.entries
            }
            Err(error) => {
                tracing::error!(provider = %provider.name, image = %repository, %error, "no credentials from the provider");
                Vec::new()
            }
        }
    }

    fn kept(&self, index: usize, repository: &str) -> Option<Vec<RegistryCredential>> {
        let now = self.clock.now();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        cache_keys(repository)
            .into_iter()
            .filter_map(|key| kept.get(&(index, key)))
            .find(|kept| now <= kept.until)
            .map(|kept| kept.entries.clone())
    }

    fn keep(&self, index: usize, answer: &ProviderAnswer) {
        let Some((key, duration)) = &answer.keep else { return };
        let now = self.clock.now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| now <= kept.until);
        let entry = Kept { entries: answer.entries.clone(), until: now.after(*duration) };
        kept.insert((index, key.clone()), entry);
    }
}
