//! Resources that are allocated to pods, for monitoring agents.

use model::PreparedDevice;

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
    /// Its containers that hold resources.
    pub containers: Vec<AllocatedContainer>,
}

/// A container and its resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatedContainer {
    /// Its name.
    pub name: String,
    /// Exclusive CPUs.
    pub cpus: Vec<u32>,
    /// Memory on particular NUMA nodes.
    pub memory: Vec<AllocatedMemory>,
    /// Devices of device plugins.
    pub devices: Vec<AllocatedDevice>,
    /// Claims of dynamic resource allocation.
    pub claims: Vec<AllocatedClaim>,
}

/// Memory of one kind on a set of NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatedMemory {
    /// Resource name, such as `memory`.
    pub kind: String,
    /// Bytes.
    pub size: u64,
    /// NUMA nodes.
    pub nodes: Vec<i32>,
}

/// A device of a device plugin on one NUMA node. A device that is close to several nodes has one entry for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedDevice {
    /// Name of the resource.
    pub resource: String,
    /// The plugin's name of the device.
    pub id: String,
    /// The NUMA node, if the plugin names one.
    pub node: Option<i64>,
}

/// A ResourceClaim that a container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatedClaim {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The container's devices, with their driver.
    pub devices: Vec<(String, PreparedDevice)>,
}

/// Reads allocated resources. Never blocks.
pub trait PodResources: Send + Sync {
    /// All pods that use resources of the node.
    fn list(&self, version: ContractVersion) -> Vec<AllocatedPod>;

    /// One pod; `None` when it does not exist.
    fn get(&self, namespace: &str, name: &str) -> Option<AllocatedPod>;

    /// CPUs that containers can own exclusively.
    fn allocatable_cpus(&self) -> Vec<u32>;

    /// Memory that containers can have.
    fn allocatable_memory(&self) -> Vec<AllocatedMemory>;

    /// Healthy devices.
    fn allocatable_devices(&self) -> Vec<AllocatedDevice>;
}
