//! Turns the text of a manifest into validated static pods.
//!
//! Input: the bytes of a manifest (YAML or JSON; one or several documents; `Pod`, `PodList` or `List`), its source, and
//! the rules that apply. Output: pods with all API defaults and the identity of a static pod (UID, name, node, hash
//! annotation), and on a node without an API server also `ConfigMap`s and `Secret`s; or all problems of the text, each
//! with field and line.
//!
//! The order is upstream's: decode, apply defaults, set the identity, validate. Unknown fields are warnings, not errors.
//!
//! Invariants: the same text, source and rules give exactly the same pods; if one pod is invalid, the result contains no
//! pods, so that the caller keeps its previous ones; no input panics.
//!
//! Not here: reading files or URLs, limiting the size of a text, merging sources, and admission.

mod config_object;
mod defaults;
mod identity;
mod objects;
mod path;
mod problem;
mod references;
mod restart_rules;
mod static_uid;
mod validate;
mod volume;

use k8s_openapi::api::core::v1::Pod;

pub use config_object::{ConfigObject, ObjectKind};
pub use objects::read;
pub use path::{Path, Segment};
pub use problem::Problem;
pub use restart_rules::{RestartRules, drop_restart_rules};

/// The node that reads a manifest and the manifest's location. Both are part of a static pod's identity.
#[derive(Debug, Clone, Copy)]
pub struct ManifestSource<'a> {
    pub node: &'a str,
    pub location: ManifestLocation<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManifestLocation<'a> {
    /// The path of a file.
    File(&'a str),
    /// A URL as configured.
    Url(&'a str),
}

/// Rules for the content of manifests, which depend on feature gates and on whether the node has an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManifestRules {
    /// Reject pods that reference API objects (gate `PreventStaticPodAPIReferences`).
    pub prevent_api_references: bool,
    pub objects: ObjectSource,
    pub restarts: RestartRules,
    pub validation_gates: ValidationGates,
}

/// Feature gates of upstream's pod validation that apply to static pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidationGates {
    /// IP addresses must not have leading zeros or be IPv4-mapped IPv6 addresses (`StrictIPCIDRValidation`).
    pub strict_ip_addresses: bool,
    /// Pods with a user namespace must not use the host network (off with `UserNamespacesHostNetworkSupport`).
    pub forbid_host_network_with_user_namespace: bool,
    /// A key of `matchLabelKeys` in a spread constraint may occur once in the selector, because the API server adds it
    /// there (`MatchLabelKeysInPodTopologySpread` and `MatchLabelKeysInPodTopologySpreadSelectorMerge`).
    pub allow_merged_spread_keys: bool,
    /// The pod deletion cost must be an integer (`PodDeletionCost`).
    pub check_deletion_cost: bool,
    /// Tolerations may compare numbers (`TaintTolerationComparisonOperators`).
    pub allow_numeric_tolerations: bool,
    /// `seLinuxChangePolicy` must not be `MountOption` (off with `SELinuxMount`).
    pub forbid_selinux_mount_option: bool,
}

impl ValidationGates {
    /// The default state of the gates.
    pub const DEFAULT: Self = Self {
        strict_ip_addresses: true,
        forbid_host_network_with_user_namespace: true,
        allow_merged_spread_keys: true,
        check_deletion_cost: true,
        allow_numeric_tolerations: false,
        forbid_selinux_mount_option: true,
    };
}

impl Default for ValidationGates {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The source of the ConfigMaps and Secrets that pods reference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ObjectSource {
    /// The API server. Manifests must not contain them, and static pods must not reference them.
    #[default]
    ApiServer,
    /// The manifests of a node without an API server.
    Manifests,
}

impl Default for ManifestRules {
    fn default() -> Self {
        Self {
            prevent_api_references: true,
            objects: ObjectSource::ApiServer,
            restarts: RestartRules::default(),
            validation_gates: ValidationGates::DEFAULT,
        }
    }
}

/// The content of a valid manifest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// In the order of the text.
    pub pods: Vec<StaticPod>,
    /// ConfigMaps and Secrets in the order of the text; empty unless [`ObjectSource::Manifests`] is set.
    pub objects: Vec<ConfigObject>,
    /// Unknown fields, which were ignored.
    pub warnings: Vec<Problem>,
}

/// A static pod that the node should run.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticPod {
    /// With defaults and identity.
    pub pod: Pod,
    /// The line on which the object starts, from 1.
    pub line: usize,
}

#[cfg(test)]
mod tests;
