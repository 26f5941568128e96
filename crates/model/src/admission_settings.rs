use std::collections::BTreeMap;

/// What decides whether a pod may run here, besides resources; fixed at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// The node's own labels.
    pub labels: BTreeMap<String, String>,
    /// `allowedUnsafeSysctls`.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Version of the running kernel.
    pub kernel: KernelVersion,
    /// Whether the kernel can enforce AppArmor profiles.
    pub apparmor: AppArmor,
    /// Feature gate `PodLevelResources`.
    pub pod_level_resources: PodLevelResources,
    /// The features that the node declares; `None` when pods are not held to them (feature gate `NodeDeclaredFeatures`).
    pub declared_features: Option<Vec<String>>,
}

/// Major and minor version of a kernel; 0.0 when unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

/// Whether the kernel can enforce AppArmor profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppArmor {
    /// It can.
    Enabled,
    /// It was built or started without.
    #[default]
    Disabled,
}

/// Whether pods may have resources of their own beside those of their containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodLevelResources {
    /// They may.
    #[default]
    Allowed,
    /// The gate is off.
    Refused,
}
