//! Pods whose admission waits for a device plugin, and pods that arrived after them: they compete for the same resources,
//! so they are admitted in the order of their arrival.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Pod, PodUid, Rejection};
use tokio::task::JoinSet;

use crate::node::node_view::NodeView;
use crate::pipeline::managed_resources::Admission;

/// The admission of a new pod.
#[derive(Debug)]
pub(super) struct PodAdmission {
    pub(super) pod: Arc<Pod>,
    /// The pod with its allocated resources.
    pub(super) allocated: Arc<Pod>,
    /// The Node object that was read again for the pod.
    pub(super) fresh_node: Option<NodeView>,
    pub(super) attempt: AdmissionAttempt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionAttempt {
    /// A rejection may lead to a readmission.
    First,
    /// The Node object was read again: the result is final.
    Final,
}

#[derive(Debug)]
pub(super) enum AdmissionStep {
    /// The admission of the pod can begin.
    Begin(PodAdmission),
    /// The allocation of managed resources has ended.
    Allocated(PodAdmission, Result<Admission, Rejection>),
}

#[derive(Debug, Default)]
pub(super) struct PendingAdmissions {
    queue: VecDeque<PodAdmission>,
    running: Option<PodAdmission>,
    /// At most one.
    allocation: JoinSet<Result<Admission, Rejection>>,
}

impl PendingAdmissions {
    /// Whether a pod can be admitted at once.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.allocation.is_empty()
    }

    pub(super) fn push(&mut self, admission: PodAdmission) {
        self.queue.push_back(admission);
    }

    pub(super) fn wait(
        &mut self,
        admission: PodAdmission,
        allocation: impl Future<Output = Result<Admission, Rejection>> + Send + 'static,
    ) {
        self.running = Some(admission);
        self.allocation.spawn(allocation);
    }

    pub(super) fn holds(&self, uid: &PodUid) -> bool {
        self.running.iter().chain(&self.queue).any(|admission| admission.pod.uid == *uid)
    }

    pub(super) fn remove(&mut self, uid: &PodUid) {
        self.queue.retain(|admission| admission.pod.uid != *uid);
        if self.running.as_ref().is_some_and(|admission| admission.pod.uid == *uid) {
            self.running = None;
            self.allocation.abort_all();
        }
    }

    /// The next step; `None` when no pod waits.
    pub(super) async fn next(&mut self) -> Option<AdmissionStep> {
        loop {
            let Some(ended) = self.allocation.join_next().await else {
                return self.queue.pop_front().map(AdmissionStep::Begin);
            };
            // The allocation of a pod that no longer waits was aborted.
            let Some(admission) = self.running.take() else { continue };
            let result = ended.unwrap_or_else(|error| {
                let message = format!("Allocate failed due to {error}, which is unexpected");
                Err(Rejection::at_admission("UnexpectedAdmissionError", message))
            });
            return Some(AdmissionStep::Allocated(admission, result));
        }
    }
}
