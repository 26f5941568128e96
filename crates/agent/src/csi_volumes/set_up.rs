//! Stage, publish, grow.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use decide::volumes::csi::{attachment_name, driver_is_missing, pod_information};
use decide::volumes::growth::{Expansion, Growth, Refusal, growth};
use decide::volumes::terms::{Terms, terms};
use model::{CsiAccess, CsiLifecycle, CsiVolume, EventType, FsGroup, PlannedVolume, PodUid, VolumeLabel};
use ports::csi::{CsiCapabilities, CsiError, CsiNode, Expand, Publish, Stage, VolumeUse};
use ports::csi_folders::{Published, VolumeRecord};
use ports::pod_volumes::{Progress, VolumeError, VolumeStep};
use tokio::time::Instant;

use super::growth::{Growing, owner};
use super::{CsiVolumes, Key, refused};

/// One volume on its way to a pod.
pub(super) struct Work<'a> {
    pub(super) key: Key,
    pub(super) volume: &'a CsiVolume,
    pub(super) place: Published,
    terms: Terms,
    pub(super) driver: Arc<dyn CsiNode>,
    abilities: CsiCapabilities,
    group: Option<FsGroup>,
    pub(super) label: &'a VolumeLabel,
}

impl CsiVolumes {
    pub(super) async fn set_up_csi(
        &self,
        uid: &PodUid,
        volume: &CsiVolume,
        planned: &PlannedVolume,
        progress: &Progress,
    ) -> Result<(), VolumeError> {
        let key = Key::of(volume);
        let _turn = self.turn(&key).await?;
        let place = self.place(uid, volume, planned.label.of_mount());
        let is_there = self.parts.folders.is_published(&place).await?;
        let object = match self.parts.drivers.object(&volume.driver).await {
            Ok(object) => object,
            // What was published before the API server went away still serves.
            Err(_) if is_there => return Ok(()),
            Err(reason) => return Err(refused(reason)),
        };
        let terms = terms(object.as_deref(), volume).map_err(|reason| {
            refused(format!(
                "kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: {reason}"
            ))
        })?;
        let is_done = is_there && self.with(|done| done.is_published(uid, &volume.spec_name));
        let growth = self.growth(&key, volume);
        if is_done && !terms.republish && growth == Growth::Nothing {
            self.note_size(&key, volume);
            return Ok(());
        }
        let driver = self.parts.drivers.get(&volume.driver).map_err(|reason| {
            let (step, reason) = driver_is_missing(volume, is_done, &reason);
            VolumeError::Step { step, reason }
        })?;
        let abilities = driver.capabilities().await.map_err(told)?;
        let (group, label) = (planned.fs_group, &planned.label);
        let work = Work { key, volume, place, terms, driver, abilities, group, label };
        // What the pod has stays as it is.
        if !is_there {
            self.make_way(&work).await?;
        }
        if !is_done || work.terms.republish {
            self.stage_and_publish(&work, progress).await?;
        }
        match growth {
            Growth::Expand(expansion) if work.abilities.expand => {
                let begun = Instant::now();
                let grown = self.grow(&work, &expansion).await;
                self.operated("volume_fs_resize", &volume.driver, begun, &grown);
                grown?;
            }
            Growth::Expand(_) => {}
            Growth::ReadOnly => {
                if let Some(growing) = work.growing() {
                    self.tell_read_only(&growing);
                }
            }
            Growth::Nothing => self.note_size(&work.key, volume),
            Growth::Done => self.with(|done| done.has_size(&work.key, wanted(volume))),
        }
        Ok(())
    }

    fn growth(&self, key: &Key, volume: &CsiVolume) -> Growth {
        let Some(size) = &volume.size else { return Growth::Nothing };
        let found = growth(size, volume.read_only, self.with(|done| done.size(key)));
        match &found {
            Growth::Expand(Expansion { bytes, .. }) if self.is_left_alone(key, *bytes) => Growth::Nothing,
            _ => found,
        }
    }

    /// Whether the driver has said that the volume cannot grow here while it is in use.
    fn is_left_alone(&self, key: &Key, bytes: i64) -> bool {
        self.with(|done| done.is_left_alone(key, bytes))
    }

    /// A volume that is seen for the first time has the size that its claim knows of.
    fn note_size(&self, key: &Key, volume: &CsiVolume) {
        if let Some(size) = &volume.size {
            self.with(|done| {
                if done.size(key).is_none() && size.known >= size.wanted {
                    done.has_size(key, size.wanted);
                }
            });
        }
    }

    pub(super) fn place(&self, uid: &PodUid, volume: &CsiVolume, label: Option<&str>) -> Published {
        let node = &self.parts.node;
        let record = VolumeRecord {
            spec_name: volume.spec_name.clone(),
            handle: volume.handle.clone(),
            driver: volume.driver.clone(),
            node: node.clone(),
            attachment: attachment_name(&volume.handle, &volume.driver, node),
            lifecycle: volume.lifecycle,
            label: label.map(str::to_owned),
        };
        self.parts.folders.place(uid, record, volume.access == CsiAccess::Block)
    }

    async fn stage_and_publish(&self, work: &Work<'_>, progress: &Progress) -> Result<(), VolumeError> {
        let Work { volume, place, terms, .. } = work;
        let publish_context = if terms.attach {
            self.with(|done| done.uses(&place.record));
            self.report();
            let begun = Instant::now();
            let attached = self.wait_attached(&work.key, volume, terms.counts_volumes).await;
            self.operated("verify_controller_attached_volume", &volume.driver, begun, &attached);
            attached?
        } else {
            BTreeMap::new()
        };
        let stages = work.abilities.stage && volume.lifecycle == CsiLifecycle::Persistent;
        let stage_secrets = if stages && !self.with(|done| done.is_staged(&work.key)) {
            let found = self.secret("NodeStageSecretRef", volume.stage_secret.as_ref()).await;
            Some(found.map_err(|error| not_staged(error.text()))?)
        } else {
            None
        };
        let mut secrets = self.secret("NodePublishSecretRef", volume.publish_secret.as_ref()).await?;
        let mut attributes = volume.attributes.clone();
        if terms.pod_information {
            attributes.extend(pod_information(&volume.pod, volume.lifecycle));
        }
        let is_block = volume.access == CsiAccess::Block;
        // As upstream, which gives tokens with files alone.
        if !is_block {
            let tokens = self.tokens(&volume.pod, &terms.tokens).await?;
            if terms.tokens_are_secrets { &mut secrets } else { &mut attributes }.extend(tokens);
        }

        // From here on the driver may have something to undo.
        self.parts.folders.prepare(place).await?;
        if let Some(secrets) = stage_secrets {
            self.stage(work, publish_context.clone(), secrets).await?;
        }
        let order = Publish {
            handle: volume.handle.clone(),
            // Devices have the path whether they were staged there or not.
            staging: (stages || is_block).then(|| place.staging.clone()),
            target: place.target.clone(),
            read_only: volume.read_only,
            publish_context,
            use_as: work.labelled_use(),
            secrets,
            attributes,
        };
        work.driver.publish(&order).await.map_err(told)?;
        if let Some(group) = work.group.filter(|_| work.terms.gives_to_group && !work.abilities.mount_group) {
            self.parts.folders.give_to_group(place, group, progress).await?;
        }
        let is_new = self.with(|done| done.has_published(&place.uid, &volume.spec_name));
        if is_new && is_block {
            self.tell_mapped(work);
        }
        Ok(())
    }

    /// Tells where a device is.
    fn tell_mapped(&self, work: &Work<'_>) {
        let Work { volume, place, .. } = work;
        // <devices>/publish/<volume>/<pod> is what the driver has published.
        let devices = place.target.ancestors().nth(3).map(Path::to_path_buf).unwrap_or_default();
        let global = devices.join(&volume.spec_name).join("dev");
        let of_pod = volume.path.parent().unwrap_or(Path::new(""));
        for (word, place) in [("globalMapPath", global.as_path()), ("volumeMapPath", of_pod)] {
            let words = format!(
                "MapVolume.MapPodDevice succeeded for volume {:?} {word} {:?}",
                volume.spec_name,
                place.display().to_string()
            );
            self.tell(owner(&volume.pod), EventType::Normal, "SuccessfulMountVolume", words);
        }
    }

    async fn stage(
        &self,
        work: &Work<'_>,
        publish_context: BTreeMap<String, String>,
        secrets: BTreeMap<String, String>,
    ) -> Result<(), VolumeError> {
        self.parts.folders.prepare_staging(&work.place).await?;
        let order = Stage {
            handle: work.volume.handle.clone(),
            staging: work.place.staging.clone(),
            publish_context,
            use_as: work.labelled_use(),
            secrets,
            attributes: work.volume.attributes.clone(),
        };
        work.driver.stage(&order).await.map_err(|error| not_staged(error.message))?;
        self.with(|done| done.has_staged(&work.key));
        Ok(())
    }

    /// Lets the file system follow a volume that has grown, and tells the claim.
    async fn grow(&self, work: &Work<'_>, expansion: &Expansion) -> Result<(), VolumeError> {
        let Work { volume, place, .. } = work;
        let Some(growing) = work.growing() else { return Ok(()) };
        let order = Expand {
            handle: volume.handle.clone(),
            path: place.target.clone(),
            staging: place.staging.clone(),
            bytes: expansion.bytes,
            use_as: VolumeUse { group: None, ..work.use_as() },
            secrets: self.secret("NodeExpandSecretRef", volume.expand_secret.as_ref()).await?,
        };
        self.begin_growth(&growing, expansion).await?;
        match work.driver.expand(&order).await {
            Ok(_) => self.has_grown(&growing, expansion).await,
            Err(error) => {
                let refusal = Refusal::of(&error.code);
                self.not_grown(&growing, expansion, refusal, refusal.message(&error.message)).await
            }
        }
    }
}

fn wanted(volume: &CsiVolume) -> i64 {
    volume.size.as_ref().map(|size| size.wanted).unwrap_or_default()
}

impl Work<'_> {
    fn growing(&self) -> Option<Growing<'_>> {
        let volume = self.volume;
        let size = volume.size.as_ref()?;
        Some(Growing { key: &self.key, name: &volume.spec_name, owner: owner(&volume.pod), size })
    }

    /// How the volume is mounted. What a driver mounts for the node and what it mounts for the pod have one label.
    fn labelled_use(&self) -> VolumeUse {
        let mut found = self.use_as();
        if let (CsiAccess::Files { options, .. }, Some(label)) = (&mut found.access, self.label.of_mount()) {
            options.push(format!("context=\"{label}\""));
        }
        found
    }

    fn use_as(&self) -> VolumeUse {
        let mode = self.volume.access_modes.first().map_or("ReadWriteOnce", String::as_str);
        VolumeUse {
            access: self.volume.access.clone(),
            mode: mode.to_owned(),
            single_node_multi_writer: self.abilities.single_node_multi_writer,
            group: self.group.filter(|_| self.abilities.mount_group).map(|group| group.gid),
        }
    }
}

fn not_staged(reason: String) -> VolumeError {
    VolumeError::Step { step: VolumeStep::MountDevice, reason }
}

fn told(error: CsiError) -> VolumeError {
    refused(error.message)
}
