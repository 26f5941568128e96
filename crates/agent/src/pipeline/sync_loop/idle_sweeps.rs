//! Hashes of input states in which a sweep found nothing to do. The sweep depends on these inputs only, so an idle node
//! lists its folders and skips the decision.

use std::hash::{DefaultHasher, Hash, Hasher};

use decide::pipeline::housekeeping::PodCgroup;
use model::{LogFolder, PodUid};

use super::SyncLoop;

/// Hash of all inputs of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SweepState(u64);

/// The last two idle states: of a sweep that listed the cgroups, and of one that did not.
#[derive(Debug, Default)]
pub(super) struct IdleSweeps([Option<SweepState>; 2]);

impl IdleSweeps {
    pub(super) fn contains(&self, state: SweepState) -> bool {
        self.0.contains(&Some(state))
    }

    pub(super) fn push(&mut self, state: SweepState) {
        self.0 = [Some(state), self.0[0]];
    }
}

impl SyncLoop {
    /// Must be called before the tables are read, so that a change in between makes the state differ.
    pub(super) fn sweep_state(
        &self,
        pod_cgroups: &[PodCgroup],
        pod_folders: &[PodUid],
        log_folders: &[LogFolder],
    ) -> SweepState {
        let mut hasher = DefaultHasher::new();
        let deps = &self.deps;
        let versions =
            [deps.desired.reader().version(), deps.worker_views.version(), deps.observer.version()];
        (versions, pod_cgroups, pod_folders, log_folders).hash(&mut hasher);
        SweepState(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_two_idle_states() {
        let mut idle = IdleSweeps::default();
        assert!(!idle.contains(SweepState(1)));
        for state in [1, 2, 3] {
            idle.push(SweepState(state));
            assert!(idle.contains(SweepState(state)));
        }
        assert!(idle.contains(SweepState(2)) && !idle.contains(SweepState(1)));
    }
}
