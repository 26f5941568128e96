//! Dynamic resources of a pod.

use k8s_openapi::api::core::v1::Container;
use model::{Pod, SyncFailure};

use super::sync::PodSync;
use super::{PodRuntime, sync_failed};

impl PodRuntime {
    /// Must follow the end of all containers.
    pub(super) async fn unprepare_claims(&self, pod: &Pod) -> Result<(), SyncFailure> {
        let Some(claims) = &self.deps.resource_claims else { return Ok(()) };
        let unprepared = claims.unprepare(&pod.uid).await;
        unprepared.map_err(|error| sync_failed(format!("unprepare dynamic resources: {error}")))
    }
}

impl PodSync<'_> {
    /// Prepares the pod's claims; false, with an event, if that fails.
    pub(super) async fn prepare_claims(&self) -> bool {
        let Some(claims) = &self.deps.resource_claims else { return true };
        let Err(error) = claims.prepare(self.pod).await else { return true };
        let message = format!("Failed to prepare dynamic resources: prepare dynamic resources: {error}");
        self.warn("FailedPrepareDynamicResources", &message);
        false
    }

    /// The names of a container's prepared devices for the runtime.
    pub(super) fn cdi_ids(&self, container: &Container) -> Result<Vec<String>, String> {
        match &self.deps.resource_claims {
            Some(claims) => claims.cdi_ids(self.pod, container).map_err(|error| error.to_string()),
            None => Ok(Vec::new()),
        }
    }
}
