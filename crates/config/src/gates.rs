//! Feature gates, resolved once into an immutable value.

mod effect;
mod table;

use std::collections::BTreeMap;

pub use effect::{OTHERS, WITHOUT_EFFECT};
pub use table::Gate;
use table::{DEPENDENCIES, TABLE};

use crate::suggestion;

/// Turns all alpha gates on or off that are not set themselves.
const ALL_ALPHA: &str = "AllAlpha";
/// Turns all beta gates on or off that are not set themselves.
const ALL_BETA: &str = "AllBeta";

/// How mature a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Off unless asked for.
    Alpha,
    /// Mostly on.
    Beta,
    /// Done; the gate will go away.
    Stable,
    /// On its way out.
    Deprecated,
}

/// Whether a gate is on when nobody sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initial {
    On,
    Off,
}

/// Whether a gate may be set to something else than its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lock {
    Locked,
    Free,
}

struct Spec {
    gate: Gate,
    name: &'static str,
    stage: Stage,
    initial: Initial,
    lock: Lock,
}

impl Spec {
    fn default(&self) -> bool {
        self.initial == Initial::On
    }
}

/// Which features are on. Made once at start-up; never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureGates {
    enabled: Vec<bool>,
}

/// A gate was set to what it cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No such gate.
    #[error("unknown feature gate{}", .near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default())]
    Unknown {
        /// The name given.
        name: String,
        /// The known name it looks like.
        near: Option<&'static str>,
    },
    /// The gate's default is final.
    #[error("feature gate is locked to {default}")]
    Locked {
        /// The gate.
        name: &'static str,
        /// What it is locked to.
        default: bool,
    },
    /// Another gate that it needs is off.
    #[error("{name} is on, but needs {} to be on as well", .missing.join(", "))]
    Dependency {
        /// The gate.
        name: &'static str,
        /// Those it needs.
        missing: Vec<&'static str>,
    },
}

impl GateError {
    /// The gate the error is about.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { name, .. } => name,
            Self::Locked { name, .. } | Self::Dependency { name, .. } => name,
        }
    }
}

/// The outcome of setting gates: their values, and what is to be said about them.
#[derive(Debug)]
pub struct Resolved {
    /// The gates; those with errors keep their defaults.
    pub gates: FeatureGates,
    /// Settings that are refused.
    pub errors: Vec<GateError>,
    /// Settings that work but will not for long.
    pub notices: Vec<String>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self { enabled: TABLE.iter().map(Spec::default).collect() }
    }
}

impl FeatureGates {
    /// Whether a feature is on.
    pub fn enabled(&self, gate: Gate) -> bool {
        self.enabled.get(gate as usize).copied().unwrap_or(false)
    }

    /// All gates by name, with their stage and whether they are on.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> + '_ {
        TABLE.iter().map(|spec| (spec.name, spec.stage, self.enabled(spec.gate)))
    }

    /// Gates that can be set to something else than their default, but for those that stand for others.
    pub fn settable() -> impl Iterator<Item = (Gate, &'static str)> {
        let free = TABLE.iter().filter(|spec| spec.lock == Lock::Free && !is_group(spec.name));
        free.map(|spec| (spec.gate, spec.name))
    }

    /// Applies settings by name to the defaults; a gate's own setting beats `AllAlpha` and `AllBeta`.
    pub fn resolve(settings: &BTreeMap<String, bool>) -> Resolved {
        let mut gates = Self::default();
        let mut errors = Vec::new();
        let mut notices = Vec::new();
        for (group, stage) in [(ALL_ALPHA, Stage::Alpha), (ALL_BETA, Stage::Beta)] {
            if let Some(&on) = settings.get(group) {
                let members = TABLE.iter().filter(|spec| spec.stage == stage && !is_group(spec.name));
                members.for_each(|spec| gates.set(spec, on));
            }
        }
        for (name, &on) in settings {
            let Some(spec) = TABLE.iter().find(|spec| spec.name == name) else {
                let near = suggestion::nearest(name, TABLE.iter().map(|spec| spec.name));
                errors.push(GateError::Unknown { name: name.clone(), near });
                continue;
            };
            if spec.lock == Lock::Locked && on != spec.default() {
                errors.push(GateError::Locked { name: spec.name, default: spec.default() });
                continue;
            }
            gates.set(spec, on);
            notices.extend(notice(spec));
            if on != spec.default() && WITHOUT_EFFECT.contains(&spec.gate) {
                notices.push(format!("feature gate {}: set, but without effect yet", spec.name));
            }
        }
        if errors.is_empty() {
            errors = gates.unmet_dependencies();
        }
        Resolved { gates, errors, notices }
    }

    fn set(&mut self, spec: &Spec, on: bool) {
        if let Some(enabled) = self.enabled.get_mut(spec.gate as usize) {
            *enabled = on;
        }
    }

    fn unmet_dependencies(&self) -> Vec<GateError> {
        let enabled = DEPENDENCIES.iter().filter(|(gate, _)| self.enabled(*gate));
        let unmet = enabled.filter_map(|(gate, needs)| {
            let missing: Vec<&'static str> =
                needs.iter().filter(|need| !self.enabled(**need)).map(|need| name_of(*need)).collect();
            (!missing.is_empty()).then(|| GateError::Dependency { name: name_of(*gate), missing })
        });
        unmet.collect()
    }
}

fn is_group(name: &str) -> bool {
    name == ALL_ALPHA || name == ALL_BETA
}

fn name_of(gate: Gate) -> &'static str {
    TABLE.get(gate as usize).map_or("", |spec| spec.name)
}

fn notice(spec: &Spec) -> Option<String> {
    let state = match spec.stage {
        Stage::Stable => "generally available",
        Stage::Deprecated => "deprecated",
        Stage::Alpha | Stage::Beta => return None,
    };
    Some(format!("feature gate {} is {state} and will be removed; stop setting it", spec.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(settings: &[(&str, bool)]) -> Resolved {
        FeatureGates::resolve(&settings.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect())
    }

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (index, spec) in TABLE.iter().enumerate() {
            assert_eq!(spec.gate as usize, index, "{}", spec.name);
        }
    }

    #[test]
    fn defaults_satisfy_their_own_dependencies() {
        let resolved = resolve(&[]);
        assert_eq!(resolved.errors, []);
        assert_eq!(resolved.gates, FeatureGates::default());
    }

    #[test]
    fn groups_change_only_gates_not_set_themselves() {
        let resolved = resolve(&[("AllAlpha", true), ("MemoryQoS", false)]);
        assert_eq!(resolved.errors, []);
        assert!(resolved.gates.enabled(Gate::QOSReserved));
        assert!(!resolved.gates.enabled(Gate::MemoryQoS));
        assert!(!resolved.gates.enabled(Gate::AllBeta));
        assert!(!resolve(&[("AllBeta", false)]).gates.enabled(Gate::KubeletCrashLoopBackOffMax));
    }

    #[test]
    fn wrong_settings_are_errors() {
        let table = [
            (("MemoryQos", true), "unknown feature gate; did you mean \"MemoryQoS\"?"),
            (("NoSuchThingAtAll", true), "unknown feature gate"),
            (("NodeSwap", false), "feature gate is locked to true"),
        ];
        for (setting, expected) in table {
            let errors = resolve(&[setting]).errors;
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
            assert_eq!(errors[0].name(), setting.0);
        }
        let errors = resolve(&[("GracefulNodeShutdown", false)]).errors;
        assert!(
            errors.iter().any(|error| error.name() == "GracefulNodeShutdownBasedOnPodPriority"),
            "{errors:?}"
        );
    }

    #[test]
    fn settled_gates_leave_a_notice() {
        assert_eq!(resolve(&[("EnvFiles", false)]).notices, [""; 0]);
        let notices = resolve(&[("NodeSwap", true)]).notices;
        assert_eq!(
            notices,
            ["feature gate NodeSwap is generally available and will be removed; stop setting it"]
        );
    }

    #[test]
    fn a_gate_without_effect_is_told() {
        let told = |settings: &[(&str, bool)]| resolve(settings).notices;
        assert_eq!(told(&[("PodsAPI", true)]), ["feature gate PodsAPI: set, but without effect yet"]);
        assert!(told(&[("PodsAPI", false), ("EnvFiles", false)]).is_empty());
    }
}
