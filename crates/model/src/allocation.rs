use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceRequirements;

use crate::Timestamp;

/// Resources of a pod at container level and at pod level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodResources {
    /// Only containers that can be resized.
    pub containers: ContainerResources,
    pub pod: Option<ResourceRequirements>,
}

/// Resources of containers by name. The agent keeps two of these per pod, allocated and actuated, which are mostly equal and
/// then share their memory. A sorted list takes a tenth of the memory of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerResources(Vec<(String, Arc<ResourceRequirements>)>);

impl ContainerResources {
    pub fn get(&self, name: &str) -> Option<&Arc<ResourceRequirements>> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, own)| own)
    }

    pub fn insert(&mut self, name: &str, own: Arc<ResourceRequirements>) {
        match self.0.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
            Ok(at) => self.0[at].1 = own,
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (name.to_owned(), own));
            }
        }
    }

    /// All containers, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<ResourceRequirements>)> {
        self.0.iter().map(|(name, own)| (name.as_str(), own))
    }
}

impl<N: AsRef<str>> FromIterator<(N, ResourceRequirements)> for ContainerResources {
    fn from_iter<I: IntoIterator<Item = (N, ResourceRequirements)>>(entries: I) -> Self {
        let mut all = Self::default();
        for (name, own) in entries {
            all.insert(name.as_ref(), Arc::new(own));
        }
        all
    }
}

/// The resources allocated to a pod, and the state of a resize.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodAllocation {
    /// The allocated resources; the spec may request others.
    pub resources: PodResources,
    /// Condition `PodResizePending`: the spec requests resources that cannot be allocated (yet).
    pub pending: Option<ResizeCondition>,
    /// Condition `PodResizeInProgress`: the allocated resources are not actuated yet.
    pub in_progress: Option<ResizeCondition>,
}

/// A resize condition; it is true while it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeCondition {
    /// `Deferred`, `Infeasible`, `Error` or empty.
    pub reason: String,
    pub message: String,
    /// Time of the last change of the reason.
    pub since: Timestamp,
    /// Generation of the pod that requested the resize.
    pub generation: i64,
}
