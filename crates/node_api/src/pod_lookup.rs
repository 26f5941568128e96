//! Finds pods by the names in a request path.

use std::sync::Arc;

use agent::cluster::api_pods::ApiPodsReader;
use agent::pipeline::tables::Reader;
use model::{Pod, PodFullName, PodUid};

/// Finds desired pods.
#[derive(Clone)]
pub struct PodLookup {
    desired: Reader<Pod>,
    api_pods: Option<ApiPodsReader>,
}

impl PodLookup {
    /// `api_pods` contains the mirror pods.
    #[must_use]
    pub fn new(desired: Reader<Pod>, api_pods: Option<ApiPodsReader>) -> Self {
        Self { desired, api_pods }
    }

    /// Prefers a pod that is not being deleted, then the newest.
    #[must_use]
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let has_name = |pod: &Arc<Pod>| pod.namespace() == namespace && pod.name() == name;
        let found = self.desired.all().into_iter().filter(has_name);
        found.max_by_key(|pod| (!pod.is_deleted(), pod.created_at()))
    }

    /// Whether `uid` is the UID of the pod or of its mirror pod.
    #[must_use]
    pub fn has_uid(&self, pod: &Pod, uid: &str) -> bool {
        pod.uid == PodUid::from(uid)
            || (pod.is_static() && self.mirror_uid(&pod.full_name).as_deref() == Some(uid))
    }

    fn mirror_uid(&self, full_name: &PodFullName) -> Option<String> {
        Some(self.api_pods.as_ref()?.mirror(full_name)?.uid.to_string())
    }
}
