//! The SELinux labels that volumes are mounted with.
//!
//! What is mounted keeps its label: records and the kernel's table say which, also to an agent that comes later. What
//! pods want beside that is kept here, so that two of them that want different labels are told so.

use std::collections::{HashMap, HashSet};

use decide::volumes::csi::volume_in_use;
use decide::volumes::labels::{
    Complaint, Holding, Plugin, Settled, StagedLabel, Way, join, settle, shared_name, way,
};
use model::{CsiLifecycle, LabelWish, PodUid, VolumeLabel, same_label};
use ports::csi_folders::{StagingRecord, VolumeRecord};
use ports::pod_volumes::{PlannedVolume, VolumeError, VolumePlan};

use super::set_up::Work;
use super::{CsiVolumes, refused};

/// The volumes of the node and the labels that pods have of them.
#[derive(Debug, Default)]
pub(super) struct Labels {
    volumes: HashMap<String, Labelled>,
    /// Volumes of pods, other than these, of which everything is counted.
    counted: HashMap<PodUid, HashSet<String>>,
}

/// A volume that pods have, or are about to.
#[derive(Debug)]
struct Labelled {
    /// Of the first pod, for comparing.
    first: String,
    pods: HashMap<PodUid, VolumeLabel>,
}

impl Labels {
    fn of(&self, name: &str, uid: &PodUid) -> Option<VolumeLabel> {
        self.volumes.get(name)?.pods.get(uid).cloned()
    }

    /// A pod has none of its volumes any more.
    pub(super) fn leaves(&mut self, uid: &PodUid) {
        self.volumes.retain(|_, volume| {
            volume.pods.remove(uid);
            !volume.pods.is_empty()
        });
        self.counted.remove(uid);
    }
}

impl CsiVolumes {
    /// The volume with its label settled, if pods share it; what is wrong with the labels of others is only counted.
    pub(super) async fn with_settled_label(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
    ) -> Result<Option<PlannedVolume>, VolumeError> {
        let VolumeLabel::Wanted(wish) = &volume.label else { return Ok(None) };
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
        wish: &LabelWish,
        (name, plugin): (&str, &str),
    ) -> Result<VolumeLabel, VolumeError> {
        if let Some(label) = self.with(|done| done.labels.of(name, uid)) {
            return Ok(label);
        }
        let mounted = self.label_of_mount(uid, volume).await?;
        let settled = match self.plugin(&volume.plan).await {
            Ok(plugin) => settle(wish, plugin),
            // What was mounted before the API server went away still serves.
            Err(_) if mounted.is_some() => return Ok(mounted.unwrap_or(VolumeLabel::OfFiles)),
            Err(error) => return Err(error),
        };
        let settled =
            settled.and_then(|settled| self.joined(uid, (name, plugin), wish, settled, mounted.as_ref()));
        match (settled, mounted) {
            (Ok(label), _) => Ok(label),
            (Err(complaint), mounted) => {
                self.parts.metrics.storage.label_refused(complaint.class, plugin, wish.access_mode);
                // A pod that has its volume keeps it.
                mounted.ok_or(VolumeError::NoLabel(complaint.message))
            }
        }
    }

    /// Counts what is wrong with the labels of a volume that has nothing to do with other pods'.
    fn count_own(&self, uid: &PodUid, volume: &PlannedVolume, wish: &LabelWish) -> Result<(), VolumeError> {
        let storage = &self.parts.metrics.storage;
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

    /// Takes a pod among those that have a volume, unless its label is another than theirs.
    fn joined(
        &self,
        uid: &PodUid,
        (name, plugin): (&str, &str),
        wish: &LabelWish,
        settled: Settled,
        mounted: Option<&VolumeLabel>,
    ) -> Result<VolumeLabel, Complaint> {
        let storage = &self.parts.metrics.storage;
        self.with(|done| {
            let known = done.labels.volumes.get(name);
            let warning = match known {
                Some(volume) => join(wish, &settled, &volume.first)?,
                None => None,
            };
            if known.is_none() && !settled.label.is_empty() {
                storage.label_admitted(plugin, wish.access_mode);
            }
            for warning in warning.iter().chain(&settled.warning) {
                storage.label_warned(warning.class, plugin, wish.access_mode);
            }
            let wanted = VolumeLabel::from(settled.mount);
            let label = match mounted {
                Some(mounted) if !same_label(text(mounted), text(&wanted)) => mounted.clone(),
                // In the pod's spelling: what is read from the kernel has the kernel's.
                Some(_) | None => wanted,
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

    /// Whether what mounts a volume passes labels on.
    async fn plugin(&self, plan: &VolumePlan) -> Result<Plugin, VolumeError> {
        let VolumePlan::Csi(volume) = plan else { return Ok(Plugin::Supports) };
        let object = self.parts.drivers.object(&volume.driver).await.map_err(refused)?;
        let supports = object.is_some_and(|object| object.spec.se_linux_mount == Some(true));
        Ok(if supports { Plugin::Supports } else { Plugin::Ignores })
    }

    /// What labels have to do with a volume that is mounted for this pod.
    pub(super) async fn label_of_mount(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
    ) -> Result<Option<VolumeLabel>, VolumeError> {
        let VolumePlan::Csi(plan) = &volume.plan else {
            return self.parts.others.mounted_label(uid, volume).await;
        };
        let place = self.place(uid, plan, None);
        if plan.lifecycle == CsiLifecycle::Ephemeral || !self.parts.folders.is_published(&place).await? {
            return Ok(None);
        }
        match self.parts.folders.recorded(&place).await {
            Ok(Some(record)) => Ok(Some(record.label.into())),
            // One that cannot be read is written anew, by what is mounted.
            Ok(None) | Err(_) => self.parts.others.mounted_label(uid, volume).await,
        }
    }

    /// The label that a volume is known to have for this pod.
    pub(super) async fn known_label(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
    ) -> Result<Option<VolumeLabel>, VolumeError> {
        let name = shared_name(&volume.plan).map(|(name, _)| name);
        match name.and_then(|name| self.with(|done| done.labels.of(&name, uid))) {
            Some(label) => Ok(Some(label)),
            None => self.label_of_mount(uid, volume).await,
        }
    }

    /// Makes sure that a volume can be staged and published with a label: no other pod has it with another one, and if it
    /// is still staged with one, or nobody knows with which, that is undone.
    pub(super) async fn make_way(&self, work: &Work<'_>) -> Result<(), VolumeError> {
        let Work { place, label, volume, .. } = work;
        if matches!(label, VolumeLabel::None | VolumeLabel::Wanted(_)) || place.is_block {
            return Ok(());
        }
        let all = self.parts.folders.all().await?;
        let staged = self.parts.folders.staged(place).await?;
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

/// The label that a volume is mounted with, empty for none.
fn text(label: &VolumeLabel) -> &str {
    label.of_mount().unwrap_or_default()
}

fn recorded_label(record: &VolumeRecord) -> &str {
    record.label.as_deref().unwrap_or_default()
}
