//! Pods that find no free CPUs, memory or devices while removed pods still use some. A changed static pod is a new pod that
//! replaces the old one at once: it is admitted again each time one of the removed pods has stopped, and rejected only when
//! none is left.

use std::collections::BTreeSet;

use decide::admission::lacks_managed_resources;
use model::{PodUid, Rejection, WorkerPhase};

use super::SyncLoop;
use super::pending_admissions::AdmissionAttempt;

/// Pods in the order of their arrival, and the removed pods that they wait for.
#[derive(Debug, Default)]
pub(super) struct PendingReleases {
    waiting: Vec<PodUid>,
    owners: BTreeSet<PodUid>,
}

impl PendingReleases {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn holds(&self, uid: &PodUid) -> bool {
        self.waiting.contains(uid)
    }

    pub(super) fn remove(&mut self, uid: &PodUid) {
        self.waiting.retain(|waiting| waiting != uid);
    }
}

impl SyncLoop {
    /// Defers a rejection for lack of managed resources until a removed pod has released its own; returns whether it did.
    pub(super) fn defer_for_release(&mut self, uid: &PodUid, rejection: &Rejection) -> bool {
        if !lacks_managed_resources(rejection) {
            return false;
        }
        let owners = self.removed_owners();
        if owners.is_empty() {
            return false;
        }
        tracing::info!(%uid, reason = %rejection.reason, "pod waits for resources of removed pods that still run");
        self.releases.waiting.push(uid.clone());
        self.releases.owners = owners;
        true
    }

    /// Admits the waiting pods again if a removed pod has released its resources since.
    pub(super) fn handle_releases(&mut self) {
        let is_released = self.releases.owners.iter().any(|uid| !self.is_stopping(uid));
        if !is_released {
            return;
        }
        for uid in std::mem::take(&mut self.releases.waiting) {
            let Some(pod) = self.deps.desired.reader().get(&uid) else { continue };
            if let Some(admission) = self.admit_allocated(&pod, AdmissionAttempt::First) {
                self.dispatch_or_defer(&pod, admission);
            }
        }
    }

    /// Removed pods that own managed resources and have not stopped.
    fn removed_owners(&self) -> BTreeSet<PodUid> {
        let desired = self.deps.desired.reader();
        let managed = self.deps.allocations.managed();
        let views = self.deps.worker_views.all().into_iter();
        let removed =
            views.filter(|view| view.phase < WorkerPhase::Terminated && desired.get(&view.uid).is_none());
        removed.map(|view| view.uid.clone()).filter(|uid| managed.owns(uid)).collect()
    }

    fn is_stopping(&self, uid: &PodUid) -> bool {
        self.deps.worker_views.get(uid).is_some_and(|view| view.phase < WorkerPhase::Terminated)
    }
}
