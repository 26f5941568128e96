//! Rules a configuration must keep; all breaches are reported, each with the field it is about.

mod cgroups;
mod images;
mod logging;
mod managers;
mod names;
mod node;
mod pods;
mod reservations;
mod server;

use document::FieldPath;

pub(crate) use names::is_qualified_name;

use crate::{
    KubeletConfiguration,
    flags::Flags,
    gates::{FeatureGates, Gate},
};

/// Which cgroup hierarchy the host has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Not known; rules about it are left to the start of the agent.
    #[default]
    Unknown,
    /// The old one.
    V1,
    /// The unified one.
    V2,
}

/// A rule that is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The field, or of several the one to change.
    pub(crate) path: FieldPath,
    /// What is wrong with it.
    pub(crate) reason: String,
}

/// A flag whose value is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlagFinding {
    pub(crate) flag: &'static str,
    pub(crate) reason: String,
}

/// Checks every rule about the configuration.
pub(crate) fn configuration(
    config: &KubeletConfiguration,
    gates: &FeatureGates,
    cgroup: CgroupVersion,
) -> Vec<Finding> {
    let mut check = Check { gates, cgroup, findings: Vec::new() };
    server::check(&mut check, &config.server);
    node::check(&mut check, &config.node, &config.api_client);
    logging::check(&mut check, &config.logs.logging);
    images::check(&mut check, &config.images);
    pods::check(&mut check, &config.pods, &config.network);
    cgroups::check(&mut check, &config.cgroups);
    reservations::check(&mut check, &config.reservations, &config.cgroups);
    managers::check(&mut check, config);
    check.findings
}

/// Checks every rule about values that only flags can set.
pub(crate) fn flags(flags: &Flags) -> Vec<FlagFinding> {
    node::check_flags(flags)
}

/// Collects what is wrong.
pub(crate) struct Check<'a> {
    gates: &'a FeatureGates,
    cgroup: CgroupVersion,
    findings: Vec<Finding>,
}

impl Check<'_> {
    fn enabled(&self, gate: Gate) -> bool {
        self.gates.enabled(gate)
    }

    /// Notes `reason` about a top-level field (or a dotted path of plain words) unless the rule is kept.
    fn rule(&mut self, kept: bool, field: &str, reason: impl Into<String>) {
        self.rule_at(kept, || field.split('.').fold(FieldPath::root(), FieldPath::key), reason);
    }

    fn rule_at(&mut self, kept: bool, path: impl FnOnce() -> FieldPath, reason: impl Into<String>) {
        if !kept {
            self.findings.push(Finding { path: path(), reason: reason.into() });
        }
    }

    fn not_negative(&mut self, value: impl Into<i64>, field: &str) {
        let value = value.into();
        self.rule(value >= 0, field, format!("{value} must not be negative"));
    }

    fn in_range(&mut self, value: impl Into<i64>, range: std::ops::RangeInclusive<i64>, field: &str) {
        let value = value.into();
        let (low, high) = (range.start(), range.end());
        self.rule(range.contains(&value), field, format!("{value} must be between {low} and {high}"));
    }

    fn needs_gate(&mut self, gate: Gate, used: bool, field: &str) {
        let kept = !used || self.enabled(gate);
        self.rule(kept, field, format!("needs feature gate {gate:?} to be on"));
    }
}

fn field(name: &str) -> FieldPath {
    FieldPath::root().key(name)
}

#[cfg(test)]
mod tests;
