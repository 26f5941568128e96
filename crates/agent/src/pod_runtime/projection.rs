//! ConfigMaps, Secrets and files on their way into a pod.

use std::collections::BTreeSet;
use std::path::Path;

use decide::backoff::Verdict;
use decide::environment::{EnvFile, EnvironmentSources, env_files};
use decide::object_references::{container_references, object_references};
use decide::object_restart::{asks_for_restarts, next_restart};
use decide::payloads::{PayloadFacts, digest, volume_files};
use decide::pod_actions::PodActions;
use decide::volumes::{VolumeFiles, holds_files, plan_files, set_up_failed};
use k8s_openapi::api::core::v1::Container;
use model::{EventType, ObjectKey, PlannedVolume, ReadObjects, SandboxState, Timestamp, VolumePlan};
use ports::pod_volumes::Progress;

use super::sync::Pass;

/// The files of a pod's volumes.
#[derive(Debug, Default)]
pub(super) struct PodFiles {
    /// The files of each volume; empty for those that are kept.
    pub(super) files: VolumeFiles,
    /// Volumes that are not written: what they are made from is missing.
    pub(super) kept: BTreeSet<String>,
    /// Those of them that were never written, as messages.
    pub(super) failures: Vec<String>,
}

impl Pass<'_> {
    pub(super) async fn read_objects(&self, keys: BTreeSet<ObjectKey>) -> ReadObjects {
        // Side by side, as each may have to wait for the API server.
        let reads = keys.into_iter().map(|key| async {
            let object = self.runtime.parts.objects.get(&key).await;
            (key, object)
        });
        futures::future::join_all(reads).await.into_iter().collect()
    }

    /// Everything a container's environment takes from outside its pod.
    pub(super) async fn environment_sources(
        &self,
        container: &Container,
        volumes: &[PlannedVolume],
    ) -> Result<EnvironmentSources, String> {
        let parts = &self.runtime.parts;
        let objects = self.read_objects(container_references(self.pod, container)).await;
        let services = self.service_variables().await?;
        let host_ips = self.runtime.shown_host_ips();
        let mut sources = EnvironmentSources { objects, services, host_ips, ..EnvironmentSources::default() };
        for (name, path) in env_files(container, &parts.settings) {
            let volume = volumes.iter().find(|volume| volume.name == name);
            let Some(folder) = volume.and_then(|volume| volume.plan.host_path()) else { continue };
            let content = parts.env_files.read(folder, Path::new(&path)).await;
            let content = content.map_err(|error| format!("{error}: {}", error.source));
            sources.files.insert((name, path.clone()), EnvFile { place: folder.join(path), content });
        }
        Ok(sources)
    }

    /// The files of the pod's volumes before containers are started. A volume that was made in the pod's sandbox
    /// keeps its files when they cannot be made again.
    pub(super) async fn files_to_start_with(&self) -> PodFiles {
        let (files, problems) = self.files().await;
        let mut files = PodFiles { files, ..PodFiles::default() };
        for (volume, problem) in problems {
            if self.has_volumes() {
                self.tell_mount_failure(&volume, &problem);
            } else {
                files.failures.push(set_up_failed(&volume, &problem));
            }
            files.files.insert(volume.clone(), Vec::new());
            files.kept.insert(volume);
        }
        files
    }

    /// Brings the files of a running pod's volumes in line with what they are made from.
    pub(super) async fn refresh_files(&self) {
        let parts = &self.runtime.parts;
        if !self.has_volumes() || !self.pod.spec.volumes.iter().flatten().any(holds_files) {
            return;
        }
        let (mut files, problems) = self.files().await;
        for (volume, problem) in &problems {
            self.tell_mount_failure(volume, problem);
            files.insert(volume.clone(), Vec::new());
        }
        let Ok(volumes) = plan_files(self.pod, &parts.settings, &files) else { return };
        for volume in volumes {
            let VolumePlan::Files { files, .. } = &volume.plan else { continue };
            let is_kept = problems.iter().any(|(name, _)| *name == volume.name);
            if is_kept || self.runtime.memory.has_files(&self.pod.uid, &volume.name, digest(files)) {
                continue;
            }
            match parts.volumes.set_up(&self.pod.uid, &volume, &Progress::default()).await {
                Ok(()) => self.remember_files(&volume),
                Err(error) => self.tell_mount_failure(&volume.name, &error.text()),
            }
        }
    }

    /// Adds the restart of a container whose objects changed, if the pod asks for that. Changes that follow each
    /// other too closely wait as crashes do, with the container running; the result is when to look again.
    pub(super) async fn restart_for_objects(&self, actions: &mut PodActions) -> Option<Timestamp> {
        if !asks_for_restarts(self.pod) || !actions.is_empty() {
            return None;
        }
        let objects = self.read_objects(object_references(self.pod)).await;
        let (kill, start) = next_restart(self.pod, self.observed, &objects, actions)?;
        if let Some((_, Verdict::Wait { until, .. })) = self.crash_verdict(&start) {
            return Some(until);
        }
        actions.kill.push(kill);
        actions.start.push(start);
        None
    }

    pub(super) fn remember_files(&self, volume: &PlannedVolume) {
        if let VolumePlan::Files { files, .. } = &volume.plan {
            self.runtime.memory.wrote_files(&self.pod.uid, &volume.name, digest(files));
        }
    }

    /// The files of all volumes, and what is wrong with those that cannot be made.
    async fn files(&self) -> (VolumeFiles, Vec<(String, String)>) {
        // A volume nobody mounts is not made.
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
        let settings = &self.runtime.parts.settings;
        let bundles = self.read_trust_bundles(&volumes).await;
        let certificates = self.read_certificates(&volumes).await;
        let facts = PayloadFacts {
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

    /// Whether the pod's volumes were made: nothing is started in a sandbox without them.
    pub(super) fn has_volumes(&self) -> bool {
        let sandbox = self.observed.sandboxes.iter().find(|sandbox| sandbox.state == SandboxState::Ready);
        sandbox.is_some_and(|sandbox| {
            self.observed.containers.iter().any(|container| container.sandbox_id == sandbox.id)
        })
    }

    fn tell_mount_failure(&self, volume: &str, problem: &str) {
        let message = set_up_failed(volume, problem);
        self.runtime.event(self.pod, None, EventType::Warning, "FailedMount", message);
    }
}
