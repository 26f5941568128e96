use std::borrow::Cow;

use decide::pipeline::pod_actions::ResetContainer;
use model::SyncFailure;

use super::runtime_failed;
use super::stop::ContainerStop;
use super::sync::{ActionMark, DeferredStarts, PodSync};

impl PodSync<'_> {
    /// Empties the pod's sandbox for a restart of all containers: kills what runs without a grace period, then removes all
    /// containers, last the one that requested the restart. Logs stay, because they carry the restart counts.
    pub(super) async fn reset(&self, containers: &[ResetContainer]) -> Result<DeferredStarts, SyncFailure> {
        let runtime = self.runtime;
        let _mark = ActionMark(self);
        let kills = containers.iter().filter(|reset| reset.running).map(|reset| async move {
            let Some(entry) = self.pod.container(&reset.name) else { return Ok(()) };
            let stop = ContainerStop {
                pod: Some(self.pod),
                container: Cow::Borrowed(entry.container),
                id: &reset.id,
                ips: self.observed.ips(),
                message: "killing".to_owned(),
                grace: 0,
            };
            let stopped = runtime.stop_container(&stop, async {}).await;
            stopped.map_err(|error| runtime_failed(&format!("stop container {}", reset.name), &error))
        });
        futures::future::try_join_all(kills).await?;
        for reset in containers {
            let removed = runtime.deps.runtime.remove_container(&reset.id).await;
            removed.map_err(|error| runtime_failed(&format!("remove container {}", reset.name), &error))?;
        }
        Ok(DeferredStarts::until(runtime.deps.clock.now()))
    }
}
