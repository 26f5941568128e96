//! Table of the node's pods as the API server reports them, including mirror pods. The API source is its only writer.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;

use model::{Pod, PodFullName, PodUid, labels};
use timing::KeySender;

/// A pod at the API server was added, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApiPodChange {
    /// UID of the API object; a static pod and its mirror pod have different ones.
    pub uid: PodUid,
    pub full_name: PodFullName,
}

#[derive(Default)]
struct Rows {
    pods: HashMap<PodUid, Arc<Pod>>,
    mirrors: HashMap<PodFullName, Arc<Pod>>,
    listed: bool,
}

pub struct ApiPodsWriter {
    rows: Arc<RwLock<Rows>>,
    listeners: Vec<KeySender<ApiPodChange>>,
}

#[derive(Clone)]
pub struct ApiPodsReader {
    rows: Arc<RwLock<Rows>>,
}

/// Creates the table. Each listener receives every change.
#[must_use]
pub fn api_pods(listeners: Vec<KeySender<ApiPodChange>>) -> (ApiPodsWriter, ApiPodsReader) {
    let rows = Arc::<RwLock<Rows>>::default();
    (ApiPodsWriter { rows: Arc::clone(&rows), listeners }, ApiPodsReader { rows })
}

/// Whether an API object is a mirror pod.
#[must_use]
pub fn is_mirror(pod: &Pod) -> bool {
    pod.annotation(labels::CONFIG_MIRROR).is_some()
}

impl ApiPodsWriter {
    pub fn set(&self, pod: &Arc<Pod>) {
        {
            let mut rows = self.rows.write();
            if is_mirror(pod) {
                rows.mirrors.insert(pod.full_name.clone(), Arc::clone(pod));
            }
            rows.pods.insert(pod.uid.clone(), Arc::clone(pod));
        }
        self.notify(pod);
    }

    pub fn remove(&self, uid: &PodUid) {
        let removed = {
            let mut rows = self.rows.write();
            let removed = rows.pods.remove(uid);
            if let Some(pod) = &removed
                && rows.mirrors.get(&pod.full_name).is_some_and(|mirror| mirror.uid == *uid)
            {
                rows.mirrors.remove(&pod.full_name);
            }
            removed
        };
        if let Some(pod) = removed {
            self.notify(&pod);
        }
    }

    /// Marks the table as complete: a pod that is not in it does not exist at the API server.
    pub fn set_listed(&self) {
        self.rows.write().listed = true;
    }

    fn notify(&self, pod: &Pod) {
        for listener in &self.listeners {
            let change = ApiPodChange { uid: pod.uid.clone(), full_name: pod.full_name.clone() };
            // Fails only when the listener was dropped.
            listener.send(change);
        }
    }
}

impl ApiPodsReader {
    #[must_use]
    pub fn get(&self, uid: &PodUid) -> Option<Arc<Pod>> {
        self.rows.read().pods.get(uid).cloned()
    }

    #[must_use]
    pub fn mirror(&self, full_name: &PodFullName) -> Option<Arc<Pod>> {
        self.rows.read().mirrors.get(full_name).cloned()
    }

    /// The mirror pod of a static pod, if it mirrors this version of the static pod.
    #[must_use]
    pub fn mirror_of(&self, pod: &Pod) -> Option<Arc<Pod>> {
        let hash = pod.annotation(labels::CONFIG_HASH)?;
        self.mirror(&pod.full_name).filter(|mirror| mirror.annotation(labels::CONFIG_MIRROR) == Some(hash))
    }

    /// The API object that holds the pod's status: the pod itself, or the mirror pod of a static pod.
    #[must_use]
    pub fn api_pod(&self, pod: &Pod) -> Option<Arc<Pod>> {
        if pod.is_static() { self.mirror_of(pod) } else { self.get(&pod.uid) }
    }

    #[must_use]
    pub fn mirrors(&self) -> Vec<Arc<Pod>> {
        self.rows.read().mirrors.values().cloned().collect()
    }

    /// Whether all pods were listed at least once.
    #[must_use]
    pub fn has_listed(&self) -> bool {
        self.rows.read().listed
    }
}
