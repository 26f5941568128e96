/// How the CPU and memory managers treat pods with pod-level resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodLevelManagement {
    /// Gate `PodLevelResourceManagers` off: such pods own nothing.
    #[default]
    Unmanaged,
    /// Containers that are Guaranteed by their own resources own CPUs and memory of the node.
    PerContainer,
    /// Pod scope of the topology manager: the pod owns CPUs and memory as a whole, and its containers get parts of them.
    PerPod,
}

impl PodLevelManagement {
    /// Whether the gate is on. State files then have another layout.
    pub fn is_managed(self) -> bool {
        self != Self::Unmanaged
    }
}
