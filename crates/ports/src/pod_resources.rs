//! What pods hold of the node, for programs that watch devices.

/// A version of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractVersion {
    /// The one that lists only.
    V1Alpha1,
    /// The one of today.
    V1,
}

impl ContractVersion {
    /// The word in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1 => "v1",
        }
    }
}

/// One pod and the containers of it that can hold resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodHoldings {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Names of its containers. None of them holds CPUs, memory or devices of its own: nobody gives them out.
    pub containers: Vec<String>,
}

/// Tells what pods hold. Answers at once, from what is known.
pub trait PodResources: Send + Sync {
    /// All pods that hold a share of the node.
    fn list(&self, version: ContractVersion) -> Vec<PodHoldings>;

    /// One pod; `None` when there is none of that name.
    fn get(&self, namespace: &str, name: &str) -> Option<PodHoldings>;

    /// Somebody asks what there is to give: nothing yet.
    fn asked_for_allocatable(&self);
}
