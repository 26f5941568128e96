//! Metrics of sandbox and container starts.

use std::time::Duration;

use decide::pipeline::pod_actions::StartContainer;
use k8s_openapi::api::core::v1::Container;
use model::SandboxSpec;

use super::container::StartFailure;
use super::sync::PodSync;

impl PodSync<'_> {
    /// Counts an attempt to create a sandbox.
    pub(super) fn count_sandbox(&self, spec: &SandboxSpec, took: Duration, failed: bool) {
        let metrics = &self.deps.metrics;
        metrics.runtime.sandbox_run(&spec.runtime_handler, took, failed);
        let pods = &metrics.pods;
        pods.started.inc();
        let user_namespaced = self.pod.spec.host_users == Some(false);
        if user_namespaced {
            pods.user_namespaced_started.inc();
        }
        if failed {
            pods.start_errors.inc();
            if user_namespaced {
                pods.user_namespaced_errors.inc();
            }
        }
    }

    /// Counts a container start and the reason of its failure.
    pub(super) async fn count_container_start(
        &self,
        start: &StartContainer,
        work: impl Future<Output = Result<(), StartFailure>>,
    ) -> Result<(), StartFailure> {
        let metrics = &self.deps.metrics.containers;
        let kind = self.pod.container(&start.name).map(|entry| entry.kind);
        if let Some(kind) = kind {
            metrics.started(kind);
        }
        let started = work.await;
        let problem = match &started {
            Err(StartFailure::Later { problem, .. } | StartFailure::Failed(problem)) => Some(problem),
            Err(StartFailure::Sync(_)) | Ok(()) => None,
        };
        if let (Some(kind), Some(problem)) = (kind, problem) {
            metrics.start_failed(kind, &problem.reason);
        }
        started
    }

    /// Counts the image volumes of a container whose creation was attempted.
    pub(super) fn count_image_volumes(&self, name: &str, created: bool) {
        let images = &self.deps.metrics.images;
        let count = self.pod.container(name).map_or(0, |entry| self.image_volumes(entry.container));
        images.volumes_requested.add(count);
        let outcome = if created { &images.volumes_mounted } else { &images.volume_errors };
        outcome.add(count);
    }

    fn image_volumes(&self, container: &Container) -> u64 {
        let volumes = self.pod.spec.volumes.as_deref().unwrap_or_default();
        let is_image =
            |name: &str| volumes.iter().any(|volume| volume.name == name && volume.image.is_some());
        let mounts = container.volume_mounts.iter().flatten();
        mounts.map(|mount| u64::from(is_image(&mount.name))).sum()
    }
}
