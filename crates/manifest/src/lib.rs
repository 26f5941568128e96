//! Manifest text in, validated static pods out.
//!
//! What comes in: the bytes of a manifest (YAML or JSON; one or several documents; `Pod`, `PodList` or `List`), where
//! they came from, and the rules in force. What goes out: pods with every API default filled in and the identity of
//! a static pod (UID, name, node, hash annotation), and on a node without an API server `ConfigMap`s and `Secret`s;
//! or all problems of the text, each with field and line.
//!
//! Order, as upstream: decode, default, identify, validate. Unknown fields are warnings, not errors.
//!
//! Invariants: the same text, origin and rules give the same pods, bit for bit; a text with one bad pod gives none
//! (the caller keeps what it had); no input panics.
//!
//! Not here: reading files or URLs, the size limit of a text, merging sources, and admission, which looks at the node.

mod config_object;
mod defaults;
mod identity;
mod objects;
mod path;
mod problem;
mod quantity;
mod references;
mod restart_rules;
mod static_uid;
mod validate;
mod volume;

use k8s_openapi::api::core::v1::Pod;

pub use config_object::{ConfigObject, ObjectKind};
pub use path::{Path, Segment};
pub use problem::Problem;
pub use restart_rules::{RestartRules, drop_restart_rules};

/// Which node reads a manifest, and where it came from; both are part of a static pod's identity.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// The node's name.
    pub node: &'a str,
    /// The file or URL.
    pub place: Place<'a>,
}

/// Where a manifest came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// A file, by the path it is read from.
    File(&'a str),
    /// A URL, as configured.
    Url(&'a str),
}

/// The gates that change what a static pod may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Refuse pods that refer to objects only an API server has (gate `PreventStaticPodAPIReferences`).
    pub prevent_api_references: bool,
    /// Where the ConfigMaps and Secrets of pods come from.
    pub objects: ObjectPlace,
    /// How containers may say when they restart.
    pub restarts: RestartRules,
    /// How strictly single fields are judged.
    pub strictness: Strictness,
}

/// The gates of upstream's validation that a kubelet asks for static pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strictness {
    /// Addresses have no leading zeros, and those of IPv4 are not written as IPv6 (`StrictIPCIDRValidation`).
    pub plain_addresses: bool,
    /// Pods with users of their own have a network of their own (unless `UserNamespacesHostNetworkSupport`).
    pub own_users_own_network: bool,
    /// A key of `matchLabelKeys` in spreading may be in the selector once, where an API server has put it
    /// (`MatchLabelKeysInPodTopologySpread` and `MatchLabelKeysInPodTopologySpreadSelectorMerge`).
    pub merged_spread_keys: bool,
    /// The cost of a pod's deletion is a number (`PodDeletionCost`).
    pub numeric_deletion_cost: bool,
    /// Pods may not ask for mounts with SELinux labels (unless `SELinuxMount`).
    pub no_label_mounts: bool,
}

impl Strictness {
    /// As by default.
    pub const DEFAULT: Self = Self {
        plain_addresses: true,
        own_users_own_network: true,
        merged_spread_keys: true,
        numeric_deletion_cost: true,
        no_label_mounts: true,
    };
}

impl Default for Strictness {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Where the ConfigMaps and Secrets that pods refer to come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ObjectPlace {
    /// From an API server: manifests hold none, and static pods may not refer to them.
    #[default]
    ApiServer,
    /// From the manifests of a node without an API server.
    Manifests,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            prevent_api_references: true,
            objects: ObjectPlace::ApiServer,
            restarts: RestartRules::default(),
            strictness: Strictness::DEFAULT,
        }
    }
}

/// A text that holds nothing but usable pods and objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// The pods, in the order of the text.
    pub pods: Vec<StaticPod>,
    /// The ConfigMaps and Secrets, in the order of the text; none unless they come from manifests.
    pub objects: Vec<ConfigObject>,
    /// Fields that were ignored because no such object has them.
    pub warnings: Vec<Problem>,
}

/// A pod that the node should run, as the API would show it.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticPod {
    /// The pod, with defaults and identity.
    pub pod: Pod,
    /// The line of the text on which its object starts, from 1.
    pub line: usize,
}

/// Reads a manifest.
///
/// Either every pod and object of the text is good, or the result is every problem found.
pub fn read(text: &[u8], origin: &Origin<'_>, rules: &Rules) -> Result<Manifest, Vec<Problem>> {
    objects::read(text, origin, rules)
}

#[cfg(test)]
mod tests;
