//! Claims of pods and their volumes.
//!
//! Claims are read from the API server each time containers start. The last answers are cached, also on disk: while the API server is
//! unreachable, containers of a pod whose volumes were resolved before can still be restarted.

mod checkpoint;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use decide::volumes::{
    ClaimedVolume, ClaimedVolumes, VolumeProblem, bound_volume_name, check_binding, claim_name,
    is_for_one_pod, processing, used_volumes,
};
use k8s_openapi::api::core::v1::Volume;
use model::{Pod, PodUid};
use ports::api::ApiError;
use ports::api::volumes::ApiVolumes;
use ports::host::checkpoints::Checkpoints;
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use crate::cluster::api_timeout::within_deadline;
use crate::save_retry::SaveRetry;
use crate::state_format::VOLUME_CLAIMS;

type CachedClaims = BTreeMap<PodUid, ClaimedVolumes>;

pub struct Claims {
    api: Arc<dyn ApiVolumes>,
    checkpoints: Arc<dyn Checkpoints>,
    cached: Mutex<CachedClaims>,
    loaded: OnceCell<()>,
    saving: tokio::sync::Mutex<()>,
    retry: watch::Sender<SaveRetry>,
}

impl Claims {
    /// The checkpoint is loaded with the first claim.
    #[must_use]
    pub fn new(api: Arc<dyn ApiVolumes>, checkpoints: Arc<dyn Checkpoints>) -> Self {
        Self {
            api,
            checkpoints,
            cached: Mutex::default(),
            loaded: OnceCell::new(),
            saving: Default::default(),
            retry: watch::Sender::default(),
        }
    }

    /// Resolves all claimed volumes that the containers of a pod use.
    ///
    /// # Errors
    /// The first claim that cannot be used.
    pub async fn resolve(&self, pod: &Pod) -> Result<ClaimedVolumes, VolumeProblem> {
        let mut claimed = ClaimedVolumes::new();
        for volume in used_volumes(pod) {
            if let Some(name) = claim_name(pod, volume) {
                self.loaded.get_or_init(|| self.load()).await;
                claimed.insert(volume.name.clone(), self.resolve_one(pod, volume, &name).await?);
            }
        }
        if !claimed.is_empty() {
            self.cache(&pod.uid, &claimed).await;
        }
        Ok(claimed)
    }

    /// The cached volumes of a pod.
    #[must_use]
    pub fn cached(&self, uid: &PodUid) -> ClaimedVolumes {
        self.with(|cached| cached.get(uid).cloned()).unwrap_or_default()
    }

    /// Drops a finished pod.
    pub async fn release(&self, uid: &PodUid) {
        self.loaded.get_or_init(|| self.load()).await;
        if self.with(|cached| cached.remove(uid)).is_some() {
            self.save().await;
        }
    }

    async fn resolve_one(
        &self,
        pod: &Pod,
        volume: &Volume,
        name: &str,
    ) -> Result<ClaimedVolume, VolumeProblem> {
        let cached_or_failed = |what: &str, error: ApiError| {
            let reason = format!("failed to fetch {what} from API server: {error}");
            self.cached_volume(pod, volume, &error).ok_or_else(|| processing(pod, volume, &reason))
        };
        let claim = match within_deadline(self.api.claim(pod.namespace(), name)).await {
            Ok(claim) => claim,
            Err(error) => return cached_or_failed("PVC", error),
        };
        let behind = bound_volume_name(pod, volume, &claim)?.to_owned();
        let found = match within_deadline(self.api.volume(&behind)).await {
            Ok(found) => found,
            Err(error) => return cached_or_failed(&format!("PV {behind}"), error),
        };
        let claimed = ClaimedVolume { claim, volume: found };
        check_binding(pod, volume, &claimed)?;
        if is_for_one_pod(&claimed.volume) && self.is_used_by_another(&pod.uid, &behind) {
            let reason = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
            return Err(VolumeProblem::Invalid { volume: behind, reason: reason.to_owned() });
        }
        Ok(claimed)
    }

    /// The cached volume, if the error is transient.
    fn cached_volume(&self, pod: &Pod, volume: &Volume, error: &ApiError) -> Option<ClaimedVolume> {
        let cached = || {
            self.with(|cached| cached.get(&pod.uid).and_then(|volumes| volumes.get(&volume.name)).cloned())
        };
        error.is_transient().then(cached).flatten()
    }

    fn is_used_by_another(&self, uid: &PodUid, name: &str) -> bool {
        self.with(|cached| {
            let mut others = cached.iter().filter(|(other, _)| *other != uid);
            others.any(|(_, volumes)| {
                volumes.values().any(|claimed| claimed.volume.metadata.name.as_deref() == Some(name))
            })
        })
    }

    async fn cache(&self, uid: &PodUid, claimed: &ClaimedVolumes) {
        let is_new = self.with(|cached| cached.get(uid) != Some(claimed));
        if is_new {
            self.with(|cached| cached.insert(uid.clone(), claimed.clone()));
            self.save().await;
        }
    }

    async fn load(&self) {
        match self.checkpoints.load(VOLUME_CLAIMS.name).await {
            Ok(Some(content)) => {
                let cached = checkpoint::read(&content).unwrap_or_else(|error| {
                    tracing::warn!(%error, "failed to decode the checkpoint of claims, waiting for the API server");
                    CachedClaims::new()
                });
                // Volumes that were resolved meanwhile are newer.
                self.with(|rows| {
                    for (uid, claimed) in cached {
                        rows.entry(uid).or_insert(claimed);
                    }
                });
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, source = %error.source, "failed to load the checkpoint of claims");
            }
        }
    }

    /// Retries failed saves. Runs until cancelled.
    pub async fn keep(&self, cancel: CancellationToken) {
        let mut retries = self.retry.subscribe();
        loop {
            let retry = retries.borrow_and_update().clone();
            tokio::select! {
                () = cancel.cancelled() => return,
                // The sender lives as long as `self`.
                _ = retries.changed() => {}
                () = retry.due() => self.save().await,
            }
        }
    }

    async fn save(&self) {
        let _turn = self.saving.lock().await;
        let content = self.with(|cached| checkpoint::write(cached));
        match self.checkpoints.save_unflushed(VOLUME_CLAIMS.name, content).await {
            Ok(()) => self.retry.send_modify(SaveRetry::succeeded),
            Err(error) => self.retry.send_modify(|retry| {
                if retry.failed() {
                    tracing::warn!(%error, source = %error.source, "failed to save the checkpoint of claims, retrying");
                }
            }),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut CachedClaims) -> T) -> T {
        act(&mut self.cached.lock())
    }
}

#[cfg(test)]
mod tests;
