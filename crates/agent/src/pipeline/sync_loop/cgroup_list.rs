use decide::cgroups::qos_cgroups::{QosCgroups, pod_of_cgroup};
use decide::pipeline::housekeeping::PodCgroup;

use super::SyncLoop;
use super::handlers::list_or_empty;

/// Cgroups are listed only with every fourth sweep: on cgroup v1 each hierarchy has a copy of the tree, and the removal
/// of an orphan is not urgent.
const SWEEPS_PER_CGROUP_LIST: u32 = 4;

impl SyncLoop {
    /// The cgroups of pods; empty in sweeps that do not list them.
    pub(super) async fn list_pod_cgroups(&mut self) -> Vec<PodCgroup> {
        self.sweeps = self.sweeps.wrapping_add(1);
        let settings = &self.deps.settings;
        if !settings.cgroups_per_qos || !self.sweeps.is_multiple_of(SWEEPS_PER_CGROUP_LIST) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for parent in QosCgroups::of(settings).paths() {
            for name in list_or_empty("cgroups", self.deps.cgroups.children(parent)).await {
                if let Some(uid) = pod_of_cgroup(&name, settings.cgroup_driver) {
                    found.push(PodCgroup { uid, path: format!("{parent}/{name}") });
                }
            }
        }
        found
    }
}
