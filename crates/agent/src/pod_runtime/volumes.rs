use std::borrow::Cow;
use std::time::Duration;

use decide::admission::rejection_label;
use decide::volumes::labels::shared_name;
use decide::volumes::{
    ClaimedVolumes, VolumeProblem, check_node_affinity, claim_name, mapped, other_file_system, other_group,
    plan_driven, plan_volumes, retry_after, slow_ownership, step_failed, still_changing, too_many_volumes,
    used_volumes, volume_groups,
};
use k8s_openapi::api::core::v1::{Container, Volume};
use model::{
    ContainerProblem, ContainerSpec, EventSubject, EventType, ImageSpec, ObjectKey, ObjectKind,
    PlannedVolume, RecordedEvent, Rejection, SandboxSpec, SecretReference, SyncFailure, VolumeLabel,
    VolumePlan, VolumeSecret,
};
use ports::pod_volumes::{Progress, VolumeError};
use tokio::time::Instant;

use crate::node_view::NodeView;

use super::container::StartFailure;
use super::projection::PodFiles;
use super::sync::Pass;

/// When users are told that giving a volume to a group takes its time.
const FIRST_REPORT: Duration = Duration::from_secs(30);
const NEXT_REPORTS: Duration = Duration::from_secs(60);
/// How often volumes of drivers are looked after, and how long that may take.
const LOOK_AFTER_VOLUMES: Duration = Duration::from_secs(60);
const LONGEST_LOOK: Duration = Duration::from_secs(20);

impl Pass<'_> {
    /// The pod's volumes, set up. One that fails does not keep the others from being tried.
    pub(super) async fn set_up_volumes(&self) -> Result<Vec<PlannedVolume>, SyncFailure> {
        let parts = &self.runtime.parts;
        let PodFiles { files, kept, failures } = self.files_to_start_with().await;
        let mut failures: Vec<MountFailure> = failures.into_iter().map(MountFailure::mount).collect();
        let mut too_many = Vec::new();
        let claimed = self.claimed_volumes().await;
        let planned = claimed.and_then(|claimed| {
            plan_volumes(self.pod, &parts.settings, &files, &claimed).map(|volumes| (volumes, claimed))
        });
        let (mut volumes, claimed) = match planned {
            Ok(planned) => planned,
            Err(problem) => return Err(self.mount_failure(&[MountFailure::mount(problem.to_string())])),
        };
        for volume in &mut volumes {
            self.read_secret(volume).await;
        }
        for volume in volumes.iter().filter(|volume| !kept.contains(&volume.name)) {
            match self.set_up_volume(volume).await {
                Ok(()) => {
                    self.remember_files(volume);
                    self.tell_mapped(volume, shown_name(volume, &claimed));
                    self.tell_other_group(volume, shown_name(volume, &claimed)).await;
                }
                Err(error) => {
                    self.tell_other_file_system(volume, &claimed, &error);
                    if matches!(error, VolumeError::NodeIsFull(_)) {
                        too_many.push(volume.name.clone());
                    }
                    failures.push(MountFailure::of(volume, shown_name(volume, &claimed), &error));
                }
            }
        }
        if !too_many.is_empty() {
            let (reason, message) = ("VolumeAttachmentLimitExceeded".to_owned(), too_many_volumes(&too_many));
            self.runtime.event(self.pod, None, EventType::Warning, &reason, message.clone());
            parts.metrics.pods.rejected(rejection_label(&reason));
            return Err(SyncFailure::Rejected(Rejection { reason, message }.at_admission()));
        }
        if failures.is_empty() {
            for volume in &mut volumes {
                self.note_label(volume).await;
            }
            self.runtime.memory.mounted(&self.pod.uid);
            return Ok(volumes);
        }
        Err(self.mount_failure(&failures))
    }

    /// Finds out whether a volume is mounted with a label: its files are not labelled one by one then.
    async fn note_label(&self, volume: &mut PlannedVolume) {
        if !matches!(volume.label, VolumeLabel::Wanted(_)) {
            return;
        }
        let found = match shared_name(&volume.plan) {
            Some(_) => self.runtime.parts.volumes.mounted_label(&self.pod.uid, volume).await,
            None => Ok(None),
        };
        volume.label = match found {
            Ok(label) => label.unwrap_or(VolumeLabel::OfFiles),
            Err(error) => {
                tracing::warn!(
                    pod = %self.pod.full_name, volume = %volume.name, error = %error.text(),
                    "whether a volume is mounted with a label cannot be told; its files are labelled"
                );
                VolumeLabel::OfFiles
            }
        };
    }

    /// Tells where a device is, once.
    fn tell_mapped(&self, volume: &PlannedVolume, name: &str) {
        let messages = mapped(&volume.plan, name, &self.runtime.parts.settings);
        if messages.is_empty() || self.has_volumes() {
            return;
        }
        if self.runtime.memory.first_mapped(&self.pod.uid, &volume.name) {
            for message in messages {
                self.runtime.event(self.pod, None, EventType::Normal, "SuccessfulMountVolume", message);
            }
        }
    }

    /// Tells the PersistentVolume that its disk holds another file system than it says.
    fn tell_other_file_system(&self, volume: &PlannedVolume, claimed: &ClaimedVolumes, error: &VolumeError) {
        let (VolumeError::OtherFileSystem(reason), Some(found)) = (error, claimed.get(&volume.name)) else {
            return;
        };
        let metadata = &found.volume.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let message = other_file_system(&name, reason);
        self.runtime.parts.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::Volume { name, uid: metadata.uid.clone().unwrap_or_default() },
            kind: EventType::Warning,
            reason: "FailedMountOnFilesystemMismatch".to_owned(),
            message,
            at: self.runtime.parts.clock.now(),
        });
    }

    /// Reads the secret that a volume names. One that cannot be read is told of by the step that needs it.
    async fn read_secret(&self, volume: &mut PlannedVolume) {
        // A driver is given secrets of its own kind only.
        let kind =
            if let VolumePlan::Flex(volume) = &volume.plan { Some(volume.driver.clone()) } else { None };
        let Some(secret) = volume.plan.secret_mut() else { return };
        let VolumeSecret::Wanted(SecretReference { namespace, name }) = secret else { return };
        let key = ObjectKey { kind: ObjectKind::Secret, namespace: namespace.clone(), name: name.clone() };
        let found = self.runtime.parts.objects.get(&key).await;
        *secret = match (found, kind) {
            (Ok(object), Some(kind)) if object.secret_type != kind => VolumeSecret::Missing(format!(
                "couldn't get secret {}/{} err: cannot get secret of type {kind}",
                key.namespace, key.name
            )),
            (Ok(object), _) => VolumeSecret::Given(
                object.data.iter().map(|(key, value)| (key.clone(), text(value))).collect(),
            ),
            (Err(error), _) => VolumeSecret::Missing(format!(
                "couldn't get secret {}/{} error: {error}",
                key.namespace, key.name
            )),
        };
    }

    /// Tells when a local volume has the group of a pod that had it first, which this one may not be in.
    async fn tell_other_group(&self, volume: &PlannedVolume, name: &str) {
        let (VolumePlan::Local { path, .. }, Some(group), false) =
            (&volume.plan, volume.fs_group, self.has_volumes())
        else {
            return;
        };
        match self.runtime.parts.folders.shared_group(&self.pod.uid, path).await {
            Ok(Some(found)) if found != group.gid => {
                let message = other_group(name, group.gid, found);
                self.runtime.event(self.pod, None, EventType::Warning, "AlreadyMountedVolume", message);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(pod = %self.pod.full_name, %error, source = %error.source, "whose a volume is cannot be told");
            }
        }
    }

    /// What stands behind claims; without an API server there are none.
    async fn claimed_volumes(&self) -> Result<ClaimedVolumes, VolumeProblem> {
        match &self.runtime.parts.claims {
            Some(claims) => {
                let claimed = claims.resolve(self.pod).await?;
                let node =
                    self.runtime.parts.supplies.as_ref().map(|supplies| supplies.node.borrow().clone());
                // What a pod has it keeps, whatever becomes of the node's labels.
                if !self.has_volumes()
                    && let Some(labels) = node.as_ref().and_then(NodeView::labels)
                {
                    check_node_affinity(&claimed, labels)?;
                }
                Ok(claimed)
            }
            None => Ok(ClaimedVolumes::new()),
        }
    }

    /// The groups that the volumes behind the pod's claims give to its containers.
    pub(super) fn volume_groups(&self) -> Vec<i64> {
        let claims = self.runtime.parts.claims.as_ref();
        claims.map(|claims| volume_groups(self.pod, &claims.known(&self.pod.uid))).unwrap_or_default()
    }

    async fn set_up_volume(&self, volume: &PlannedVolume) -> Result<(), VolumeError> {
        let progress = Progress::default();
        let set_up = self.runtime.parts.volumes.set_up(&self.pod.uid, volume, &progress);
        tokio::pin!(set_up);
        let mut report = slow_ownership(&self.pod.uid, volume);
        let mut wait = FIRST_REPORT;
        loop {
            tokio::select! {
                result = &mut set_up => return result,
                () = tokio::time::sleep(wait), if report.is_some() => {
                    let message = report.take().unwrap_or_default();
                    self.runtime.event(
                        self.pod,
                        None,
                        EventType::Warning,
                        "VolumePermissionChangeInProgress",
                        message,
                    );
                    report = still_changing(&self.pod.uid, volume, progress.files());
                    wait = NEXT_REPORTS;
                }
            }
        }
    }

    /// Looks after the volumes of a running pod that drivers serve: tells drivers again that ask for it, lets volumes
    /// grow, and makes a new agent know what its predecessor did. The pod runs on whatever comes of it.
    pub(super) async fn refresh_driven_volumes(&self) {
        let parts = &self.runtime.parts;
        let served = |volume: &Volume| {
            let is_own = volume.csi.is_some() || volume.flex_volume.is_some();
            let is_disk = volume.iscsi.is_some() || volume.fc.is_some();
            is_own || is_disk || claim_name(self.pod, volume).is_some()
        };
        let Some(claims) = &parts.claims else { return };
        if !self.has_volumes() || !used_volumes(self.pod).any(served) {
            return;
        }
        if !self.runtime.memory.volumes_are_due(&self.pod.uid, Instant::now(), LOOK_AFTER_VOLUMES) {
            return;
        }
        let claimed = match claims.resolve(self.pod).await {
            Ok(claimed) => claimed,
            Err(problem) => {
                tracing::debug!(pod = %self.pod.full_name, %problem, "claims of a running pod are not looked at");
                return;
            }
        };
        for volume in plan_driven(self.pod, &parts.settings, &claimed) {
            let progress = Progress::default();
            let set_up = parts.volumes.set_up(&self.pod.uid, &volume, &progress);
            let error = match tokio::time::timeout(LONGEST_LOOK, set_up).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(_) => VolumeError::TimedOut(LONGEST_LOOK),
            };
            let failure = MountFailure::of(&volume, shown_name(&volume, &claimed), &error);
            self.runtime.event(self.pod, None, EventType::Warning, failure.event, failure.message);
        }
    }

    /// Tells what failed and when it is tried again.
    fn mount_failure(&self, failures: &[MountFailure]) -> SyncFailure {
        for failure in failures {
            self.runtime.event(self.pod, None, EventType::Warning, failure.event, failure.message.clone());
        }
        let messages: Vec<&str> = failures.iter().map(|failure| failure.message.as_str()).collect();
        let message = messages.join("; ");
        SyncFailure::MountFailed {
            message,
            wait: retry_after(self.runtime.memory.mount_failed(&self.pod.uid)),
        }
    }

    /// Whether the pod's handler can make mounts read-only with everything below them.
    pub(super) fn recursive_read_only(&self, handler: &str) -> bool {
        let abilities = self.runtime.parts.health.now().abilities;
        abilities.handlers.iter().any(|known| known.name == handler && known.recursive_read_only_mounts)
    }

    /// The volumes with the images that a container mounts, which are pulled if need be.
    pub(super) async fn with_images<'v>(
        &self,
        container: &Container,
        volumes: &'v [PlannedVolume],
        sandbox: &SandboxSpec,
    ) -> Result<Cow<'v, [PlannedVolume]>, StartFailure> {
        let mut volumes = Cow::Borrowed(volumes);
        for index in 0..volumes.len() {
            let Some(PlannedVolume { name, plan: VolumePlan::Image { image, pull_policy }, .. }) =
                volumes.get(index).cloned()
            else {
                continue;
            };
            if !container.volume_mounts.iter().flatten().any(|mount| mount.name == name) {
                continue;
            }
            let wanted = (image.user_specified_image.as_str(), pull_policy.as_deref());
            let images = &self.runtime.parts.images;
            let ready = images.ensure_for_volume(self.pod, wanted, sandbox).await;
            let ready = ready.map_err(|problem| {
                let message = format!("Error: {}", problem.problem.reason);
                self.tell(&container.name, EventType::Warning, "Failed", message);
                match problem.retry_at {
                    Some(retry_at) => StartFailure::Later { problem: problem.problem, retry_at },
                    None => StartFailure::Failed(problem.problem),
                }
            })?;
            let image = ImageSpec { image: ready.reference, runtime_handler: ready.handler, ..image };
            if let Some(volume) = volumes.to_mut().get_mut(index) {
                volume.plan = VolumePlan::Image { image, pull_policy };
            }
        }
        Ok(volumes)
    }

    /// Binds the parts of volumes that a container mounts.
    pub(super) async fn bind_sub_paths(&self, spec: &ContainerSpec) -> Result<(), StartFailure> {
        for part in spec.mounts.iter().filter_map(|mount| mount.sub_path.as_ref()) {
            let bound = self.runtime.parts.volumes.bind_sub_path(&self.pod.uid, part).await;
            if let Err(error) = bound {
                // What is on the host is not for users to know.
                tracing::warn!(
                    pod = %self.pod.full_name, container = %spec.name, volume = %part.volume,
                    error = %error.text(), "a part of a volume cannot be mounted"
                );
                let message = format!(
                    "failed to prepare subPath for volumeMount {:?} of container {:?}",
                    part.volume, part.container
                );
                self.tell(&spec.name, EventType::Warning, "Failed", format!("Error: {message}"));
                let reason = "CreateContainerConfigError".to_owned();
                return Err(StartFailure::Failed(ContainerProblem { reason, message }));
            }
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A volume that is not there, as users are told.
struct MountFailure {
    event: &'static str,
    message: String,
}

impl MountFailure {
    fn mount(message: String) -> Self {
        Self { event: "FailedMount", message }
    }

    fn of(volume: &PlannedVolume, name: &str, error: &VolumeError) -> Self {
        let (volume_name, reason) = (volume.name.clone(), error.text());
        if let VolumeError::NoLabel(_) = error {
            return Self::mount(VolumeProblem::Unprocessed { volume: volume_name, reason }.to_string());
        }
        if let VolumeError::OtherLabel(_) = error {
            return Self::mount(VolumeProblem::HeldByAnother { volume: volume_name, reason }.to_string());
        }
        let (event, message) = step_failed(&volume.plan, error.step(), name, &reason);
        Self { event, message }
    }
}

/// The name by which messages know a volume: of one behind a claim, the PersistentVolume's.
fn shown_name<'a>(volume: &'a PlannedVolume, claimed: &'a ClaimedVolumes) -> &'a str {
    let behind = claimed.get(&volume.name).and_then(|found| found.volume.metadata.name.as_deref());
    behind.unwrap_or(&volume.name)
}
