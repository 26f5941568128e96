use std::borrow::Cow;

use decide::pod_actions::ResetContainer;
use model::{SyncFailure, SyncOutcome};

use super::failed;
use super::stop::Stopping;
use super::sync::{ActionMark, Pass};

impl Pass<'_> {
    /// Empties the pod's sandbox so that the pod begins again: what runs is killed without grace, then everything is
    /// removed, what asked for it last. Logs stay, they carry the restart counts.
    pub(super) async fn reset(&self, containers: &[ResetContainer]) -> Result<SyncOutcome, SyncFailure> {
        let runtime = self.runtime;
        let _mark = ActionMark(self);
        let kills = containers.iter().filter(|reset| reset.running).map(|reset| async move {
            let Some(entry) = self.pod.container(&reset.name) else { return Ok(()) };
            let stopping = Stopping {
                pod: Some(self.pod),
                container: Cow::Borrowed(entry.container),
                id: &reset.id,
                ips: self.observed.ips(),
                message: "killing".to_owned(),
                grace: 0,
            };
            let stopped = runtime.stop_container(&stopping, async {}).await;
            stopped.map_err(|error| failed(&format!("stop container {}", reset.name), &error))
        });
        futures::future::try_join_all(kills).await?;
        for reset in containers {
            let removed = runtime.parts.runtime.remove_container(&reset.id).await;
            removed.map_err(|error| failed(&format!("remove container {}", reset.name), &error))?;
        }
        Ok(SyncOutcome { retry_at: Some(runtime.parts.clock.now()), ..SyncOutcome::default() })
    }
}
