use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceRequirements;

use crate::Timestamp;

/// Resources of a pod: of its containers by name, and of the pod itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodResources {
    /// Of containers that can be resized.
    pub containers: ContainerResources,
    /// Pod-level resources.
    pub pod: Option<ResourceRequirements>,
}

/// Resources of containers, by name. A node holds two of these for each of its pods, what was granted and what is in
/// force, which are mostly the same: they share it, and a list takes a tenth of a map's memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerResources(Vec<(String, Arc<ResourceRequirements>)>);

impl ContainerResources {
    /// Those of one container.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<ResourceRequirements>> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, own)| own)
    }

    /// Sets those of one container.
    pub fn insert(&mut self, name: &str, own: Arc<ResourceRequirements>) {
        match self.0.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
            Ok(at) => self.0[at].1 = own,
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (name.to_owned(), own));
            }
        }
    }

    /// All, in the order of their names.
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

/// What the node has granted to a pod, and how far a change of it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodAllocation {
    /// What the pod may use; its spec may ask for something else.
    pub granted: PodResources,
    /// Condition `PodResizePending`: the spec asks for what cannot be granted (yet).
    pub pending: Option<ResizeCondition>,
    /// Condition `PodResizeInProgress`: what was granted is not in force yet.
    pub in_progress: Option<ResizeCondition>,
}

/// A condition about a resize, which is true while it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeCondition {
    /// `Deferred`, `Infeasible`, `Error` or nothing.
    pub reason: String,
    /// Why.
    pub message: String,
    /// When the reason became this one.
    pub since: Timestamp,
    /// Generation of the pod that asked.
    pub generation: i64,
}
