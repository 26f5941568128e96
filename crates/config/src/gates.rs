//! Feature gates, resolved once at startup.

mod table;

use std::collections::BTreeMap;

pub use table::Gate;
use table::TABLE;

use crate::suggestion;

/// Enables or disables all alpha gates that are not set individually.
const ALL_ALPHA: &str = "AllAlpha";
/// Enables or disables all beta gates that are not set individually.
const ALL_BETA: &str = "AllBeta";

/// The maturity of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Alpha,
    Beta,
    /// Generally available; the gate will be removed.
    Stable,
    Deprecated,
}

/// The default of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initial {
    On,
    Off,
}

/// The effect of a feature gate in Podward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateEffect {
    /// The gate may not be set to a value other than its default.
    Locked,
    /// Podward acts on the gate.
    Used,
    /// A kubelet gate without effect: Podward always has the feature, or does not implement it. A setting produces a
    /// notice.
    NoEffect,
    /// The gate does not apply to Podward: it belongs to another component, to Windows or to upstream's client library,
    /// or Podward behaves as if it were on: `EventedPLEG` (the event stream is used if the runtime offers one) and
    /// `PLEGOnDemandRelist`; or it groups options of which there are none.
    Other,
}

struct Spec {
    gate: Gate,
    name: &'static str,
    stage: Stage,
    initial: Initial,
    effect: GateEffect,
    requires: &'static [Gate],
}

impl Spec {
    fn default(&self) -> bool {
        self.initial == Initial::On
    }
}

/// The state of all feature gates. Immutable after startup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureGates {
    enabled: Vec<bool>,
}

/// A gate setting that is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    #[error("unknown feature gate{}", .near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default())]
    Unknown {
        /// As written by the user.
        name: String,
        /// The most similar known gate.
        near: Option<&'static str>,
    },
    #[error("feature gate is locked to {default}")]
    Locked { name: &'static str, default: bool },
    /// A gate that this one requires is disabled.
    #[error("{name} is enabled, but requires {} to be enabled as well", .missing.join(", "))]
    Dependency { name: &'static str, missing: Vec<&'static str> },
}

impl GateError {
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { name, .. } => name,
            Self::Locked { name, .. } | Self::Dependency { name, .. } => name,
        }
    }
}

/// The resolved gates, with the errors and notices about the settings.
#[derive(Debug)]
pub struct ResolvedGates {
    /// Gates with errors keep their defaults.
    pub gates: FeatureGates,
    pub errors: Vec<GateError>,
    /// Settings that have no effect, or of gates that will be removed.
    pub notices: Vec<String>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self { enabled: TABLE.iter().map(Spec::default).collect() }
    }
}

impl FeatureGates {
    pub fn enabled(&self, gate: Gate) -> bool {
        self.enabled.get(gate as usize).copied().unwrap_or(false)
    }

    /// All gates with their stage and whether they are enabled.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> + '_ {
        TABLE.iter().map(|spec| (spec.name, spec.stage, self.enabled(spec.gate)))
    }

    /// The names and effects of all gates, without the groups `AllAlpha` and `AllBeta`.
    pub fn effects() -> impl Iterator<Item = (&'static str, GateEffect)> {
        TABLE.iter().filter(|spec| !is_group(spec.name)).map(|spec| (spec.name, spec.effect))
    }

    /// Applies settings to the defaults. The setting of a single gate takes precedence over `AllAlpha` and `AllBeta`.
    pub fn resolve(settings: &BTreeMap<String, bool>) -> ResolvedGates {
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
            if spec.effect == GateEffect::Locked && on != spec.default() {
                errors.push(GateError::Locked { name: spec.name, default: spec.default() });
                continue;
            }
            gates.set(spec, on);
            notices.extend(notice(spec));
            if on != spec.default() && spec.effect == GateEffect::NoEffect {
                notices.push(format!(
                    "feature gate {} is set but not implemented, so it has no effect",
                    spec.name
                ));
            }
        }
        if errors.is_empty() {
            errors = gates.unmet_dependencies();
        }
        ResolvedGates { gates, errors, notices }
    }

    fn set(&mut self, spec: &Spec, on: bool) {
        if let Some(enabled) = self.enabled.get_mut(spec.gate as usize) {
            *enabled = on;
        }
    }

    fn unmet_dependencies(&self) -> Vec<GateError> {
        let enabled = TABLE.iter().filter(|spec| self.enabled(spec.gate));
        let unmet = enabled.filter_map(|spec| {
            let missing: Vec<&'static str> = spec
                .requires
                .iter()
                .filter(|gate| !self.enabled(**gate))
                .map(|gate| name_of(*gate))
                .collect();
            (!missing.is_empty()).then_some(GateError::Dependency { name: spec.name, missing })
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
    Some(format!(
        "feature gate {} is {state} and will be removed from Kubernetes; remove this setting",
        spec.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(settings: &[(&str, bool)]) -> ResolvedGates {
        FeatureGates::resolve(&settings.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect())
    }

    #[test]
    fn gate_table_has_the_order_of_the_enum() {
        for (index, spec) in TABLE.iter().enumerate() {
            assert_eq!(spec.gate as usize, index, "{}", spec.name);
        }
    }

    #[test]
    fn default_gates_satisfy_their_dependencies() {
        let resolved = resolve(&[]);
        assert_eq!(resolved.errors, []);
        assert_eq!(resolved.gates, FeatureGates::default());
    }

    #[test]
    fn group_settings_do_not_change_individually_set_gates() {
        let resolved = resolve(&[("AllAlpha", true), ("MemoryQoS", false)]);
        assert_eq!(resolved.errors, []);
        assert!(resolved.gates.enabled(Gate::QOSReserved));
        assert!(!resolved.gates.enabled(Gate::MemoryQoS));
        assert!(!resolved.gates.enabled(Gate::AllBeta));
        assert!(!resolve(&[("AllBeta", false)]).gates.enabled(Gate::KubeletCrashLoopBackOffMax));
    }

    #[test]
    fn rejects_unknown_and_locked_gates_and_unmet_dependencies() {
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
    fn setting_a_stable_gate_produces_a_notice() {
        assert_eq!(resolve(&[("EnvFiles", false)]).notices, [""; 0]);
        let notices = resolve(&[("NodeSwap", true)]).notices;
        assert_eq!(
            notices,
            [
                "feature gate NodeSwap is generally available and will be removed from Kubernetes; remove this setting"
            ]
        );
    }

    #[test]
    fn setting_a_gate_without_effect_produces_a_notice() {
        let notices = |settings: &[(&str, bool)]| resolve(settings).notices;
        assert_eq!(
            notices(&[("LocalStorageCapacityIsolationFSQuotaMonitoring", true)]),
            [
                "feature gate LocalStorageCapacityIsolationFSQuotaMonitoring is set but not implemented, so it has no effect"
            ]
        );
        assert!(
            notices(&[("LocalStorageCapacityIsolationFSQuotaMonitoring", false), ("EnvFiles", false)])
                .is_empty()
        );
    }
}
