use decide::housekeeping::PodCgroup;
use decide::qos_cgroups::{QosCgroups, pod_of_cgroup};

use super::SyncLoop;
use super::handlers::listed;

/// Cgroups are listed with every so many sweeps: on v1 each hierarchy has a copy of the tree, and nothing waits for
/// an orphan to go.
const EACH: u32 = 4;

impl SyncLoop {
    /// Cgroups of pods, if it is their turn.
    pub(super) async fn list_pod_cgroups(&mut self) -> Vec<PodCgroup> {
        self.sweeps = self.sweeps.wrapping_add(1);
        let settings = &self.parts.settings;
        if !settings.cgroups_per_qos || !self.sweeps.is_multiple_of(EACH) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for parent in QosCgroups::of(settings).each() {
            for name in listed("cgroups", self.parts.cgroups.children(parent)).await {
                if let Some(uid) = pod_of_cgroup(&name, settings.cgroup_driver) {
                    found.push(PodCgroup { uid, path: format!("{parent}/{name}") });
                }
            }
        }
        found
    }
}
