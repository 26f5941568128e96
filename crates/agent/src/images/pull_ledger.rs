//! Records of image pulls, in memory and on disk: which images the agent pulled, and with which credentials.
//!
//! A pull is recorded before it starts and again when it is complete, so that after a crash the next agent does not mistake
//! a pulled image for a preloaded one.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use decide::images::image_access::{
    Access, Known, Permit, PulledRecord, Shown, Verification, access_by_credentials,
    access_without_credentials, file_name, permit_of, read_intent, without_tag, write_intent,
};
use model::{ImageStatus, RegistryCredential, Timestamp};
use ports::clock::Clock;
use ports::host::pod_folders::FileError;
use ports::host::pull_records::{PullRecordKind, PullRecords};
use ports::runtime::Images;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::metrics::Metrics;

pub struct PullLedgerDeps {
    pub records: Arc<dyn PullRecords>,
    pub runtime: Arc<dyn Images>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub policy: Verification,
}

/// The records are loaded on first use, because loading needs the runtime.
pub struct PullLedger {
    deps: PullLedgerDeps,
    /// The lock is held while a file is written, so that memory and disk stay consistent.
    state: OnceCell<Mutex<LedgerState>>,
}

/// A pull in progress. If it is dropped without a result, the intent stays on disk.
pub struct PullIntent {
    image: String,
    in_progress: Arc<()>,
}

#[derive(Default)]
struct LedgerState {
    /// By image id of the runtime.
    pulled: BTreeMap<String, PulledRecord>,
    /// File names of records that cannot be parsed.
    unreadable: BTreeSet<String>,
    /// Images that are being pulled, or whose pull was interrupted, by file name. The reference count is the number of
    /// pulls in progress plus one.
    pulling: BTreeMap<String, Arc<()>>,
}

impl PullLedger {
    #[must_use]
    pub fn new(deps: PullLedgerDeps) -> Self {
        Self { deps, state: OnceCell::new() }
    }

    /// Whether a pod may use a present image without contacting the registry. `credentials` is awaited only if the decision
    /// depends on the credentials of the pod.
    pub async fn may_use(
        &self,
        image: &str,
        image_ref: &str,
        credentials: impl Future<Output = Shown>,
    ) -> bool {
        let access = self.access(image, image_ref, credentials).await;
        let (may, result) = match access {
            Access::ByPolicy => (true, "credentialPolicyAllowed"),
            Access::ByRecord | Access::Learn(_) => (true, "credentialRecordFound"),
            Access::MustPull => (false, "mustAuthenticate"),
            Access::Unclear => (false, "error"),
        };
        self.deps.metrics.images.credential_checks.inc([result]);
        may
    }

    async fn access(&self, image: &str, image_ref: &str, credentials: impl Future<Output = Shown>) -> Access {
        let record = {
            let state = match self.lock().await {
                Ok(state) => state,
                Err(error) => {
                    tracing::error!(%error, source = %error.source, "failed to read image pull records");
                    return Access::Unclear;
                }
            };
            let known = state.lookup(image, image_ref);
            if let Some(access) = access_without_credentials(&self.deps.policy, image, known) {
                return access;
            }
            match known {
                Known::Recorded(record) => record.clone(),
                Known::Nothing | Known::Pulled | Known::Unreadable => return Access::MustPull,
            }
        };
        let access = access_by_credentials(&record, image, &credentials.await);
        if let Access::Learn(secret) = &access {
            let permit = Permit { secrets: vec![secret.clone()], ..Permit::default() };
            if let Err(error) = self.permit(image, image_ref, permit).await {
                tracing::warn!(image, %error, source = %error.source, "failed to record credentials that may use the image");
            }
        }
        access
    }

    /// Records the intent to pull an image.
    ///
    /// # Errors
    /// If the record cannot be written. The image must not be pulled then.
    pub async fn begin(&self, image: &str) -> Result<PullIntent, FileError> {
        let mut state = self.lock().await?;
        let name = file_name(image);
        let in_progress = match state.pulling.get(&name) {
            Some(in_progress) => Arc::clone(in_progress),
            None => {
                self.deps.records.save(PullRecordKind::Pulling, name.clone(), write_intent(image)).await?;
                Arc::new(())
            }
        };
        state.pulling.insert(name, Arc::clone(&in_progress));
        self.update_metrics(&state);
        Ok(PullIntent { image: image.to_owned(), in_progress })
    }

    /// Records that an image was pulled, and with which credentials. A failure is logged and leaves the intent, so that the
    /// next pod must authenticate with the registry.
    pub async fn pulled(&self, intent: PullIntent, image_ref: &str, used: Option<&RegistryCredential>) {
        match self.permit(&intent.image, image_ref, permit_of(used)).await {
            Ok(()) => self.remove_intent(intent).await,
            Err(error) => {
                tracing::error!(image = intent.image, %error, source = %error.source, "failed to record image pull");
            }
        }
    }

    pub async fn failed(&self, intent: PullIntent) {
        self.remove_intent(intent).await;
    }

    /// Removes the records of images that no longer exist, unless they are newer than the list of images.
    pub async fn prune(&self, images: &[ImageStatus], listed_at: Timestamp) {
        let Ok(mut state) = self.lock().await else { return };
        let present: BTreeSet<&str> = images.iter().map(|image| image.id.as_str()).collect();
        let removed_images: Vec<String> = state
            .pulled
            .values()
            .filter(|record| record.updated < listed_at && !present.contains(record.image_ref.as_str()))
            .map(|record| record.image_ref.clone())
            .collect();
        for image_ref in removed_images {
            let removed = self.deps.records.remove(PullRecordKind::Pulled, file_name(&image_ref)).await;
            match removed {
                Ok(()) => drop(state.pulled.remove(&image_ref)),
                Err(error) => {
                    tracing::warn!(image = image_ref, %error, source = %error.source, "failed to remove image pull record");
                }
            }
        }
        self.update_metrics(&state);
    }

    async fn remove_intent(&self, intent: PullIntent) {
        let Ok(mut state) = self.lock().await else { return };
        let name = file_name(&intent.image);
        drop(intent.in_progress);
        // Another pull of the image may be in progress.
        if state.pulling.get(&name).is_none_or(|in_progress| Arc::strong_count(in_progress) > 1) {
            return;
        }
        match self.deps.records.remove(PullRecordKind::Pulling, name.clone()).await {
            Ok(()) => drop(state.pulling.remove(&name)),
            Err(error) => {
                tracing::warn!(image = intent.image, %error, source = %error.source, "failed to remove image pull intent");
            }
        }
        self.update_metrics(&state);
    }

    async fn permit(&self, image: &str, image_ref: &str, permit: Permit) -> Result<(), FileError> {
        let Some(name) = without_tag(image) else { return Ok(()) };
        let mut state = self.lock().await?;
        let now = self.deps.clock.now();
        let existing = state.pulled.get(image_ref).cloned();
        let is_new = existing.is_none();
        let mut record = existing.unwrap_or_else(|| PulledRecord::new(image_ref, now));
        if record.permit(&name, permit, now) || is_new {
            self.write(&mut state, record).await?;
        }
        Ok(())
    }

    async fn write(&self, state: &mut LedgerState, record: PulledRecord) -> Result<(), FileError> {
        let name = file_name(&record.image_ref);
        self.deps.records.save(PullRecordKind::Pulled, name.clone(), record.write()).await?;
        state.unreadable.remove(&name);
        state.pulled.insert(record.image_ref.clone(), record);
        self.update_metrics(state);
        Ok(())
    }

    fn update_metrics(&self, state: &LedgerState) {
        let images = &self.deps.metrics.images;
        images.begun_pulls.set_count(state.pulling.len());
        images.pulled_records.set_count(state.pulled.len() + state.unreadable.len());
    }

    async fn lock(&self) -> Result<MutexGuard<'_, LedgerState>, FileError> {
        Ok(self.state.get_or_try_init(|| self.load()).await?.lock().await)
    }

    async fn load(&self) -> Result<Mutex<LedgerState>, FileError> {
        let mut state = LedgerState::default();
        for (name, content) in self.deps.records.list(PullRecordKind::Pulled).await? {
            match PulledRecord::read(&content) {
                Ok(record) if file_name(&record.image_ref) == name => {
                    state.pulled.insert(record.image_ref.clone(), record);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(file = name, %error, "failed to parse image pull record; pods must authenticate with the registry");
                    state.unreadable.insert(name);
                }
            }
        }
        let mut interrupted = Vec::new();
        for (name, content) in self.deps.records.list(PullRecordKind::Pulling).await? {
            interrupted.extend(read_intent(&content).ok());
            state.pulling.insert(name, Arc::new(()));
        }
        if !interrupted.is_empty() {
            self.resolve_interrupted(&mut state, &interrupted).await?;
        }
        self.update_metrics(&state);
        Ok(Mutex::new(state))
    }

    /// Converts intents of an agent that was killed into records without credentials if the image is present.
    async fn resolve_interrupted(
        &self,
        state: &mut LedgerState,
        interrupted: &[String],
    ) -> Result<(), FileError> {
        let Ok(images) = self.deps.runtime.list_images().await else { return Ok(()) };
        let now = self.deps.clock.now();
        for image in interrupted {
            let matches = |present: &&ImageStatus| {
                present.repo_tags.iter().chain(&present.repo_digests).any(|name| name == image)
            };
            let Some(present) = images.iter().find(matches) else { continue };
            if !state.pulled.contains_key(&present.id) {
                self.write(state, PulledRecord::new(&present.id, now)).await?;
            }
            let name = file_name(image);
            self.deps.records.remove(PullRecordKind::Pulling, name.clone()).await?;
            state.pulling.remove(&name);
        }
        Ok(())
    }
}

impl LedgerState {
    fn lookup(&self, image: &str, image_ref: &str) -> Known<'_> {
        if let Some(record) = self.pulled.get(image_ref) {
            return Known::Recorded(record);
        }
        if self.unreadable.contains(&file_name(image_ref)) {
            return Known::Unreadable;
        }
        if self.pulling.contains_key(&file_name(image)) { Known::Pulled } else { Known::Nothing }
    }
}

#[cfg(test)]
mod tests;
