//! Pods that do not match the watched Node object. Its labels may have changed just before the pod was scheduled, so the
//! Node is read once more before the pod is rejected.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::admission::depends_on_labels;
use k8s_openapi::api::core::v1::Node;
use model::{Pod, PodUid, Rejection};
use ports::api::nodes::ApiNodes;
use tokio::task::{Id, JoinSet};

use super::SyncLoop;
use super::pending_admissions::AdmissionAttempt;
use crate::node::node_view::NodeView;

const READ_NODE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pods that wait for the Node object.
#[derive(Debug, Default)]
pub(super) struct PendingReadmissions {
    waiting: HashMap<Id, PodUid>,
    reads: JoinSet<Option<Arc<Node>>>,
}

impl PendingReadmissions {
    fn start(&mut self, uid: &PodUid, nodes: Arc<dyn ApiNodes>) {
        let read = self.reads.spawn(async move {
            match tokio::time::timeout(READ_NODE_TIMEOUT, nodes.get()).await {
                Ok(Ok(node)) => Some(Arc::new(node)),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "failed to read the Node for readmission, using the watched one");
                    None
                }
                Err(_) => {
                    tracing::warn!(timeout = ?READ_NODE_TIMEOUT, "reading the Node for readmission timed out, using the watched one");
                    None
                }
            }
        });
        self.waiting.insert(read.id(), uid.clone());
    }

    pub(super) fn holds(&self, uid: &PodUid) -> bool {
        self.waiting.values().any(|waiting| waiting == uid)
    }

    pub(super) fn remove(&mut self, uid: &PodUid) {
        self.waiting.retain(|_, waiting| waiting != uid);
    }

    /// The next pod to readmit and its Node object, if it could be read; `None` when no pod waits.
    pub(super) async fn next(&mut self) -> Option<(PodUid, Option<Arc<Node>>)> {
        loop {
            let (id, node) = match self.reads.join_next_with_id().await? {
                Ok((id, node)) => (id, node),
                Err(error) => (error.id(), None),
            };
            if let Some(uid) = self.waiting.remove(&id) {
                return Some((uid, node));
            }
        }
    }
}

impl SyncLoop {
    /// Defers a rejection that depends on the node's labels until the Node was read again; returns whether it did.
    pub(super) fn defer_for_readmission(&mut self, pod: &Pod, rejection: &Rejection) -> bool {
        match &self.deps.nodes {
            Some(nodes) if depends_on_labels(rejection) => {
                self.readmissions.start(&pod.uid, Arc::clone(nodes));
                true
            }
            Some(_) | None => false,
        }
    }

    /// Makes the final admission decision with the Node object that was read again.
    pub(super) fn handle_readmission(&mut self, uid: &PodUid, node: Option<Arc<Node>>) {
        let Some(pod) = self.deps.desired.reader().get(uid) else { return };
        self.fresh_node = node.map(NodeView::of);
        let admission = self.admit_allocated(&pod, AdmissionAttempt::Final);
        self.fresh_node = None;
        if let Some(admission) = admission {
            self.dispatch_or_wait(&pod, admission);
        }
    }
}
