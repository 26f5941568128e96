use decide::pod_paths::pod_cgroup;
use model::{SyncFailure, SyncOutcome};

use super::sync::Pass;

impl Pass<'_> {
    /// Whether the pod runs outside the cgroup it should have: an agent without cgroups for pods started it, or
    /// somebody removed the cgroup.
    pub(super) async fn has_lost_cgroup(&self) -> bool {
        let parts = &self.runtime.parts;
        if !parts.settings.cgroups_per_qos || self.observed.running().next().is_none() {
            return false;
        }
        let path = pod_cgroup(self.pod, &parts.settings);
        match parts.cgroups.exists(&path).await {
            Ok(exists) => !exists,
            // Unknown is no reason to kill.
            Err(error) => {
                tracing::warn!(pod = %self.pod.full_name, %error, source = %error.source, "the pod's cgroup cannot be looked at");
                false
            }
        }
    }

    /// Stops the pod; the next pass starts it in a new cgroup, if its restart policy lets it.
    pub(super) async fn stop_for_lost_cgroup(&self) -> Result<SyncOutcome, SyncFailure> {
        let parts = &self.runtime.parts;
        tracing::warn!(pod = %self.pod.full_name, "the pod's cgroup is missing; its containers are started anew");
        let stopped = self.runtime.stop_everything(Some(self.pod), self.observed, None).await;
        self.runtime.memory.acted(&self.pod.uid, parts.observer.moments().next());
        parts.observer.hint(&self.pod.uid);
        stopped?;
        Ok(SyncOutcome { retry_at: Some(parts.clock.now()), ..SyncOutcome::default() })
    }
}
