use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::{ContainerId, PodUid};
use ports::process_watch::ProcessWatch;
use tokio::task::{AbortHandle, JoinSet};

/// First wait before looking, longer by half each time: a runtime learns of an exit from the kernel as we do, and has to
/// write it down first.
const FIRST_CHECK: Duration = Duration::from_millis(10);
/// How often the runtime is asked about a noticed exit before the list takes over.
const CHECKS: u32 = 9;

/// A container process that is gone.
#[derive(Clone, Debug)]
pub(super) struct NoticedExit {
    pub(super) uid: PodUid,
    pub(super) container: ContainerId,
    pub(super) tries: u32,
}

/// Watches the processes of running containers.
pub(super) struct Exits {
    processes: Arc<dyn ProcessWatch>,
    tasks: JoinSet<Option<NoticedExit>>,
    watched: HashMap<PodUid, HashMap<ContainerId, AbortHandle>>,
}

impl Exits {
    pub(super) fn new(processes: Arc<dyn ProcessWatch>) -> Self {
        Self { processes, tasks: JoinSet::new(), watched: HashMap::new() }
    }

    pub(super) fn watch(&mut self, uid: &PodUid, container: &ContainerId, pid: u32) {
        let watched = self.watched.entry(uid.clone()).or_default();
        if watched.contains_key(container) {
            return;
        }
        let processes = Arc::clone(&self.processes);
        let exit = NoticedExit { uid: uid.clone(), container: container.clone(), tries: 0 };
        let handle = self.tasks.spawn(async move { processes.exited(pid).await.ok().map(|()| exit) });
        watched.insert(container.clone(), handle);
    }

    /// Stops watching the containers of a pod that are not wanted.
    pub(super) fn retain(&mut self, uid: &PodUid, wanted: impl Fn(&ContainerId) -> bool) {
        if let Some(watched) = self.watched.get_mut(uid) {
            watched.retain(|id, handle| {
                let keep = wanted(id);
                if !keep {
                    handle.abort();
                }
                keep
            });
            if watched.is_empty() {
                self.watched.remove(uid);
            }
        }
    }

    /// Announces the same exit again a little later.
    pub(super) fn check_again(&mut self, exit: NoticedExit) {
        if exit.tries < CHECKS {
            let wait = FIRST_CHECK * 3u32.pow(exit.tries) / 2u32.pow(exit.tries);
            self.tasks.spawn(async move {
                tokio::time::sleep(wait).await;
                Some(NoticedExit { tries: exit.tries + 1, ..exit })
            });
        }
    }

    /// The next exit; `None` only when nothing is watched.
    pub(super) async fn next(&mut self) -> Option<NoticedExit> {
        loop {
            // A process that cannot be watched, or a watch that was stopped: the list covers it.
            if let Ok(Some(exit)) = self.tasks.join_next().await? {
                return Some(exit);
            }
        }
    }
}
