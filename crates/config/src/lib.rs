//! Loads and validates the agent's configuration.
//!
//! Input: the command line of an upstream kubelet, its `KubeletConfiguration` v1beta1 file and its directory of drop-in
//! files. Output: an [`Invocation`], usually a [`LoadedConfig`] with the effective [`KubeletConfiguration`], the
//! [`Flags`] that no file can set, the resolved [`FeatureGates`] and notices to log.
//!
//! Invariants: a loaded configuration satisfies all of upstream's validation rules. An invalid one is rejected with all
//! problems together, each with its file, line and field, or with its flag. Defaults, names, precedence and the JSON
//! form are upstream's. The crate is stricter than upstream in three cases: an unknown field, a duplicate field and an
//! unknown `cgroupDriver` are errors.
//!
//! Not here: acting on the configuration, rules that depend on the machine (CPU count, memory size), the cgroup driver
//! of the runtime, and logging.

mod address;
pub mod configuration;
mod credential_providers;
mod fault_rules;
mod files;
mod flags;
mod gates;
mod load;
mod merge;
mod problem;
mod sources;
mod suggestion;
mod support;
mod validate;

pub use address::parse_ip;
pub use configuration::KubeletConfiguration;
pub use credential_providers::{
    CredentialProviderSettings, ProviderTokenSettings, credential_provider_files, credential_providers,
};
pub use fault_rules::{FaultKind, FaultSettings, fault_rules};
pub use flags::{FlagError, Flags, ProgramName, flag_names, flag_reference, help_text, version_text};
pub use gates::{FeatureGates, Gate, GateEffect, GateError, ResolvedGates, Stage};
pub use load::{Environment, Invocation, LoadedConfig, VersionFormat, load, parse_config};
pub use problem::{LoadError, Origin, Problem};
pub use support::fields_without_effect;
pub use validate::CgroupVersion;

/// The Kubernetes version whose kubelet Podward replaces.
pub const KUBERNETES_VERSION: &str = "v1.36.4";
