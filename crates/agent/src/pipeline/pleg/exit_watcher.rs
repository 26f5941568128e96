use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::{ContainerId, PodUid};
use ports::host::process_watch::ProcessWatch;
use timing::BackoffPolicy;
use tokio::task::{AbortHandle, JoinSet};

/// Delay before each check: the runtime notices the exit at the same time as the agent and has to process it first.
const CHECK_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_millis(10), Duration::from_secs(1)).with_factor(1.5);
/// The number of checks of a noticed exit. After that the periodic relist has to find it.
const MAX_CHECKS: u32 = 9;

/// The exit of a container's process.
#[derive(Clone, Debug)]
pub(super) struct NoticedExit {
    pub(super) uid: PodUid,
    pub(super) container: ContainerId,
    pub(super) checks: u32,
}

/// Watches the processes of running containers.
pub(super) struct ExitWatcher {
    processes: Arc<dyn ProcessWatch>,
    tasks: JoinSet<Option<NoticedExit>>,
    watched: HashMap<PodUid, HashMap<ContainerId, AbortHandle>>,
}

impl ExitWatcher {
    pub(super) fn new(processes: Arc<dyn ProcessWatch>) -> Self {
        Self { processes, tasks: JoinSet::new(), watched: HashMap::new() }
    }

    pub(super) fn watch(&mut self, uid: &PodUid, container: &ContainerId, pid: u32) {
        let watched = self.watched.entry(uid.clone()).or_default();
        if watched.contains_key(container) {
            return;
        }
        let processes = Arc::clone(&self.processes);
        let exit = NoticedExit { uid: uid.clone(), container: container.clone(), checks: 0 };
        let handle = self.tasks.spawn(async move { processes.exited(pid).await.ok().map(|()| exit) });
        watched.insert(container.clone(), handle);
    }

    /// Stops watching the pod's containers for which `keep` returns false.
    pub(super) fn retain(&mut self, uid: &PodUid, keep: impl Fn(&ContainerId) -> bool) {
        if let Some(watched) = self.watched.get_mut(uid) {
            watched.retain(|id, handle| {
                let is_kept = keep(id);
                if !is_kept {
                    handle.abort();
                }
                is_kept
            });
            if watched.is_empty() {
                self.watched.remove(uid);
            }
        }
    }

    /// Reports the same exit again after a delay.
    pub(super) fn check_again(&mut self, exit: NoticedExit) {
        if exit.checks < MAX_CHECKS {
            let delay = CHECK_BACKOFF.delay_after(exit.checks + 1);
            self.tasks.spawn(async move {
                tokio::time::sleep(delay).await;
                Some(NoticedExit { checks: exit.checks + 1, ..exit })
            });
        }
    }

    /// The next exit; `None` when nothing is watched.
    pub(super) async fn next(&mut self) -> Option<NoticedExit> {
        loop {
            // Skips processes that cannot be watched and stopped watches: the relist covers them.
            if let Ok(Some(exit)) = self.tasks.join_next().await? {
                return Some(exit);
            }
        }
    }
}
