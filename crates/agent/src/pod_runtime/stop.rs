use std::sync::Arc;
use std::time::Duration;

use decide::grace::{MINIMUM_CONTAINER_GRACE, container_grace};
use model::{ContainerId, EventType, ObservedPod, Pod, SyncFailure};

use super::{PodRuntime, complete, failed, plain};

impl PodRuntime {
    /// Stops a pod for good and makes sure that nothing of it runs any more.
    pub(super) async fn stop_pod(
        &self,
        pod: Option<&Arc<Pod>>,
        observed: &ObservedPod,
        grace_seconds: u64,
    ) -> Result<(), SyncFailure> {
        if !observed.is_alive() {
            return Ok(());
        }
        let grace = Duration::from_secs(grace_seconds);
        let stopped = self.stop_everything(pod, observed, Some(grace)).await;
        let acted = self.parts.observer.moments().next();
        self.memory.acted(&observed.uid, acted);
        stopped?;
        // Runtimes have claimed success while a container went on running.
        let seen = complete(self.parts.observer.after(&observed.uid, &observed.full_name, acted).await)?;
        match seen.running().next() {
            Some(container) => Err(plain(format!(
                "container {} ({}) still runs although the runtime said it was stopped",
                container.name, container.id
            ))),
            None => Ok(()),
        }
    }

    /// Stops all containers side by side, then the sandboxes.
    pub(super) async fn stop_everything(
        &self,
        pod: Option<&Arc<Pod>>,
        observed: &ObservedPod,
        grace: Option<Duration>,
    ) -> Result<(), SyncFailure> {
        let containers = observed.running().map(|status| {
            let message = format!("Stopping container {}", status.name);
            self.stop_container(pod, &status.id, &status.name, message, grace)
        });
        let results = futures::future::join_all(containers).await;
        for sandbox in &observed.sandboxes {
            let stopped = self.parts.runtime.stop_sandbox(&sandbox.id).await;
            if let Err(error) = stopped {
                if let Some(pod) = pod {
                    let message = format!("error killing pod: {}", error.message);
                    self.event(pod, None, EventType::Warning, "FailedKillPod", message);
                }
                return Err(failed("stop the pod's sandbox", &error));
            }
        }
        results.into_iter().collect()
    }

    /// Stops one container within its grace period.
    pub(super) async fn stop_container(
        &self,
        pod: Option<&Arc<Pod>>,
        id: &ContainerId,
        name: &str,
        message: String,
        grace: Option<Duration>,
    ) -> Result<(), SyncFailure> {
        if let Some(pod) = pod {
            self.event(pod, Some(name), EventType::Normal, "Killing", message);
        }
        let own = pod.map_or(MINIMUM_CONTAINER_GRACE, |pod| container_grace(pod));
        let grace = grace.unwrap_or(own).max(MINIMUM_CONTAINER_GRACE);
        let stopped = self.parts.runtime.stop_container(id, grace).await;
        stopped.map_err(|error| failed(&format!("stop container {name}"), &error))
    }
}
