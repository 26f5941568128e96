//! Expansion of volumes, with the status of claims and events.

use decide::volumes::growth::{Expansion, ExpansionFailure, Growth, begun, grown, growth, not_grown};
use model::{CsiPod, CsiSize, EventSubject, EventType, PlannedVolume, PodFullName, PodUid, RecordedEvent};
use ports::host::pod_volumes::VolumeResult;
use tokio::time::Instant;

use super::{CsiVolumes, Key, refused};

/// A volume that is being expanded.
pub(super) struct Growing<'a> {
    pub(super) key: &'a Key,
    pub(super) name: &'a str,
    pub(super) owner: EventSubject,
    pub(super) size: &'a CsiSize,
}

/// A volume without a CSI driver that may have grown.
pub(super) struct Growable<'a> {
    /// Plugin name in metrics.
    pub(super) plugin: &'a str,
    pub(super) name: &'a str,
    pub(super) size: &'a CsiSize,
    pub(super) pod: &'a CsiPod,
    pub(super) read_only: bool,
}

impl CsiVolumes {
    /// Expands the file system of a volume whose PersistentVolume has grown.
    pub(super) async fn grow_plain(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
        grows: &Growable<'_>,
    ) -> VolumeResult {
        let Growable { plugin, name, size, pod, read_only } = *grows;
        let key = Key { driver: plugin.to_owned(), handle: name.to_owned() };
        let here = self.with(|done| done.sizes.get(&key).copied());
        let growing = Growing { key: &key, name, owner: owner(pod), size };
        match growth(size, read_only, here) {
            Growth::Nothing => {}
            Growth::Done => self.with(|done| done.has_size(&key, size.requested)),
            Growth::ReadOnly => self.record_read_only(&growing),
            Growth::Expand(expansion) => {
                let begun = Instant::now();
                self.begin_growth(&growing, &expansion).await?;
                let sizes = (here.unwrap_or(size.known), expansion.bytes);
                let done = self.deps.others.grow(uid, volume, sizes).await;
                let storage = &self.deps.metrics.storage;
                storage.operated("volume_fs_resize", plugin, begun.elapsed(), done.is_err());
                match done {
                    Ok(()) => self.has_grown(&growing, &expansion).await?,
                    Err(error) => {
                        self.not_grown(&growing, &expansion, ExpansionFailure::Passing, error.text()).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Records that a read-only volume is not expanded.
    pub(super) fn record_read_only(&self, growing: &Growing<'_>) {
        let words = format!(
            "MountVolume.NodeExpandVolume failed for volume {:?} requested read-only file system",
            growing.name
        );
        for subject in [growing.owner.clone(), claim(growing.size)] {
            self.record_event(subject, EventType::Warning, "FileSystemResizeFailed", words.clone());
        }
        self.with(|done| done.has_size(growing.key, growing.size.requested));
    }

    /// Updates the claim at the start of an expansion, if the controller tracks it.
    pub(super) async fn begin_growth(&self, growing: &Growing<'_>, expansion: &Expansion) -> VolumeResult {
        let size = growing.size;
        if expansion.is_followed && expansion.claim_waits && size.state != "NodeResizeInProgress" {
            self.patch_claim(size, &begun()).await?;
        }
        Ok(())
    }

    /// Handles a finished expansion.
    pub(super) async fn has_grown(&self, growing: &Growing<'_>, expansion: &Expansion) -> VolumeResult {
        if expansion.claim_waits {
            self.patch_claim(growing.size, &grown(&expansion.text)).await?;
        }
        self.with(|done| done.has_size(growing.key, expansion.bytes));
        let words = format!(
            "MountVolume.NodeExpandVolume succeeded for volume {:?} {}",
            growing.name, self.deps.node
        );
        for subject in [growing.owner.clone(), claim(growing.size)] {
            self.record_event(subject, EventType::Normal, "FileSystemResizeSuccessful", words.clone());
        }
        Ok(())
    }

    /// Handles a failed expansion.
    pub(super) async fn not_grown(
        &self,
        growing: &Growing<'_>,
        expansion: &Expansion,
        refusal: ExpansionFailure,
        message: String,
    ) -> VolumeResult {
        let Growing { key, size, name, .. } = growing;
        if refusal == ExpansionFailure::Unsupported && !(expansion.is_followed && expansion.claim_waits) {
            self.with(|done| done.has_size(key, expansion.bytes));
            return Ok(());
        }
        if expansion.is_followed {
            let rejected = self.with(|done| done.rejected.get(*key).copied());
            let is_stale = size.asked != expansion.bytes && rejected == Some(expansion.bytes);
            let patch = not_grown(refusal, is_stale, &message, self.deps.clock.now());
            // The next attempt updates the claim again.
            if let Err(error) = self.patch_claim(size, &patch).await {
                tracing::warn!(claim = %size.claim, error = %error.text(), "failed to update the status of a claim");
            }
        }
        self.with(|done| done.rejected.insert((*key).clone(), expansion.bytes));
        if refusal == ExpansionFailure::InUse {
            tracing::warn!(volume = %name, %message, "volume cannot be expanded while it is in use");
            self.with(|done| done.deferred.insert((*key).clone(), expansion.bytes));
            return Ok(());
        }
        let words = format!("NodeExpandVolume.NodeExpandVolume failed for volume {name:?} : {message}");
        self.record_event(growing.owner.clone(), EventType::Warning, "VolumeResizeFailed", words);
        Err(refused(message))
    }

    async fn patch_claim(&self, size: &CsiSize, patch: &serde_json::Value) -> VolumeResult {
        let patched = self.deps.api.patch_claim_status(&size.namespace, &size.claim, patch).await;
        patched.map_err(|error| {
            refused(format!("error updating pvc status {}/{}: {error}", size.namespace, size.claim))
        })
    }

    pub(super) fn record_event(&self, subject: EventSubject, kind: EventType, reason: &str, message: String) {
        let now = self.deps.clock.now();
        self.deps.events.record(RecordedEvent::new(subject, kind, reason, message, now));
    }
}

fn claim(size: &CsiSize) -> EventSubject {
    EventSubject::Claim { namespace: size.namespace.clone(), name: size.claim.clone(), uid: size.uid.clone() }
}

pub(super) fn owner(pod: &CsiPod) -> EventSubject {
    let CsiPod { name, namespace, uid, .. } = pod;
    EventSubject::Pod {
        uid: uid.clone(),
        full_name: PodFullName { namespace: namespace.clone(), name: name.clone() },
        field_path: String::new(),
    }
}
