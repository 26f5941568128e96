//! The agent's configuration: arguments and files in, one checked value out.
//!
//! What comes in: the command line of an upstream kubelet, the `KubeletConfiguration` v1beta1 file it names, and its
//! directory of drop-in files. What goes out: an [`Invocation`], mostly a [`Loaded`] with the effective
//! [`KubeletConfiguration`], the [`Flags`] no file can replace, the resolved [`FeatureGates`], and notices to log.
//!
//! Invariants: what loads keeps every rule of upstream's validation; what does not is refused with all problems at
//! once, each with its file, line and field, or its flag. Defaults, names, order of precedence and the JSON form are
//! upstream's. Stricter in three places: an unknown field, a field given twice and an unknown `cgroupDriver` are errors.
//!
//! Not here: acting on the configuration, rules that need the machine (CPU counts, memory sizes), the runtime's
//! answer about the cgroup driver, and logging of any kind.

mod address;
pub mod configuration;
mod credential_providers;
mod duration;
mod files;
mod flags;
mod gates;
mod load;
mod merge;
mod problem;
mod quantity;
mod sources;
mod suggestion;
mod support;
mod validate;

pub use address::parse_ip;
pub use configuration::KubeletConfiguration;
pub use credential_providers::{
    CredentialProviderSettings, ProviderTokenSettings, credential_provider_files, credential_providers,
};
pub use duration::{DurationError, GoDuration};
pub use flags::{CalledAs, FlagError, Flags, flag_names, help_text, version_text};
pub use gates::{FeatureGates, Gate, GateError, Resolved, Stage};
pub use gates::{OTHERS as GATES_OF_OTHERS, WITHOUT_EFFECT as GATES_WITHOUT_EFFECT};
pub use load::{Environment, Invocation, Loaded, VersionFormat, load, parse_config};
pub use problem::{LoadError, Origin, Problem};
pub use quantity::{Quantity, QuantityError};
pub use support::{SUPPORTED, WITHOUT_EFFECT_UPSTREAM, without_effect};
pub use validate::CgroupVersion;

/// The Kubernetes version whose kubelet this agent stands in for.
pub const KUBERNETES_VERSION: &str = "v1.36.4";
