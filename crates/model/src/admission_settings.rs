use std::collections::BTreeMap;

/// Settings of admission other than resources; fixed at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionSettings {
    pub labels: BTreeMap<String, String>,
    /// `allowedUnsafeSysctls`.
    pub allowed_unsafe_sysctls: Vec<String>,
    pub kernel: KernelVersion,
    pub apparmor: AppArmor,
    /// Feature gate `PodLevelResources`.
    pub pod_level_resources: PodLevelResources,
    /// The declared features of the node; `None` without the gate `NodeDeclaredFeatures`.
    pub declared_features: Option<Vec<String>>,
}

/// Major and minor version of a kernel; 0.0 when unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    pub major: u32,
    pub minor: u32,
}

/// Whether the kernel can enforce AppArmor profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppArmor {
    Enabled,
    #[default]
    Disabled,
}

/// Whether pods may set resources at pod level (gate `PodLevelResources`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodLevelResources {
    #[default]
    Allowed,
    Refused,
}
