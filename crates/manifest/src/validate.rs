//! The validation of a kube-apiserver on pod creation, as far as it applies to static pods.
//!
//! The rules are those of upstream v1.36 with its default gates, one file per topic. If upstream's field path has no
//! index for a list item, ours has one, so that the problem has the line of the item.

use values::quantity::Quantity;

mod affinity;
mod annotations;
mod checker;
mod containers;
mod dns;
mod env;
pub(crate) mod formats;
mod metadata;
mod mounts;
mod ports;
mod probes;
mod profiles;
mod projected;
mod resources;
mod restarts;
mod scheduling;
mod security;
mod storage;
mod volumes;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::defaults;
use crate::path::Path;
use crate::restart_rules::RestartRules;
use crate::{ManifestRules, ValidationGates};

pub(crate) use checker::{Checker, Violations};

/// The parts of the pod and the settings that rules for single fields depend on.
struct Context<'a> {
    spec: &'a PodSpec,
    volumes: BTreeMap<&'a str, &'a Volume>,
    claims: BTreeSet<&'a str>,
    restarts: RestartRules,
    validation_gates: ValidationGates,
}

impl<'a> Context<'a> {
    fn new(spec: &'a PodSpec, rules: ManifestRules) -> Self {
        let volumes = spec.volumes.iter().flatten().map(|volume| (volume.name.as_str(), volume)).collect();
        let claims = spec.resource_claims.iter().flatten().map(|claim| claim.name.as_str());
        let claims = claims.filter(|name| !name.is_empty()).collect();
        Self { spec, volumes, claims, restarts: rules.restarts, validation_gates: rules.validation_gates }
    }

    /// Whether the pod uses the user namespace of the host, which is the default.
    fn host_users(&self) -> bool {
        self.spec.host_users != Some(false)
    }

    fn host_network(&self) -> bool {
        self.spec.host_network == Some(true)
    }

    /// The pod's operating system, if set.
    fn os(&self) -> Option<&'a str> {
        self.spec.os.as_ref().map(|os| os.name.as_str())
    }

    /// All init and regular containers with their paths.
    fn containers(&self) -> impl Iterator<Item = (Path, &'a Container)> {
        let path = Path::root().field("spec");
        let init = self.spec.init_containers.as_deref().unwrap_or_default();
        let init = path.field("initContainers").items(init);
        init.chain(path.field("containers").items(&self.spec.containers))
    }
}

/// Finds malformed quantities. A pod that has any cannot be validated further.
pub(crate) fn find_malformed_quantities(pod: &mut Pod) -> Violations {
    let mut checker = Checker::default();
    defaults::each_quantity(pod, &mut |path, _, text| {
        if let Err(error) = Quantity::parse_trimmed(&text.0) {
            checker.invalid(path, text.0.as_str(), &error.to_string());
        }
    });
    checker.finish()
}

/// Checks the metadata of an object.
pub(crate) fn check_object_metadata(metadata: &ObjectMeta, checker: &mut Checker) {
    metadata::check(metadata, checker);
}

/// Finds all violations of a pod with defaults and identity.
pub(crate) fn check_pod(pod: &Pod, rules: ManifestRules) -> Violations {
    let mut checker = Checker::default();
    let empty = PodSpec::default();
    let context = Context::new(pod.spec.as_ref().unwrap_or(&empty), rules);
    metadata::check(&pod.metadata, &mut checker);
    annotations::check(pod.metadata.annotations.as_ref(), &context, &mut checker);
    volumes::check(&context, pod.metadata.name.as_deref().unwrap_or_default(), &mut checker);
    containers::check(&context, &mut checker);
    resources::check_pod(&context, &mut checker);
    security::check_pod(&context, &mut checker);
    windows::check(&context, &mut checker);
    dns::check(&context, &mut checker);
    scheduling::check(&context, &mut checker);
    affinity::check(context.spec, &mut checker);
    check_other_fields(context.spec, &mut checker);
    checker.finish()
}

/// Checks single fields of the spec that belong to no other topic.
fn check_other_fields(spec: &PodSpec, checker: &mut Checker) {
    let path = Path::root().field("spec");
    let restart_policy = spec.restart_policy.as_deref().unwrap_or_default();
    checker.one_of(&path.field("restartPolicy"), restart_policy, &["Always", "OnFailure", "Never"]);
    if let Some(seconds) = spec.active_deadline_seconds {
        checker.in_range(&path.field("activeDeadlineSeconds"), seconds, 1, i64::from(i32::MAX));
    }
    for (field, name) in [
        ("serviceAccountName", &spec.service_account_name),
        ("nodeName", &spec.node_name),
        ("priorityClassName", &spec.priority_class_name),
    ] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            checker.format(&path.field(field), name, formats::dns_subdomain(name));
        }
    }
    if let Some(name) = &spec.runtime_class_name {
        checker.format(&path.field("runtimeClassName"), name, formats::dns_subdomain(name));
    }
    if let Some(policy) = spec.preemption_policy.as_deref() {
        checker.one_of(&path.field("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    if !spec.ephemeral_containers.as_deref().unwrap_or_default().is_empty() {
        checker.forbidden(&path.field("ephemeralContainers"), "cannot be set on create");
    }
    for (path, gate) in
        path.field("readinessGates").items(spec.readiness_gates.as_deref().unwrap_or_default())
    {
        let name = gate.condition_type.as_str();
        checker.format(&path.field("conditionType"), name, formats::qualified_name(name));
    }
}

#[cfg(test)]
mod tests;
