//! The node's pods as the API server shows them, mirror pods included. The API source writes, others read.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use model::{Pod, PodFullName, PodUid, labels};
use tokio::sync::mpsc;

/// A pod at the API server is new, changed or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiPodChange {
    /// Its UID there.
    pub uid: PodUid,
    /// Its namespace and name.
    pub full_name: PodFullName,
}

#[derive(Default)]
struct Rows {
    pods: HashMap<PodUid, Arc<Pod>>,
    mirrors: HashMap<PodFullName, Arc<Pod>>,
    listed: bool,
}

/// The writing end; there is one.
pub struct ApiPodsWriter {
    rows: Arc<RwLock<Rows>>,
    listeners: Vec<mpsc::UnboundedSender<ApiPodChange>>,
}

/// The reading end.
#[derive(Clone)]
pub struct ApiPodsReader {
    rows: Arc<RwLock<Rows>>,
}

/// A new table. Every listener is told of each change.
#[must_use]
pub fn api_pods(listeners: Vec<mpsc::UnboundedSender<ApiPodChange>>) -> (ApiPodsWriter, ApiPodsReader) {
    let rows = Arc::<RwLock<Rows>>::default();
    (ApiPodsWriter { rows: Arc::clone(&rows), listeners }, ApiPodsReader { rows })
}

/// Whether an API object only mirrors a static pod.
#[must_use]
pub fn is_mirror(pod: &Pod) -> bool {
    pod.annotation(labels::CONFIG_MIRROR).is_some()
}

impl ApiPodsWriter {
    /// Sets a pod.
    pub fn set(&self, pod: &Arc<Pod>) {
        {
            let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
            if is_mirror(pod) {
                rows.mirrors.insert(pod.full_name.clone(), Arc::clone(pod));
            }
            rows.pods.insert(pod.uid.clone(), Arc::clone(pod));
        }
        self.tell(pod);
    }

    /// Drops a pod.
    pub fn remove(&self, uid: &PodUid) {
        let removed = {
            let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
            let removed = rows.pods.remove(uid);
            if let Some(pod) = &removed
                && rows.mirrors.get(&pod.full_name).is_some_and(|mirror| mirror.uid == *uid)
            {
                rows.mirrors.remove(&pod.full_name);
            }
            removed
        };
        if let Some(pod) = removed {
            self.tell(&pod);
        }
    }

    /// From now on a pod without a row does not exist at the API server.
    pub fn set_listed(&self) {
        self.rows.write().unwrap_or_else(PoisonError::into_inner).listed = true;
    }

    fn tell(&self, pod: &Pod) {
        for listener in &self.listeners {
            let change = ApiPodChange { uid: pod.uid.clone(), full_name: pod.full_name.clone() };
            // A listener that is gone needs no news.
            let _ = listener.send(change);
        }
    }
}

impl ApiPodsReader {
    /// The pod of that UID.
    #[must_use]
    pub fn get(&self, uid: &PodUid) -> Option<Arc<Pod>> {
        self.read(|rows| rows.pods.get(uid).cloned())
    }

    /// The mirror pod of that name.
    #[must_use]
    pub fn mirror(&self, full_name: &PodFullName) -> Option<Arc<Pod>> {
        self.read(|rows| rows.mirrors.get(full_name).cloned())
    }

    /// The mirror pod of a static pod, if it mirrors that very version of it.
    #[must_use]
    pub fn mirror_of(&self, pod: &Pod) -> Option<Arc<Pod>> {
        let hash = pod.annotation(labels::CONFIG_HASH)?;
        self.mirror(&pod.full_name).filter(|mirror| mirror.annotation(labels::CONFIG_MIRROR) == Some(hash))
    }

    /// The API object that shows a pod's status: its own, or its mirror.
    #[must_use]
    pub fn shown(&self, pod: &Pod) -> Option<Arc<Pod>> {
        if pod.is_static() { self.mirror_of(pod) } else { self.get(&pod.uid) }
    }

    /// All mirror pods.
    #[must_use]
    pub fn mirrors(&self) -> Vec<Arc<Pod>> {
        self.read(|rows| rows.mirrors.values().cloned().collect())
    }

    /// Whether the API server has told its whole set at least once.
    #[must_use]
    pub fn has_listed(&self) -> bool {
        self.read(|rows| rows.listed)
    }

    fn read<T>(&self, read: impl FnOnce(&Rows) -> T) -> T {
        read(&self.rows.read().unwrap_or_else(PoisonError::into_inner))
    }
}
