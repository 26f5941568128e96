//! SELinux labels of mounted volumes.
//!
//! A mounted volume keeps its label, which is read back from records and the mount table after a restart. The requests of other pods are
//! tracked here, so that conflicts are reported.

use std::collections::{HashMap, HashSet};

use decide::volumes::csi::volume_in_use;
use decide::volumes::labels::{
    Holding, LabelConflict, Plugin, Settled, StagedLabel, Way, join, settle, shared_name, way,
};
use model::{CsiLifecycle, LabelRequest, PodUid, VolumeLabel, same_label};
use ports::host::csi_folders::{StagingRecord, VolumeRecord};
use ports::host::pod_volumes::{PlannedVolume, VolumeError, VolumePlan, VolumeResult};

use super::set_up::VolumeSetup;
use super::{CsiVolumes, refused};

/// Labels by volume and pod.
#[derive(Debug, Default)]
pub(super) struct Labels {
    volumes: HashMap<String, Labelled>,
    /// Volumes whose conflicts have been counted.
    counted: HashMap<PodUid, HashSet<String>>,
}

/// A volume and the labels of its pods.
#[derive(Debug)]
struct Labelled {
    /// Label of the first pod, for comparisons.
    first: String,
    pods: HashMap<PodUid, VolumeLabel>,
}

impl Labels {
    fn of(&self, name: &str, uid: &PodUid) -> Option<VolumeLabel> {
        self.volumes.get(name)?.pods.get(uid).cloned()
    }

    /// Removes a pod.
    pub(super) fn remove_pod(&mut self, uid: &PodUid) {
        self.volumes.retain(|_, volume| {
            volume.pods.remove(uid);
            !volume.pods.is_empty()
        });
        self.counted.remove(uid);
    }
}

impl CsiVolumes {
    /// The volume with its mount label. Conflicts that do not block the pod are only counted.
    pub(super) async fn with_settled_label(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
    ) -> VolumeResult<Option<PlannedVolume>> {
        let VolumeLabel::Requested(wish) = &volume.label else { return Ok(None) };
        let Some((name, plugin)) = shared_name(&volume.plan) else {
            self.count_own(uid, volume, wish)?;
            return Ok(None);
        };
        let label = self.settled_label(uid, volume, wish, (&name, &plugin)).await?;
        Ok(Some(PlannedVolume { label, ..volume.clone() }))
    }

    async fn settled_label(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
        wish: &LabelRequest,
        (name, plugin): (&str, &str),
    ) -> VolumeResult<VolumeLabel> {
        if let Some(label) = self.with(|done| done.labels.of(name, uid)) {
            return Ok(label);
        }
        let mounted = self.label_of_mount(uid, volume).await?;
        let settled = match self.plugin(&volume.plan).await {
            Ok(plugin) => settle(wish, plugin),
            // A mounted volume stays usable without the API server.
            Err(_) if mounted.is_some() => return Ok(mounted.unwrap_or(VolumeLabel::OfFiles)),
            Err(error) => return Err(error),
        };
        let settled =
            settled.and_then(|settled| self.joined(uid, (name, plugin), wish, settled, mounted.as_ref()));
        match (settled, mounted) {
            (Ok(label), _) => Ok(label),
            (Err(complaint), mounted) => {
                self.deps.metrics.storage.label_refused(complaint.class, plugin, wish.access_mode);
                // A mounted volume is kept.
                mounted.ok_or(VolumeError::NoLabel(complaint.message))
            }
        }
    }

    /// Counts the label conflicts of a volume that other pods cannot share.
    fn count_own(&self, uid: &PodUid, volume: &PlannedVolume, wish: &LabelRequest) -> VolumeResult {
        let storage = &self.deps.metrics.storage;
        match settle(wish, Plugin::Ignores) {
            Ok(Settled { warning: Some(warning), .. }) => {
                let is_new = self.with(|done| {
                    done.labels.counted.entry(uid.clone()).or_default().insert(volume.name.clone())
                });
                if is_new {
                    storage.label_warned(warning.class, "", wish.access_mode);
                }
                Ok(())
            }
            Ok(Settled { warning: None, .. }) => Ok(()),
            Err(complaint) => {
                storage.label_refused(complaint.class, "", wish.access_mode);
                Err(VolumeError::NoLabel(complaint.message))
            }
        }
    }

    /// Adds a pod to a volume, unless its label differs.
    fn joined(
        &self,
        uid: &PodUid,
        (name, plugin): (&str, &str),
        wish: &LabelRequest,
        settled: Settled,
        mounted: Option<&VolumeLabel>,
    ) -> Result<VolumeLabel, LabelConflict> {
        let storage = &self.deps.metrics.storage;
        self.with(|done| {
            let known = done.labels.volumes.get(name);
            let warning = match known {
                Some(volume) => join(wish, &settled, &volume.first)?,
                None => None,
            };
            if known.is_none() && !settled.label.is_empty() {
                storage.labels_admitted.get([wish.access_mode, plugin]).add(1.0);
            }
            for warning in warning.iter().chain(&settled.warning) {
                storage.label_warned(warning.class, plugin, wish.access_mode);
            }
            let requested = VolumeLabel::from(settled.mount);
            let label = match mounted {
                Some(mounted) if !same_label(text(mounted), text(&requested)) => mounted.clone(),
                // In the spelling of the pod, not of the kernel.
                Some(_) | None => requested,
            };
            let volume = done
                .labels
                .volumes
                .entry(name.to_owned())
                .or_insert_with(|| Labelled { first: settled.label, pods: HashMap::new() });
            volume.pods.insert(uid.clone(), label.clone());
            Ok(label)
        })
    }

    /// Whether the plugin supports labels.
    async fn plugin(&self, plan: &VolumePlan) -> VolumeResult<Plugin> {
        let VolumePlan::Csi(volume) = plan else { return Ok(Plugin::Supports) };
        let object = self.deps.drivers.object(&volume.driver).await.map_err(refused)?;
        let supports = object.is_some_and(|object| object.spec.se_linux_mount == Some(true));
        Ok(if supports { Plugin::Supports } else { Plugin::Ignores })
    }

    /// The label of a volume that is mounted for this pod.
    pub(super) async fn label_of_mount(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
    ) -> VolumeResult<Option<VolumeLabel>> {
        let VolumePlan::Csi(plan) = &volume.plan else {
            return self.deps.others.mounted_label(uid, volume).await;
        };
        let place = self.place(uid, plan, None);
        if plan.lifecycle == CsiLifecycle::Ephemeral || !self.deps.folders.is_published(&place).await? {
            return Ok(None);
        }
        match self.deps.folders.recorded(&place).await {
            Ok(Some(record)) => Ok(Some(record.label.into())),
            // An unreadable record is replaced, with the label of the mount.
            Ok(None) | Err(_) => self.deps.others.mounted_label(uid, volume).await,
        }
    }

    /// The known label of a volume for this pod.
    pub(super) async fn known_label(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
    ) -> VolumeResult<Option<VolumeLabel>> {
        let name = shared_name(&volume.plan).map(|(name, _)| name);
        match name.and_then(|name| self.with(|done| done.labels.of(&name, uid))) {
            Some(label) => Ok(Some(label)),
            None => self.label_of_mount(uid, volume).await,
        }
    }

    /// Makes sure that a volume can be staged and published with a label: no other pod uses it with another label. Unstages a volume
    /// that is still staged with another or an unknown label.
    pub(super) async fn prepare_label(&self, work: &VolumeSetup<'_>) -> VolumeResult {
        let VolumeSetup { place, label, volume, .. } = work;
        if matches!(label, VolumeLabel::None | VolumeLabel::Requested(_)) || place.is_block {
            return Ok(());
        }
        let all = self.deps.folders.all().await?;
        let staged = self.deps.folders.staged(place).await?;
        let found = Holding {
            others: all.of_others(place).map(recorded_label).collect(),
            is_used: all.is_used_by_another(place),
            staged: match &staged {
                StagingRecord::Missing => StagedLabel::NotStaged,
                StagingRecord::Read(record) => StagedLabel::Known(recorded_label(record)),
                StagingRecord::Corrupt => StagedLabel::Unknown,
            },
        };
        match way(text(label), &found) {
            Way::Free => Ok(()),
            Way::Unstage => self.unstage(&*work.driver, place).await,
            Way::Held => Err(VolumeError::OtherLabel(volume_in_use(&volume.driver, &volume.handle))),
        }
    }
}

/// Empty for none.
fn text(label: &VolumeLabel) -> &str {
    label.of_mount().unwrap_or_default()
}

fn recorded_label(record: &VolumeRecord) -> &str {
    record.label.as_deref().unwrap_or_default()
}
