//! Stage, publish, grow.

use std::collections::BTreeMap;
use std::sync::Arc;

use decide::volumes::csi::{attachment_name, pod_information};
use decide::volumes::terms::{Terms, terms};
use model::{
    CsiAccess, CsiLifecycle, CsiPod, CsiVolume, EventSubject, EventType, FsGroup, PodFullName, PodUid,
    RecordedEvent,
};
use ports::csi::{CsiCapabilities, CsiError, CsiNode, Expand, Publish, Stage, VolumeUse};
use ports::csi_folders::{Published, VolumeRecord};
use ports::pod_volumes::{Progress, VolumeError};
use serde_json::json;

use super::{CsiVolumes, Key, refused};

/// One volume on its way to a pod.
struct Work<'a> {
    key: Key,
    volume: &'a CsiVolume,
    place: Published,
    terms: Terms,
    driver: Arc<dyn CsiNode>,
    abilities: CsiCapabilities,
    group: Option<FsGroup>,
}

impl CsiVolumes {
    pub(super) async fn set_up_csi(
        &self,
        uid: &PodUid,
        volume: &CsiVolume,
        group: Option<FsGroup>,
        progress: &Progress,
    ) -> Result<(), VolumeError> {
        let key = Key::of(volume);
        let _turn = self.turn(&key).await?;
        let place = self.place(uid, volume);
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
        let grows = volume.size.as_ref().is_some_and(|size| {
            size.wanted > size.known
                && !volume.read_only
                && !self.with(|done| done.is_grown(&key, size.wanted))
        });
        if is_done && !terms.republish && !grows {
            return Ok(());
        }
        let driver = self.parts.drivers.get(&volume.driver).map_err(|reason| {
            refused(format!("kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: {reason}"))
        })?;
        let abilities = driver.capabilities().await.map_err(told)?;
        let work = Work { key, volume, place, terms, driver, abilities, group };
        if !is_done || work.terms.republish {
            self.stage_and_publish(&work, progress).await?;
        }
        if grows && work.abilities.expand {
            self.grow(&work).await?;
        }
        Ok(())
    }

    fn place(&self, uid: &PodUid, volume: &CsiVolume) -> Published {
        let node = &self.parts.node;
        let record = VolumeRecord {
            spec_name: volume.spec_name.clone(),
            handle: volume.handle.clone(),
            driver: volume.driver.clone(),
            node: node.clone(),
            attachment: attachment_name(&volume.handle, &volume.driver, node),
            lifecycle: volume.lifecycle,
        };
        self.parts.folders.place(uid, record, volume.access == CsiAccess::Block)
    }

    async fn stage_and_publish(&self, work: &Work<'_>, progress: &Progress) -> Result<(), VolumeError> {
        let Work { volume, place, terms, .. } = work;
        let publish_context = if terms.attach {
            self.with(|done| done.uses(&place.record));
            self.report();
            self.wait_attached(&work.key, volume).await?
        } else {
            BTreeMap::new()
        };
        let stages = work.abilities.stage && volume.lifecycle == CsiLifecycle::Persistent;
        let stage_secrets = if stages && !self.with(|done| done.is_staged(&work.key)) {
            Some(self.secret("NodeStageSecretRef", volume.stage_secret.as_ref()).await?)
        } else {
            None
        };
        let mut secrets = self.secret("NodePublishSecretRef", volume.publish_secret.as_ref()).await?;
        let mut attributes = volume.attributes.clone();
        if terms.pod_information {
            attributes.extend(pod_information(&volume.pod, volume.lifecycle));
        }
        let tokens = self.tokens(&volume.pod, &terms.tokens).await?;
        if terms.tokens_are_secrets { &mut secrets } else { &mut attributes }.extend(tokens);

        // From here on the driver may have something to undo.
        self.parts.folders.prepare(place).await?;
        if let Some(secrets) = stage_secrets {
            self.stage(work, publish_context.clone(), secrets).await?;
        }
        let order = Publish {
            handle: volume.handle.clone(),
            staging: stages.then(|| place.staging.clone()),
            target: place.target.clone(),
            read_only: volume.read_only,
            publish_context,
            use_as: work.use_as(),
            secrets,
            attributes,
        };
        work.driver.publish(&order).await.map_err(told)?;
        if let Some(group) = work.group.filter(|_| work.terms.gives_to_group && !work.abilities.mount_group) {
            self.parts.folders.give_to_group(place, group, progress).await?;
        }
        self.with(|done| done.has_published(&place.uid, &volume.spec_name));
        Ok(())
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
            use_as: work.use_as(),
            secrets,
            attributes: work.volume.attributes.clone(),
        };
        work.driver.stage(&order).await.map_err(|error| {
            refused(format!(
                "MountVolume.MountDevice failed for volume {:?} : {error}",
                work.volume.spec_name
            ))
        })?;
        self.with(|done| done.has_staged(&work.key));
        Ok(())
    }

    fn tell(&self, subject: EventSubject, kind: EventType, reason: &str, message: String) {
        let at = self.parts.clock.now();
        self.parts.events.record(RecordedEvent { subject, kind, reason: reason.to_owned(), message, at });
    }

    /// Lets the file system follow a volume that has grown, and tells the claim.
    async fn grow(&self, work: &Work<'_>) -> Result<(), VolumeError> {
        let Work { volume, place, .. } = work;
        let Some(size) = &volume.size else { return Ok(()) };
        let order = Expand {
            handle: volume.handle.clone(),
            path: place.target.clone(),
            staging: work.abilities.stage.then(|| place.staging.clone()),
            bytes: size.wanted,
            use_as: VolumeUse { group: None, ..work.use_as() },
            secrets: self.secret("NodeExpandSecretRef", volume.expand_secret.as_ref()).await?,
        };
        if let Err(error) = work.driver.expand(&order).await {
            let message = format!("Expander.NodeExpand failed to expand the volume : {error}");
            let words = format!(
                "NodeExpandVolume.NodeExpandVolume failed for volume {:?} : {message}",
                volume.spec_name
            );
            self.tell(owner(volume), EventType::Warning, "VolumeResizeFailed", words);
            return Err(refused(message));
        }
        let patch = json!({"status": {
            "capacity": {"storage": size.wanted_text},
            "conditions": [],
            "allocatedResourceStatuses": {"storage": null},
        }});
        let told = self.parts.api.patch_claim_status(&size.namespace, &size.claim, &patch).await;
        told.map_err(|error| {
            refused(format!("error updating pvc status {}/{}: {error}", size.namespace, size.claim))
        })?;
        self.with(|done| done.has_grown(&work.key, size.wanted));
        let words = format!(
            "MountVolume.NodeExpandVolume succeeded for volume {:?} {}",
            volume.spec_name, self.parts.node
        );
        let claim = EventSubject::Claim {
            namespace: size.namespace.clone(),
            name: size.claim.clone(),
            uid: size.uid.clone(),
        };
        for subject in [owner(volume), claim] {
            self.tell(subject, EventType::Normal, "FileSystemResizeSuccessful", words.clone());
        }
        Ok(())
    }
}

fn owner(volume: &CsiVolume) -> EventSubject {
    let CsiPod { name, namespace, uid, .. } = &volume.pod;
    EventSubject::Pod {
        uid: uid.clone(),
        full_name: PodFullName { namespace: namespace.clone(), name: name.clone() },
        field_path: String::new(),
    }
}

impl Work<'_> {
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

fn told(error: CsiError) -> VolumeError {
    refused(error.message)
}
