//! Wakes the pods that use an object which came, changed or went.
//!
//! Keeps which pod refers to which objects, by the desired pods as they change; a change of an object costs one
//! message for each pod that uses it. What the pod does about it is its worker's matter.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use decide::object_references::object_references;
use futures::StreamExt;
use model::{ObjectKey, Pod, PodUid};
use ports::objects::Objects;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::messages::Requeue;
use crate::published::Reader;

/// What the stage needs.
pub struct Parts {
    /// The objects.
    pub objects: Arc<dyn Objects>,
    /// Desired pods that changed.
    pub changed_pods: mpsc::UnboundedReceiver<PodUid>,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// Who calls workers.
    pub requeues: mpsc::UnboundedSender<Requeue>,
}

/// Runs until cancelled.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    let mut changes = parts.objects.changes();
    let mut users = Users::default();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = parts.changed_pods.recv() => {
                let Some(uid) = changed else { return };
                users.set(&uid, parts.desired.get(&uid).map(|pod| object_references(&pod)).unwrap_or_default());
            }
            key = changes.next() => {
                let Some(key) = key else { return };
                tracing::debug!(object = %key, "object changed");
                for uid in users.of(&key) {
                    // Fails only while the agent stops.
                    let _ = parts.requeues.send(Requeue { uid: uid.clone(), delay: Duration::ZERO });
                }
            }
        }
    }
}

/// Who uses what.
#[derive(Debug, Default)]
struct Users {
    by_key: HashMap<ObjectKey, BTreeSet<PodUid>>,
    by_pod: HashMap<PodUid, BTreeSet<ObjectKey>>,
}

impl Users {
    fn set(&mut self, uid: &PodUid, keys: BTreeSet<ObjectKey>) {
        for key in self.by_pod.remove(uid).unwrap_or_default() {
            if let Some(pods) = self.by_key.get_mut(&key) {
                pods.remove(uid);
                if pods.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().insert(uid.clone());
        }
        if !keys.is_empty() {
            self.by_pod.insert(uid.clone(), keys);
        }
    }

    fn of(&self, key: &ObjectKey) -> impl Iterator<Item = &PodUid> {
        self.by_key.get(key).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests;
