use decide::cgroups::cgroup_limits::pod_cgroup_limits;
use decide::pod_resources::resize::effective_resources;
use decide::runtime_spec::pod_paths::pod_cgroup;
use model::{CgroupLimits, SyncFailure};

use super::sync::{ActionMark, DeferredStarts, PodSync};
use super::sync_failed;

impl PodSync<'_> {
    /// Creates the pod's cgroup. Limits that were set before are left to resizes, which change the limits of pod and
    /// containers in the required order.
    pub(super) async fn ensure_cgroup(&self) -> Result<(), SyncFailure> {
        if !self.deps.settings.cgroups_per_qos {
            return Ok(());
        }
        let uid = &self.pod.uid;
        let path = pod_cgroup(self.pod, &self.deps.settings);
        let is_limited = self.deps.allocations.actuated(uid).is_some()
            && self.deps.cgroups.exists(&path).await.unwrap_or(false);
        let limits = if is_limited {
            CgroupLimits::default()
        } else {
            pod_cgroup_limits(self.pod, &self.deps.settings)
        };
        self.deps.cgroups.ensure(&path, &limits).await.map_err(|error| {
            let text = error.text();
            self.warn("FailedCreatePodContainer", &format!("unable to ensure pod container exists: {text}"));
            sync_failed(text)
        })?;
        if !is_limited {
            for entry in self.pod.containers() {
                let resources = effective_resources(self.pod, entry.container);
                self.deps.allocations.set_actuated_container(uid, &entry.container.name, resources);
            }
            self.deps.allocations.set_actuated_pod(uid, self.pod.spec.resources.as_ref());
        }
        Ok(())
    }

    /// Whether the pod runs outside its cgroup, because an agent without `cgroupsPerQOS` started it or because the cgroup
    /// was removed.
    pub(super) async fn has_lost_cgroup(&self) -> bool {
        if !self.deps.settings.cgroups_per_qos || self.observed.running().next().is_none() {
            return false;
        }
        let path = pod_cgroup(self.pod, &self.deps.settings);
        match self.deps.cgroups.exists(&path).await {
            Ok(exists) => !exists,
            // An unknown state is no reason to kill the pod.
            Err(error) => {
                tracing::warn!(pod = %self.pod.full_name, %error, source = %error.source, "failed to check the pod's cgroup, assuming that it exists");
                false
            }
        }
    }

    /// Stops the pod; the next sync starts it in a new cgroup, if its restart policy allows it.
    pub(super) async fn stop_for_lost_cgroup(&self) -> Result<DeferredStarts, SyncFailure> {
        tracing::warn!(pod = %self.pod.full_name, "the pod's cgroup is missing, restarting its containers");
        let _mark = ActionMark(self);
        self.runtime.stop_everything(Some(self.pod), self.observed, None).await?;
        Ok(DeferredStarts::until(self.deps.clock.now()))
    }
}
