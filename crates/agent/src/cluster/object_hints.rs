//! Requeues the pods that use a ConfigMap or Secret when it is created, changed or deleted.
//!
//! An index from objects to pods is updated whenever a desired pod changes, so a changed object costs one message per
//! pod that uses it. The worker decides what the change means for the pod.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use decide::projected::object_references::object_references;
use futures::StreamExt;
use model::{ObjectKey, Pod, PodUid};
use ports::served::objects::Objects;
use timing::KeyReceiver;
use tokio_util::sync::CancellationToken;

use crate::pipeline::requeues::RequeueSender;
use crate::pipeline::tables::Reader;

pub struct ObjectHintsDeps {
    pub objects: Arc<dyn Objects>,
    pub changed_pods: KeyReceiver<PodUid>,
    pub desired: Reader<Pod>,
    pub requeues: RequeueSender,
}

/// Runs until cancelled.
pub async fn run(mut deps: ObjectHintsDeps, cancel: CancellationToken) {
    let mut changes = deps.objects.changes();
    let mut references = ReferenceIndex::default();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = deps.changed_pods.recv() => {
                let Some(uid) = changed else { return };
                references.set(&uid, deps.desired.get(&uid).map(|pod| object_references(&pod)).unwrap_or_default());
            }
            key = changes.next() => {
                let Some(key) = key else { return };
                tracing::debug!(object = %key, "object changed");
                for uid in references.pods_using(&key) {
                    deps.requeues.requeue(uid, Duration::ZERO);
                }
            }
        }
    }
}

/// Which pods refer to which objects.
#[derive(Debug, Default)]
struct ReferenceIndex {
    by_key: HashMap<ObjectKey, BTreeSet<PodUid>>,
    by_pod: HashMap<PodUid, BTreeSet<ObjectKey>>,
}

impl ReferenceIndex {
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

    fn pods_using(&self, key: &ObjectKey) -> impl Iterator<Item = &PodUid> {
        self.by_key.get(key).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests;
