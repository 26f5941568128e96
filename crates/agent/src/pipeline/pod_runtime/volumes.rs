use std::borrow::Cow;
use std::time::Duration;

use decide::admission::rejection_label;
use decide::volumes::labels::shared_name;
use decide::volumes::{
    ClaimedVolumes, VolumeProblem, check_node_affinity, claim_name, mapped, other_file_system, other_group,
    plan_driver_volumes, plan_volumes, retry_after, slow_ownership, step_failed, still_changing,
    too_many_volumes, used_volumes, volume_groups,
};
use k8s_openapi::api::core::v1::{Container, Volume};
use model::{
    ContainerSpec, EventSubject, EventType, ImageSpec, ObjectKey, ObjectKind, PlannedVolume, Rejection,
    SandboxSpec, SecretReference, SyncFailure, VolumeLabel, VolumePlan, VolumeSecret,
};
use ports::host::pod_volumes::{Progress, VolumeError, VolumeResult};
use tokio::time::Instant;

use crate::node::node_view::NodeView;

use super::container::StartFailure;
use super::projection::PodFiles;
use super::sync::PodSync;

/// When the first event about a slow ownership change of a volume is recorded.
const FIRST_REPORT_AFTER: Duration = Duration::from_secs(30);
const REPORT_PERIOD: Duration = Duration::from_secs(60);
/// How often the volumes of drivers are refreshed.
const VOLUME_REFRESH_PERIOD: Duration = Duration::from_secs(60);
const VOLUME_REFRESH_TIMEOUT: Duration = Duration::from_secs(20);

impl PodSync<'_> {
    /// Sets up the pod's volumes. A failed volume does not keep the others from being tried.
    pub(super) async fn set_up_volumes(&self) -> Result<Vec<PlannedVolume>, SyncFailure> {
        let PodFiles { files, unchanged, failures } = self.files_to_start_with().await;
        let mut failures: Vec<MountFailure> = failures.into_iter().map(MountFailure::mount).collect();
        let mut too_many = Vec::new();
        let claimed = self.claimed_volumes().await;
        let planned = claimed.and_then(|claimed| {
            plan_volumes(self.pod, &self.deps.settings, &files, &claimed).map(|volumes| (volumes, claimed))
        });
        let (mut volumes, claimed) = match planned {
            Ok(planned) => planned,
            Err(problem) => return Err(self.mount_failure(&[MountFailure::mount(problem.to_string())])),
        };
        for volume in &mut volumes {
            self.read_secret(volume).await;
        }
        for volume in volumes.iter().filter(|volume| !unchanged.contains(&volume.name)) {
            match self.set_up_volume(volume).await {
                Ok(()) => {
                    self.cache_files(volume);
                    self.record_mapped_device(volume, display_name(volume, &claimed));
                    self.record_group_mismatch(volume, display_name(volume, &claimed)).await;
                }
                Err(error) => {
                    self.record_filesystem_mismatch(volume, &claimed, &error);
                    if matches!(error, VolumeError::NodeIsFull(_)) {
                        too_many.push(volume.name.clone());
                    }
                    failures.push(MountFailure::of(volume, display_name(volume, &claimed), &error));
                }
            }
        }
        if !too_many.is_empty() {
            let (reason, message) = ("VolumeAttachmentLimitExceeded", too_many_volumes(&too_many));
            self.warn(reason, &message);
            self.deps.metrics.pods.rejections.inc([rejection_label(reason)]);
            return Err(SyncFailure::Rejected(Rejection::at_admission(reason, message)));
        }
        if failures.is_empty() {
            for volume in &mut volumes {
                self.resolve_label(volume).await;
            }
            self.cached(|cached| cached.mount_failures = 0);
            return Ok(volumes);
        }
        Err(self.mount_failure(&failures))
    }

    /// Determines whether a volume is mounted with an SELinux label. Otherwise its files are labelled one by one.
    async fn resolve_label(&self, volume: &mut PlannedVolume) {
        if !matches!(volume.label, VolumeLabel::Requested(_)) {
            return;
        }
        let found = match shared_name(&volume.plan) {
            Some(_) => self.deps.volumes.mounted_label(&self.pod.uid, volume).await,
            None => Ok(None),
        };
        volume.label = match found {
            Ok(label) => label.unwrap_or(VolumeLabel::OfFiles),
            Err(error) => {
                tracing::warn!(
                    pod = %self.pod.full_name, volume = %volume.name, error = %error.text(),
                    "failed to determine the volume's mount label, labelling its files"
                );
                VolumeLabel::OfFiles
            }
        };
    }

    /// Records the path of a block volume, once.
    fn record_mapped_device(&self, volume: &PlannedVolume, name: &str) {
        let messages = mapped(&volume.plan, name, &self.deps.settings);
        if messages.is_empty() || self.has_volumes() {
            return;
        }
        if self.cached(|cached| cached.mapped_devices.insert(volume.name.clone())) {
            for message in messages {
                self.runtime.event(self.pod, None, EventType::Normal, "SuccessfulMountVolume", &message);
            }
        }
    }

    /// Records on the PersistentVolume that its disk has another file system than its spec.
    fn record_filesystem_mismatch(
        &self,
        volume: &PlannedVolume,
        claimed: &ClaimedVolumes,
        error: &VolumeError,
    ) {
        let (VolumeError::OtherFileSystem(reason), Some(found)) = (error, claimed.get(&volume.name)) else {
            return;
        };
        let metadata = &found.volume.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let message = other_file_system(&name, reason);
        let subject = EventSubject::Volume { name, uid: metadata.uid.clone().unwrap_or_default() };
        let event = "FailedMountOnFilesystemMismatch";
        self.runtime.record(subject, EventType::Warning, event, &message);
    }

    /// Reads the secret of a volume. A failure is stored and reported by the step that needs the secret.
    async fn read_secret(&self, volume: &mut PlannedVolume) {
        // A FlexVolume driver receives only secrets whose type is the driver's name.
        let secret_type =
            if let VolumePlan::Flex(volume) = &volume.plan { Some(volume.driver.clone()) } else { None };
        let Some(secret) = volume.plan.secret_mut() else { return };
        let VolumeSecret::Requested(SecretReference { namespace, name }) = secret else { return };
        let key = ObjectKey { kind: ObjectKind::Secret, namespace: namespace.clone(), name: name.clone() };
        let found = self.deps.objects.get(&key).await;
        *secret = match (found, secret_type) {
            (Ok(object), Some(secret_type)) if object.secret_type != secret_type => {
                VolumeSecret::Missing(format!(
                    "couldn't get secret {}/{} err: cannot get secret of type {secret_type}",
                    key.namespace, key.name
                ))
            }
            (Ok(object), _) => VolumeSecret::Given(
                object.data.iter().map(|(key, value)| (key.clone(), text(value))).collect(),
            ),
            (Err(error), _) => VolumeSecret::Missing(format!(
                "couldn't get secret {}/{} error: {error}",
                key.namespace, key.name
            )),
        };
    }

    /// Records that a local volume has the group of another pod, in which this pod may not be.
    async fn record_group_mismatch(&self, volume: &PlannedVolume, name: &str) {
        let (VolumePlan::Local { path, .. }, Some(group), false) =
            (&volume.plan, volume.fs_group, self.has_volumes())
        else {
            return;
        };
        match self.deps.folders.shared_group(&self.pod.uid, path).await {
            Ok(Some(found)) if found != group.gid => {
                let message = other_group(name, group.gid, found);
                self.warn("AlreadyMountedVolume", &message);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(pod = %self.pod.full_name, %error, source = %error.source, "failed to read the group of a local volume");
            }
        }
    }

    /// The volumes of the pod's claims; empty without an API server.
    async fn claimed_volumes(&self) -> Result<ClaimedVolumes, VolumeProblem> {
        match &self.deps.claims {
            Some(claims) => {
                let claimed = claims.resolve(self.pod).await?;
                let node = self.deps.cluster.as_ref().map(|cluster| cluster.node.borrow().clone());
                // A running pod keeps its volumes when the node's labels change.
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

    /// The supplemental groups that the PersistentVolumes of the pod's claims add to its containers.
    pub(super) fn volume_groups(&self) -> Vec<i64> {
        let claims = self.deps.claims.as_ref();
        claims.map(|claims| volume_groups(self.pod, &claims.cached(&self.pod.uid))).unwrap_or_default()
    }

    async fn set_up_volume(&self, volume: &PlannedVolume) -> VolumeResult {
        let progress = Progress::default();
        let set_up = self.deps.volumes.set_up(&self.pod.uid, volume, &progress);
        tokio::pin!(set_up);
        let mut report = slow_ownership(&self.pod.uid, volume);
        let mut wait = FIRST_REPORT_AFTER;
        loop {
            tokio::select! {
                result = &mut set_up => return result,
                () = tokio::time::sleep(wait), if report.is_some() => {
                    let message = report.take().unwrap_or_default();
                    self.warn("VolumePermissionChangeInProgress", &message);
                    report = still_changing(&self.pod.uid, volume, progress.files());
                    wait = REPORT_PERIOD;
                }
            }
        }
    }

    /// Refreshes the driver volumes of a running pod: publishes them again to drivers that require it, expands volumes, and
    /// lets a restarted agent learn about existing mounts. A failure does not stop the pod.
    pub(super) async fn refresh_driver_volumes(&self) {
        let is_refreshed = |volume: &Volume| {
            let is_driver_volume = volume.csi.is_some() || volume.flex_volume.is_some();
            let is_disk = volume.iscsi.is_some() || volume.fc.is_some();
            is_driver_volume || is_disk || claim_name(self.pod, volume).is_some()
        };
        let Some(claims) = &self.deps.claims else { return };
        if !self.has_volumes() || !used_volumes(self.pod).any(is_refreshed) {
            return;
        }
        if !self.runtime.cache.take_volume_refresh(&self.pod.uid, Instant::now(), VOLUME_REFRESH_PERIOD) {
            return;
        }
        let claimed = match claims.resolve(self.pod).await {
            Ok(claimed) => claimed,
            Err(problem) => {
                tracing::debug!(pod = %self.pod.full_name, %problem, "failed to resolve claims of a running pod, skipping its volume refresh");
                return;
            }
        };
        for volume in plan_driver_volumes(self.pod, &self.deps.settings, &claimed) {
            let progress = Progress::default();
            let set_up = self.deps.volumes.set_up(&self.pod.uid, &volume, &progress);
            let error = match tokio::time::timeout(VOLUME_REFRESH_TIMEOUT, set_up).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(_) => VolumeError::TimedOut(VOLUME_REFRESH_TIMEOUT),
            };
            let failure = MountFailure::of(&volume, display_name(&volume, &claimed), &error);
            self.warn(failure.event, &failure.message);
        }
    }

    /// Records the failed volumes and returns the failure with its retry delay.
    fn mount_failure(&self, failures: &[MountFailure]) -> SyncFailure {
        for failure in failures {
            self.warn(failure.event, &failure.message);
        }
        let messages: Vec<&str> = failures.iter().map(|failure| failure.message.as_str()).collect();
        let message = messages.join("; ");
        SyncFailure::MountFailed {
            message,
            wait: retry_after(self.runtime.cache.count_mount_failure(&self.pod.uid)),
        }
    }

    /// Whether the runtime handler supports recursive read-only mounts.
    pub(super) fn recursive_read_only(&self, handler: &str) -> bool {
        let features = self.deps.health.now().features;
        features
            .handlers
            .iter()
            .any(|candidate| candidate.name == handler && candidate.recursive_read_only_mounts)
    }

    /// Resolves the image volumes that a container mounts, and pulls their images if necessary.
    pub(super) async fn resolve_image_volumes<'v>(
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
            let requested = (image.user_specified_image.as_str(), pull_policy.as_deref());
            let images = &self.deps.images;
            let ready = images.ensure_for_volume(self.pod, requested, sandbox).await;
            let ready = ready.map_err(|problem| {
                self.record_error(&container.name, &problem.problem.reason);
                StartFailure::from(problem)
            })?;
            let image = ImageSpec { image: ready.reference, runtime_handler: ready.handler, ..image };
            if let Some(volume) = volumes.to_mut().get_mut(index) {
                volume.plan = VolumePlan::Image { image, pull_policy };
            }
        }
        Ok(volumes)
    }

    /// Bind-mounts the `subPath` directories of a container.
    pub(super) async fn bind_sub_paths(&self, spec: &ContainerSpec) -> Result<(), StartFailure> {
        for sub_path in spec.mounts.iter().filter_map(|mount| mount.sub_path.as_ref()) {
            let bound = self.deps.volumes.bind_sub_path(&self.pod.uid, sub_path).await;
            if let Err(error) = bound {
                // The error is only logged: it may reveal host paths to users.
                tracing::warn!(
                    pod = %self.pod.full_name, container = %spec.name, volume = %sub_path.volume,
                    error = %error.text(), "failed to bind a volume subPath"
                );
                let message = format!(
                    "failed to prepare subPath for volumeMount {:?} of container {:?}",
                    sub_path.volume, sub_path.container
                );
                return Err(self.config_error(&spec.name, message));
            }
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The event of a volume that failed.
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

/// The name of a volume in messages: for a claim, the name of the PersistentVolume.
fn display_name<'a>(volume: &'a PlannedVolume, claimed: &'a ClaimedVolumes) -> &'a str {
    let persistent_volume = claimed.get(&volume.name).and_then(|found| found.volume.metadata.name.as_deref());
    persistent_volume.unwrap_or(&volume.name)
}
