//! Pods by the names in a path.

use std::sync::Arc;

use agent::api_pods::ApiPodsReader;
use agent::published::Reader;
use model::{Pod, PodFullName, PodUid};

/// Finds pods that sources want.
#[derive(Clone)]
pub struct PodLookup {
    desired: Reader<Pod>,
    shown: Option<ApiPodsReader>,
}

impl PodLookup {
    /// Looks in these tables; the second one knows mirror pods.
    #[must_use]
    pub fn new(desired: Reader<Pod>, shown: Option<ApiPodsReader>) -> Self {
        Self { desired, shown }
    }

    /// The pod of that name. While one is on its way out and the next is there already, the next.
    #[must_use]
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let same = |pod: &Arc<Pod>| pod.namespace() == namespace && pod.name() == name;
        let found = self.desired.all().into_iter().filter(same);
        found.max_by_key(|pod| (!pod.is_deleted(), pod.created_at()))
    }

    /// Whether a UID that a client names is the pod's: its own, or that of its mirror.
    #[must_use]
    pub fn has_uid(&self, pod: &Pod, uid: &str) -> bool {
        pod.uid == PodUid::from(uid)
            || (pod.is_static() && self.mirror_uid(&pod.full_name).as_deref() == Some(uid))
    }

    fn mirror_uid(&self, full_name: &PodFullName) -> Option<String> {
        Some(self.shown.as_ref()?.mirror(full_name)?.uid.to_string())
    }
}
