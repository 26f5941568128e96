//! Stages, publishes and expands CSI volumes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use decide::volumes::csi::{attachment_name, missing_driver_error, pod_information};
use decide::volumes::csi_driver::{DriverRequirements, driver_requirements};
use decide::volumes::growth::{Expansion, ExpansionFailure, Growth, growth};
use model::{CsiAccess, CsiLifecycle, CsiVolume, EventType, FsGroup, PlannedVolume, PodUid, VolumeLabel};
use ports::host::csi_folders::{Published, VolumeRecord};
use ports::host::pod_volumes::{Progress, VolumeError, VolumeResult, VolumeStep};
use ports::plugins::csi::{CsiCapabilities, CsiError, CsiNode, Expand, Publish, Stage, VolumeUse};
use tokio::time::Instant;

use super::growth::{Growing, owner};
use super::{CsiVolumes, Key, refused};

/// The setup of one volume for a pod.
pub(super) struct VolumeSetup<'a> {
    pub(super) key: Key,
    pub(super) volume: &'a CsiVolume,
    pub(super) place: Published,
    requirements: DriverRequirements,
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
    ) -> VolumeResult {
        let key = Key::of(volume);
        let _locked = self.lock(&key).await?;
        let place = self.place(uid, volume, planned.label.of_mount());
        let is_there = self.deps.folders.is_published(&place).await?;
        let object = match self.deps.drivers.object(&volume.driver).await {
            Ok(object) => object,
            // A published volume stays usable without the API server.
            Err(_) if is_there => return Ok(()),
            Err(reason) => return Err(refused(reason)),
        };
        let requirements = driver_requirements(object.as_deref(), volume).map_err(|reason| {
            refused(format!(
                "kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: {reason}"
            ))
        })?;
        let of_pod = (uid.clone(), volume.spec_name.clone());
        let is_done = is_there && self.with(|done| done.published.contains(&of_pod));
        let growth = self.growth(&key, volume);
        if is_done && !requirements.republish && growth == Growth::Nothing {
            self.note_size(&key, volume);
            return Ok(());
        }
        let driver = self.deps.drivers.get(&volume.driver).map_err(|reason| {
            let (step, reason) = missing_driver_error(volume, is_done, &reason);
            VolumeError::Step { step, reason }
        })?;
        let abilities = driver.capabilities().await.map_err(call_error)?;
        let (group, label) = (planned.fs_group, &planned.label);
        let work = VolumeSetup { key, volume, place, requirements, driver, abilities, group, label };
        // A published volume is not changed.
        if !is_there {
            self.prepare_label(&work).await?;
        }
        if !is_done || work.requirements.republish {
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
                    self.record_read_only(&growing);
                }
            }
            Growth::Nothing => self.note_size(&work.key, volume),
            Growth::Done => self.with(|done| done.has_size(&work.key, requested_size(volume))),
        }
        Ok(())
    }

    fn growth(&self, key: &Key, volume: &CsiVolume) -> Growth {
        let Some(size) = &volume.size else { return Growth::Nothing };
        let (here, deferred) =
            self.with(|done| (done.sizes.get(key).copied(), done.deferred.get(key).copied()));
        match growth(size, volume.read_only, here) {
            // The driver refused to expand the volume while it is in use.
            Growth::Expand(Expansion { bytes, .. }) if deferred == Some(bytes) => Growth::Nothing,
            found => found,
        }
    }

    /// Records the size of a new volume from its claim.
    fn note_size(&self, key: &Key, volume: &CsiVolume) {
        if let Some(size) = &volume.size {
            self.with(|done| {
                if size.known >= size.requested {
                    done.sizes.entry(key.clone()).or_insert(size.requested);
                }
            });
        }
    }

    pub(super) fn place(&self, uid: &PodUid, volume: &CsiVolume, label: Option<&str>) -> Published {
        let node = &self.deps.node;
        let record = VolumeRecord {
            spec_name: volume.spec_name.clone(),
            handle: volume.handle.clone(),
            driver: volume.driver.clone(),
            node: node.clone(),
            attachment: attachment_name(&volume.handle, &volume.driver, node),
            lifecycle: volume.lifecycle,
            label: label.map(str::to_owned),
        };
        self.deps.folders.locate(uid, record, volume.access == CsiAccess::Block)
    }

    async fn stage_and_publish(&self, work: &VolumeSetup<'_>, progress: &Progress) -> VolumeResult {
        let VolumeSetup { volume, place, requirements, .. } = work;
        let publish_context = if requirements.attach {
            self.with(|done| done.uses(&place.record));
            self.report();
            let begun = Instant::now();
            let attached = self.wait_attached(&work.key, volume, requirements.counts_volumes).await;
            self.operated("verify_controller_attached_volume", &volume.driver, begun, &attached);
            attached?
        } else {
            BTreeMap::new()
        };
        let stages = work.abilities.stage && volume.lifecycle == CsiLifecycle::Persistent;
        let stage_secrets = if stages && !self.with(|done| done.staged.contains(&work.key)) {
            let found = self.secret("NodeStageSecretRef", volume.stage_secret.as_ref()).await;
            Some(found.map_err(|error| not_staged(error.text()))?)
        } else {
            None
        };
        let mut secrets = self.secret("NodePublishSecretRef", volume.publish_secret.as_ref()).await?;
        let mut attributes = volume.attributes.clone();
        if requirements.pod_information {
            attributes.extend(pod_information(&volume.pod, volume.lifecycle));
        }
        let is_block = volume.access == CsiAccess::Block;
        // Like upstream, only for file system volumes.
        if !is_block {
            let tokens = self.tokens(&volume.pod, &requirements.tokens).await?;
            if requirements.tokens_are_secrets { &mut secrets } else { &mut attributes }.extend(tokens);
        }

        // From here on the driver may have state to undo.
        self.deps.folders.prepare(place).await?;
        if let Some(secrets) = stage_secrets {
            self.stage(work, publish_context.clone(), secrets).await?;
        }
        let order = Publish {
            handle: volume.handle.clone(),
            // Block devices get the staging path even if they are not staged.
            staging: (stages || is_block).then(|| place.staging.clone()),
            target: place.target.clone(),
            read_only: volume.read_only,
            publish_context,
            use_as: work.labelled_use(),
            secrets,
            attributes,
        };
        work.driver.publish(&order).await.map_err(call_error)?;
        if let Some(group) =
            work.group.filter(|_| work.requirements.gives_to_group && !work.abilities.mount_group)
        {
            self.deps.folders.set_group(place, group, progress).await?;
        }
        let of_pod = (place.uid.clone(), volume.spec_name.clone());
        let is_new = self.with(|done| done.published.insert(of_pod));
        if is_new && is_block {
            self.record_mapped_events(work);
        }
        Ok(())
    }

    /// Records the events with the device paths.
    fn record_mapped_events(&self, work: &VolumeSetup<'_>) {
        let VolumeSetup { volume, place, .. } = work;
        // <devices>/publish/<volume>/<pod> is the published device.
        let devices = place.target.ancestors().nth(3).map(Path::to_path_buf).unwrap_or_default();
        let global = devices.join(&volume.spec_name).join("dev");
        let of_pod = volume.path.parent().unwrap_or(Path::new(""));
        for (word, place) in [("globalMapPath", global.as_path()), ("volumeMapPath", of_pod)] {
            let words = format!(
                "MapVolume.MapPodDevice succeeded for volume {:?} {word} {:?}",
                volume.spec_name,
                place.display().to_string()
            );
            self.record_event(owner(&volume.pod), EventType::Normal, "SuccessfulMountVolume", words);
        }
    }

    async fn stage(
        &self,
        work: &VolumeSetup<'_>,
        publish_context: BTreeMap<String, String>,
        secrets: BTreeMap<String, String>,
    ) -> VolumeResult {
        self.deps.folders.prepare_staging(&work.place).await?;
        let order = Stage {
            handle: work.volume.handle.clone(),
            staging: work.place.staging.clone(),
            publish_context,
            use_as: work.labelled_use(),
            secrets,
            attributes: work.volume.attributes.clone(),
        };
        work.driver.stage(&order).await.map_err(|error| not_staged(error.message))?;
        self.with(|done| done.staged.insert(work.key.clone()));
        Ok(())
    }

    /// Expands the volume on this node and updates the claim.
    async fn grow(&self, work: &VolumeSetup<'_>, expansion: &Expansion) -> VolumeResult {
        let VolumeSetup { volume, place, .. } = work;
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
                let refusal = ExpansionFailure::of(&error.code);
                self.not_grown(&growing, expansion, refusal, refusal.message(&error.message)).await
            }
        }
    }
}

fn requested_size(volume: &CsiVolume) -> i64 {
    volume.size.as_ref().map(|size| size.requested).unwrap_or_default()
}

impl VolumeSetup<'_> {
    fn growing(&self) -> Option<Growing<'_>> {
        let volume = self.volume;
        let size = volume.size.as_ref()?;
        Some(Growing { key: &self.key, name: &volume.spec_name, owner: owner(&volume.pod), size })
    }

    /// The requested use with the SELinux label, which is equal for staging and publishing.
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

fn call_error(error: CsiError) -> VolumeError {
    refused(error.message)
}
