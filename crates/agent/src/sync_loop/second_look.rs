//! Pods that do not match the node as it was last shown: its labels may have changed just before they were placed here,
//! so the node is read once more before they are refused.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::admission::rests_on_labels;
use k8s_openapi::api::core::v1::Node;
use model::{Pod, PodUid, Rejection};
use ports::api::nodes::ApiNodes;
use tokio::task::{Id, JoinSet};

use super::SyncLoop;
use crate::node_view::NodeView;

/// How long the API server may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Pods that wait until the node was read.
#[derive(Debug, Default)]
pub(super) struct SecondLooks {
    waiting: HashMap<Id, PodUid>,
    reads: JoinSet<Option<Arc<Node>>>,
}

impl SecondLooks {
    fn start(&mut self, uid: &PodUid, nodes: Arc<dyn ApiNodes>) {
        let read = self.reads.spawn(async move {
            match tokio::time::timeout(DEADLINE, nodes.get()).await {
                Ok(Ok(node)) => Some(Arc::new(node)),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the node could not be read again");
                    None
                }
                Err(_) => {
                    tracing::warn!("the node could not be read again in time");
                    None
                }
            }
        });
        self.waiting.insert(read.id(), uid.clone());
    }

    /// Whether a pod waits.
    pub(super) fn holds(&self, uid: &PodUid) -> bool {
        self.waiting.values().any(|waiting| waiting == uid)
    }

    /// A pod is wanted no more.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.waiting.retain(|_, waiting| waiting != uid);
    }

    /// The next pod that has waited long enough, and the node; `None` when nobody waits.
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
    /// Whether a refusal is put off until the node was read again.
    pub(super) fn look_again(&mut self, pod: &Pod, rejection: &Rejection) -> bool {
        match &self.parts.nodes {
            Some(nodes) if rests_on_labels(rejection) => {
                self.second_looks.start(&pod.uid, Arc::clone(nodes));
                true
            }
            Some(_) | None => false,
        }
    }

    /// Decides for good about a pod that did not match the node as it was shown.
    pub(super) fn handle_second_look(&mut self, uid: &PodUid, node: Option<Arc<Node>>) {
        let Some(pod) = self.parts.desired.reader().get(uid) else { return };
        self.fresh_node = node.map(NodeView::of);
        let verdict = self.admit_granted(&pod);
        self.fresh_node = None;
        self.hand_on(&pod, verdict);
    }
}
