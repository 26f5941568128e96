//! Validation rules for a configuration. All violations are reported together, each with its field.

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
pub(crate) use node::check_flags;

use crate::{
    KubeletConfiguration,
    gates::{FeatureGates, Gate},
};

/// The cgroup hierarchy of the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Not known. The agent checks the rules about cgroups when it starts.
    #[default]
    Unknown,
    V1,
    V2,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The field that has to be changed.
    pub(crate) path: FieldPath,
    pub(crate) reason: String,
}

/// Checks all rules for the configuration.
pub(crate) fn check_configuration(
    config: &KubeletConfiguration,
    gates: &FeatureGates,
    cgroup: CgroupVersion,
) -> Vec<Violation> {
    let mut checker = Checker { gates, cgroup, violations: Vec::new() };
    server::check(&mut checker, &config.server);
    node::check(&mut checker, &config.node, &config.api_client);
    logging::check(&mut checker, &config.logs.logging);
    images::check(&mut checker, &config.images);
    pods::check(&mut checker, &config.pods, &config.network);
    cgroups::check(&mut checker, &config.cgroups);
    reservations::check(&mut checker, &config.reservations, &config.cgroups);
    managers::check(&mut checker, config);
    checker.violations
}

/// Collects violations.
pub(crate) struct Checker<'a> {
    gates: &'a FeatureGates,
    cgroup: CgroupVersion,
    violations: Vec<Violation>,
}

impl Checker<'_> {
    fn enabled(&self, gate: Gate) -> bool {
        self.gates.enabled(gate)
    }

    /// Records `reason` for a top-level field, or a dotted path of plain keys, unless `valid`.
    fn rule(&mut self, valid: bool, field: &str, reason: impl Into<String>) {
        self.rule_at(valid, || field.split('.').fold(FieldPath::root(), FieldPath::key), reason);
    }

    fn rule_at(&mut self, valid: bool, path: impl FnOnce() -> FieldPath, reason: impl Into<String>) {
        if !valid {
            self.violations.push(Violation { path: path(), reason: reason.into() });
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

    fn requires_gate(&mut self, gate: Gate, used: bool, field: &str) {
        let valid = !used || self.enabled(gate);
        self.rule(valid, field, format!("requires feature gate {gate:?} to be enabled"));
    }
}

fn field(name: &str) -> FieldPath {
    FieldPath::root().key(name)
}

#[cfg(test)]
mod tests;
