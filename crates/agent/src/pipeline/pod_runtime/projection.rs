//! Projects ConfigMaps, Secrets and other content into the volumes and the environment of a pod.

use std::collections::BTreeSet;
use std::path::Path;

use decide::pipeline::backoff::BackoffDecision;
use decide::pipeline::object_restart::{next_restart, restarts_on_object_change};
use decide::pipeline::pod_actions::PodActions;
use decide::projected::object_references::{container_references, object_references};
use decide::projected::projected_files::{ProjectedContent, digest, volume_files};
use decide::runtime_spec::environment::{EnvFile, EnvironmentSources, env_files};
use decide::volumes::{VolumeFiles, holds_files, plan_files, set_up_failed};
use k8s_openapi::api::core::v1::Container;
use model::{ObjectKey, PlannedVolume, ReadObjects, SandboxState, Timestamp, VolumePlan};
use ports::host::pod_volumes::Progress;

use super::sync::PodSync;

#[derive(Debug, Default)]
pub(super) struct PodFiles {
    /// The files of each volume; empty for the volumes in `unchanged`.
    pub(super) files: VolumeFiles,
    /// Volumes that keep their files, because their content could not be read.
    pub(super) unchanged: BTreeSet<String>,
    /// Messages for those of them that were never written.
    pub(super) failures: Vec<String>,
}

impl PodSync<'_> {
    pub(super) async fn read_objects(&self, keys: BTreeSet<ObjectKey>) -> ReadObjects {
        // In parallel, because each read may wait for the API server.
        let reads = keys.into_iter().map(|key| async {
            let object = self.deps.objects.get(&key).await;
            (key, object)
        });
        futures::future::join_all(reads).await.into_iter().collect()
    }

    /// Reads everything outside the pod that a container's environment refers to.
    pub(super) async fn environment_sources(
        &self,
        container: &Container,
        volumes: &[PlannedVolume],
    ) -> Result<EnvironmentSources, String> {
        let objects = self.read_objects(container_references(self.pod, container)).await;
        let services = self.service_variables().await?;
        let host_ips = self.runtime.api_host_ips();
        let mut sources = EnvironmentSources { objects, services, host_ips, ..EnvironmentSources::default() };
        for (name, path) in env_files(container, &self.deps.settings) {
            let volume = volumes.iter().find(|volume| volume.name == name);
            let Some(folder) = volume.and_then(|volume| volume.plan.host_path()) else { continue };
            let content =
                self.deps.env_files.read(folder, Path::new(&path)).await.map_err(|error| error.text());
            sources.files.insert((name, path.clone()), EnvFile { path: folder.join(path), content });
        }
        Ok(sources)
    }

    /// The files of the pod's volumes before containers start. A volume that was set up before keeps its files when their
    /// content cannot be read.
    pub(super) async fn files_to_start_with(&self) -> PodFiles {
        let (files, problems) = self.files().await;
        let mut files = PodFiles { files, ..PodFiles::default() };
        for (volume, problem) in problems {
            if self.has_volumes() {
                self.record_mount_failure(&volume, &problem);
            } else {
                files.failures.push(set_up_failed(&volume, &problem));
            }
            files.files.insert(volume.clone(), Vec::new());
            files.unchanged.insert(volume);
        }
        files
    }

    /// Updates the files of a running pod's volumes from their sources.
    pub(super) async fn refresh_files(&self) {
        if !self.has_volumes() || !self.pod.spec.volumes.iter().flatten().any(holds_files) {
            return;
        }
        let (mut files, problems) = self.files().await;
        for (volume, problem) in &problems {
            self.record_mount_failure(volume, problem);
            files.insert(volume.clone(), Vec::new());
        }
        let Ok(volumes) = plan_files(self.pod, &self.deps.settings, &files) else { return };
        for volume in volumes {
            let VolumePlan::Files { files, .. } = &volume.plan else { continue };
            let is_kept = problems.iter().any(|(name, _)| *name == volume.name);
            let written = self.cached(|cached| cached.file_digests.get(&volume.name).copied());
            if is_kept || written == Some(digest(files)) {
                continue;
            }
            match self.deps.volumes.set_up(&self.pod.uid, &volume, &Progress::default()).await {
                Ok(()) => self.cache_files(&volume),
                Err(error) => self.record_mount_failure(&volume.name, &error.text()),
            }
        }
    }

    /// Adds the restart of a container whose objects changed, if the pod opts in to that. Changes in quick succession are
    /// subject to the crash backoff while the container keeps running; returns when the pod must be synced again.
    pub(super) async fn restart_for_objects(&self, actions: &mut PodActions) -> Option<Timestamp> {
        if !restarts_on_object_change(self.pod) || !actions.is_empty() {
            return None;
        }
        let objects = self.read_objects(object_references(self.pod)).await;
        let (kill, start) = next_restart(self.pod, self.observed, &objects, actions)?;
        if let Some((_, BackoffDecision::Wait { until, .. })) = self.crash_decision(&start) {
            return Some(until);
        }
        actions.kill.push(kill);
        actions.start.push(start);
        None
    }

    pub(super) fn cache_files(&self, volume: &PlannedVolume) {
        if let VolumePlan::Files { files, .. } = &volume.plan {
            self.cached(|cached| cached.file_digests.insert(volume.name.clone(), digest(files)));
        }
    }

    /// The files of all volumes, and the problem of each volume whose content cannot be read.
    async fn files(&self) -> (VolumeFiles, Vec<(String, String)>) {
        // A volume without a mount is not set up.
        let is_mounted = |name: &str| {
            let mut mounts =
                self.pod.all_containers().flat_map(|entry| entry.container.volume_mounts.iter().flatten());
            mounts.any(|mount| mount.name == name)
        };
        let volumes = self.pod.spec.volumes.iter().flatten();
        let volumes: Vec<_> =
            volumes.filter(|volume| holds_files(volume) && is_mounted(&volume.name)).collect();
        let (mut files, mut problems) = (VolumeFiles::new(), Vec::new());
        if volumes.is_empty() {
            return (files, problems);
        }
        let objects = self.read_objects(object_references(self.pod)).await;
        let tokens = self.read_tokens(&volumes).await;
        let settings = &self.deps.settings;
        let bundles = self.read_trust_bundles(&volumes).await;
        let certificates = self.read_certificates(&volumes).await;
        let facts = ProjectedContent {
            pod: self.pod,
            settings,
            objects: &objects,
            tokens: tokens.as_ref(),
            trust_bundles: bundles.as_ref(),
            certificates: certificates.as_ref(),
        };
        for volume in volumes {
            match volume_files(&facts, volume) {
                Ok(found) => {
                    files.insert(volume.name.clone(), found);
                }
                Err(problem) => problems.push((volume.name.clone(), problem)),
            }
        }
        (files, problems)
    }

    /// Whether the pod's volumes are set up: a sandbox has containers only after that.
    pub(super) fn has_volumes(&self) -> bool {
        let sandbox = self.observed.sandboxes.iter().find(|sandbox| sandbox.state == SandboxState::Ready);
        sandbox.is_some_and(|sandbox| {
            self.observed.containers.iter().any(|container| container.sandbox_id == sandbox.id)
        })
    }

    fn record_mount_failure(&self, volume: &str, problem: &str) {
        self.warn("FailedMount", &set_up_failed(volume, problem));
    }
}
