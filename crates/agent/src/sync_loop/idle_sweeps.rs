//! States in which a sweep found nothing to do. What a sweep does is decided by them alone, so that in such a state it need
//! not be decided again: a node at rest only lists its folders.

use std::hash::{DefaultHasher, Hash, Hasher};

use decide::housekeeping::PodCgroup;
use model::{LogFolder, PodUid};

use super::SyncLoop;

/// What a sweep is decided from, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SweepState(u64);

/// The last such states: of a sweep with the cgroups listed, and of one without.
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
    /// To be asked before the tables are read: what changes in between then counts as a change.
    pub(super) fn sweep_state(
        &self,
        pod_cgroups: &[PodCgroup],
        pod_folders: &[PodUid],
        log_folders: &[LogFolder],
    ) -> SweepState {
        let mut hasher = DefaultHasher::new();
        let parts = &self.parts;
        let versions =
            [parts.desired.reader().version(), parts.worker_views.version(), parts.observer.version()];
        (versions, pod_cgroups, pod_folders, log_folders).hash(&mut hasher);
        SweepState(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_states_are_remembered_and_older_ones_forgotten() {
        let mut idle = IdleSweeps::default();
        assert!(!idle.contains(SweepState(1)));
        for state in [1, 2, 3] {
            idle.push(SweepState(state));
            assert!(idle.contains(SweepState(state)));
        }
        assert!(idle.contains(SweepState(2)) && !idle.contains(SweepState(1)));
    }
}
