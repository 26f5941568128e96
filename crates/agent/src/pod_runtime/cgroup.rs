use decide::cgroup_limits::pod_cgroup_limits;
use decide::pod_paths::pod_cgroup;
use decide::resize::in_force;
use model::{CgroupLimits, EventType, SyncFailure, SyncOutcome};

use super::plain;
use super::sync::Pass;

impl Pass<'_> {
    /// Makes the pod's cgroup. One that was limited before is left to resizes, which know in which order limits and
    /// containers may change.
    pub(super) async fn ensure_cgroup(&self) -> Result<(), SyncFailure> {
        let parts = &self.runtime.parts;
        if !parts.settings.cgroups_per_qos {
            return Ok(());
        }
        let uid = &self.pod.uid;
        let path = pod_cgroup(self.pod, &parts.settings);
        let is_limited =
            parts.allocations.actuated(uid).is_some() && parts.cgroups.exists(&path).await.unwrap_or(false);
        let limits =
            if is_limited { CgroupLimits::default() } else { pod_cgroup_limits(self.pod, &parts.settings) };
        parts.cgroups.ensure(&path, &limits).await.map_err(|error| {
            let message = format!("unable to ensure pod container exists: {error}: {}", error.source);
            self.runtime.event(self.pod, None, EventType::Warning, "FailedCreatePodContainer", message);
            plain(format!("{error}: {}", error.source))
        })?;
        if !is_limited {
            for entry in self.pod.containers() {
                let own = in_force(self.pod, entry.container);
                parts.allocations.note_container(uid, &entry.container.name, own);
            }
            parts.allocations.note_pod(uid, self.pod.spec.resources.as_ref());
        }
        Ok(())
    }

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
