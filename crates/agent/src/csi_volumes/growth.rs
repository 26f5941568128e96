//! Volumes that grow: what their claims and users are told.

use decide::volumes::growth::{Expansion, Growth, Refusal, begun, grown, growth, not_grown};
use model::{CsiPod, CsiSize, EventSubject, EventType, PlannedVolume, PodFullName, PodUid, RecordedEvent};
use ports::pod_volumes::VolumeError;
use tokio::time::Instant;

use super::{CsiVolumes, Key, refused};

/// A volume that is to grow.
pub(super) struct Growing<'a> {
    pub(super) key: &'a Key,
    /// The PersistentVolume's name.
    pub(super) name: &'a str,
    /// The pod.
    pub(super) owner: EventSubject,
    pub(super) size: &'a CsiSize,
}

/// A volume of no CSI driver that may have grown.
pub(super) struct Growable<'a> {
    /// What makes it, as metrics know it.
    pub(super) plugin: &'a str,
    /// The PersistentVolume's name.
    pub(super) name: &'a str,
    pub(super) size: &'a CsiSize,
    pub(super) pod: &'a CsiPod,
    pub(super) read_only: bool,
}

impl CsiVolumes {
    /// Lets the file system of a volume follow its disk, when the PersistentVolume has grown.
    pub(super) async fn grow_plain(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
        grows: &Growable<'_>,
    ) -> Result<(), VolumeError> {
        let Growable { plugin, name, size, pod, read_only } = *grows;
        let key = Key { driver: plugin.to_owned(), handle: name.to_owned() };
        let here = self.with(|done| done.size(&key));
        let growing = Growing { key: &key, name, owner: owner(pod), size };
        match growth(size, read_only, here) {
            Growth::Nothing => {}
            Growth::Done => self.with(|done| done.has_size(&key, size.wanted)),
            Growth::ReadOnly => self.tell_read_only(&growing),
            Growth::Expand(expansion) => {
                let begun = Instant::now();
                self.begin_growth(&growing, &expansion).await?;
                let sizes = (here.unwrap_or(size.known), expansion.bytes);
                let done = self.parts.others.grow(uid, volume, sizes).await;
                let storage = &self.parts.metrics.storage;
                storage.operated("volume_fs_resize", plugin, begun.elapsed(), done.is_err());
                match done {
                    Ok(()) => self.has_grown(&growing, &expansion).await?,
                    Err(error) => {
                        self.not_grown(&growing, &expansion, Refusal::Passing, error.text()).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells that what is mounted read-only does not grow.
    pub(super) fn tell_read_only(&self, growing: &Growing<'_>) {
        let words = format!(
            "MountVolume.NodeExpandVolume failed for volume {:?} requested read-only file system",
            growing.name
        );
        for subject in [growing.owner.clone(), claim(growing.size)] {
            self.tell(subject, EventType::Warning, "FileSystemResizeFailed", words.clone());
        }
        self.with(|done| done.has_size(growing.key, growing.size.wanted));
    }

    /// Tells the claim, if somebody follows it, that its volume is being grown.
    pub(super) async fn begin_growth(
        &self,
        growing: &Growing<'_>,
        expansion: &Expansion,
    ) -> Result<(), VolumeError> {
        let size = growing.size;
        if expansion.is_followed && expansion.claim_waits && size.state != "NodeResizeInProgress" {
            self.patch_claim(size, &begun()).await?;
        }
        Ok(())
    }

    /// The volume has grown.
    pub(super) async fn has_grown(
        &self,
        growing: &Growing<'_>,
        expansion: &Expansion,
    ) -> Result<(), VolumeError> {
        if expansion.claim_waits {
            self.patch_claim(growing.size, &grown(&expansion.text)).await?;
        }
        self.with(|done| done.has_size(growing.key, expansion.bytes));
        let words = format!(
            "MountVolume.NodeExpandVolume succeeded for volume {:?} {}",
            growing.name, self.parts.node
        );
        for subject in [growing.owner.clone(), claim(growing.size)] {
            self.tell(subject, EventType::Normal, "FileSystemResizeSuccessful", words.clone());
        }
        Ok(())
    }

    /// The volume has not grown.
    pub(super) async fn not_grown(
        &self,
        growing: &Growing<'_>,
        expansion: &Expansion,
        refusal: Refusal,
        message: String,
    ) -> Result<(), VolumeError> {
        let Growing { key, size, name, .. } = growing;
        if refusal == Refusal::Unsupported && !(expansion.is_followed && expansion.claim_waits) {
            self.with(|done| done.has_size(key, expansion.bytes));
            return Ok(());
        }
        if expansion.is_followed {
            let is_stale =
                size.asked != expansion.bytes && self.with(|done| done.is_refused(key, expansion.bytes));
            let patch = not_grown(refusal, is_stale, &message, self.parts.clock.now());
            // The next try tells it again.
            if let Err(error) = self.patch_claim(size, &patch).await {
                tracing::warn!(claim = %size.claim, error = %error.text(), "a claim is not told of its volume");
            }
        }
        self.with(|done| done.has_refused(key, expansion.bytes));
        if refusal == Refusal::InUse {
            tracing::warn!(volume = %name, %message, "a volume does not grow while it is in use");
            self.with(|done| done.leave_alone(key, expansion.bytes));
            return Ok(());
        }
        let words = format!("NodeExpandVolume.NodeExpandVolume failed for volume {name:?} : {message}");
        self.tell(growing.owner.clone(), EventType::Warning, "VolumeResizeFailed", words);
        Err(refused(message))
    }

    async fn patch_claim(&self, size: &CsiSize, patch: &serde_json::Value) -> Result<(), VolumeError> {
        let told = self.parts.api.patch_claim_status(&size.namespace, &size.claim, patch).await;
        told.map_err(|error| {
            refused(format!("error updating pvc status {}/{}: {error}", size.namespace, size.claim))
        })
    }

    pub(super) fn tell(&self, subject: EventSubject, kind: EventType, reason: &str, message: String) {
        let at = self.parts.clock.now();
        self.parts.events.record(RecordedEvent {
            annotations: Default::default(),
            subject,
            kind,
            reason: reason.to_owned(),
            message,
            at,
        });
    }
}

fn claim(size: &CsiSize) -> EventSubject {
    EventSubject::Claim { namespace: size.namespace.clone(), name: size.claim.clone(), uid: size.uid.clone() }
}

/// The pod that uses a volume.
pub(super) fn owner(pod: &CsiPod) -> EventSubject {
    let CsiPod { name, namespace, uid, .. } = pod;
    EventSubject::Pod {
        uid: uid.clone(),
        full_name: PodFullName { namespace: namespace.clone(), name: name.clone() },
        field_path: String::new(),
    }
}
