//! Resources that are allocated to pods, for monitoring agents.

/// A version of the pod-resources API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractVersion {
    /// The deprecated version, which can only list.
    V1Alpha1,
    /// The current version.
    V1,
}

impl ContractVersion {
    /// The label value in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1 => "v1",
        }
    }
}

/// A pod and its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedPod {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Names of its containers. Exclusive CPUs, memory and devices are not allocated yet.
    pub containers: Vec<String>,
}

/// Reads allocated resources. Never blocks.
pub trait PodResources: Send + Sync {
    /// All pods that use resources of the node.
    fn list(&self, version: ContractVersion) -> Vec<AllocatedPod>;

    /// One pod; `None` when it does not exist.
    fn get(&self, namespace: &str, name: &str) -> Option<AllocatedPod>;

    /// Counts a request for allocatable resources, of which there are none yet.
    fn count_allocatable_request(&self);
}
