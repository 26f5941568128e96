//! The claims of pods and the volumes behind them.
//!
//! Asked anew each time containers are started. What was answered last is kept, also on disk: while the API server is
//! away, containers of a pod whose volumes were resolved once are still restarted. Nothing here is ever assumed of a
//! pod that was not resolved before.

mod kept;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use decide::volumes::{
    ClaimedVolume, ClaimedVolumes, VolumeProblem, bound_volume_name, check_binding, claim_name,
    is_for_one_pod, processing, used_volumes,
};
use k8s_openapi::api::core::v1::Volume;
use model::{Pod, PodUid};
use ports::api::volumes::ApiVolumes;
use ports::api::{ApiError, ApiErrorKind};
use ports::checkpoints::Checkpoints;
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use crate::save_retry::SaveRetry;

/// How long one answer of the API server may take.
const DEADLINE: Duration = Duration::from_secs(20);

type Known = BTreeMap<PodUid, ClaimedVolumes>;

/// Resolves claims.
pub struct Claims {
    api: Arc<dyn ApiVolumes>,
    checkpoints: Arc<dyn Checkpoints>,
    known: Mutex<Known>,
    loaded: OnceCell<()>,
    saving: tokio::sync::Mutex<()>,
    retry: watch::Sender<SaveRetry>,
}

impl Claims {
    /// Nothing is read before the first pod with a claim.
    #[must_use]
    pub fn new(api: Arc<dyn ApiVolumes>, checkpoints: Arc<dyn Checkpoints>) -> Self {
        Self {
            api,
            checkpoints,
            known: Mutex::default(),
            loaded: OnceCell::new(),
            saving: Default::default(),
            retry: watch::Sender::default(),
        }
    }

    /// What stands behind all volumes of a pod that name a claim and that its containers use.
    ///
    /// # Errors
    /// At the first claim that cannot be used.
    pub async fn resolve(&self, pod: &Pod) -> Result<ClaimedVolumes, VolumeProblem> {
        let mut claimed = ClaimedVolumes::new();
        for volume in used_volumes(pod) {
            if let Some(name) = claim_name(pod, volume) {
                self.loaded.get_or_init(|| self.load()).await;
                claimed.insert(volume.name.clone(), self.resolve_one(pod, volume, &name).await?);
            }
        }
        if !claimed.is_empty() {
            self.remember(&pod.uid, &claimed).await;
        }
        Ok(claimed)
    }

    /// What was answered last for a pod; nobody is asked.
    #[must_use]
    pub fn known(&self, uid: &PodUid) -> ClaimedVolumes {
        self.with(|known| known.get(uid).cloned()).unwrap_or_default()
    }

    /// Forgets a pod that is over.
    pub async fn release(&self, uid: &PodUid) {
        self.loaded.get_or_init(|| self.load()).await;
        if self.with(|known| known.remove(uid)).is_some() {
            self.save().await;
        }
    }

    async fn resolve_one(
        &self,
        pod: &Pod,
        volume: &Volume,
        name: &str,
    ) -> Result<ClaimedVolume, VolumeProblem> {
        let claim = match within(self.api.claim(pod.namespace(), name)).await {
            Ok(claim) => claim,
            Err(error) => {
                let reason = format!("failed to fetch PVC from API server: {error}");
                return self.last_known(pod, volume, &error).ok_or_else(|| processing(pod, volume, &reason));
            }
        };
        let behind = bound_volume_name(pod, volume, &claim)?.to_owned();
        let found = match within(self.api.volume(&behind)).await {
            Ok(found) => found,
            Err(error) => {
                let reason = format!("failed to fetch PV {behind} from API server: {error}");
                return self.last_known(pod, volume, &error).ok_or_else(|| processing(pod, volume, &reason));
            }
        };
        let claimed = ClaimedVolume { claim, volume: found };
        check_binding(pod, volume, &claimed)?;
        if is_for_one_pod(&claimed.volume) && self.is_used_by_another(&pod.uid, &behind) {
            let reason = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
            return Err(VolumeProblem::Invalid { volume: behind, reason: reason.to_owned() });
        }
        Ok(claimed)
    }

    /// What was answered last, if the API server is merely away.
    fn last_known(&self, pod: &Pod, volume: &Volume, error: &ApiError) -> Option<ClaimedVolume> {
        let known =
            || self.with(|known| known.get(&pod.uid).and_then(|volumes| volumes.get(&volume.name)).cloned());
        error.is_transient().then(known).flatten()
    }

    fn is_used_by_another(&self, uid: &PodUid, name: &str) -> bool {
        self.with(|known| {
            let mut others = known.iter().filter(|(other, _)| *other != uid);
            others.any(|(_, volumes)| {
                volumes.values().any(|claimed| claimed.volume.metadata.name.as_deref() == Some(name))
            })
        })
    }

    async fn remember(&self, uid: &PodUid, claimed: &ClaimedVolumes) {
        let is_new = self.with(|known| known.get(uid) != Some(claimed));
        if is_new {
            self.with(|known| known.insert(uid.clone(), claimed.clone()));
            self.save().await;
        }
    }

    async fn load(&self) {
        match self.checkpoints.load(kept::NAME).await {
            Ok(Some(content)) => {
                let known = kept::read(&content);
                // What was resolved since is newer.
                self.with(|rows| {
                    for (uid, claimed) in known {
                        rows.entry(uid).or_insert(claimed);
                    }
                });
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, source = %error.source, "what is known of claims cannot be read");
            }
        }
    }

    /// Writes again what could not be written. Runs until cancelled.
    pub async fn keep(&self, cancel: CancellationToken) {
        let mut retries = self.retry.subscribe();
        loop {
            let retry = retries.borrow_and_update().clone();
            tokio::select! {
                () = cancel.cancelled() => return,
                // The sender lives as long as this.
                _ = retries.changed() => {}
                () = retry.due() => self.save().await,
            }
        }
    }

    async fn save(&self) {
        let _turn = self.saving.lock().await;
        let content = self.with(|known| kept::write(known));
        match self.checkpoints.save_unflushed(kept::NAME, content).await {
            Ok(()) => self.retry.send_modify(SaveRetry::succeeded),
            Err(error) => self.retry.send_modify(|retry| {
                if retry.failed() {
                    tracing::warn!(%error, source = %error.source, "what is known of claims is not kept; trying again");
                }
            }),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Known) -> T) -> T {
        act(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn within<T>(asked: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    match tokio::time::timeout(DEADLINE, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(ApiError {
            kind: ApiErrorKind::Unreachable,
            message: format!("no answer after {}s", DEADLINE.as_secs()),
            retry_after: None,
        }),
    }
}

#[cfg(test)]
mod tests;
