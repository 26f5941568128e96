//! The validation of a kube-apiserver on pod creation, as far as it applies to static pods.
//!
//! The rules are those of upstream v1.36 with its default gates, one file per topic. If upstream's field path has no
//! index for a list item, ours has one, so that the problem has the line of the item.

use values::quantity::Quantity;

mod affinity;
mod annotations;
mod containers;
mod dns;
mod env;
pub(crate) mod field;
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
use crate::restart_rules::RestartRules;
use crate::{ManifestRules, ValidationGates};

pub(crate) use field::{Field, Report, Violations};

/// The parts of the pod and the settings that rules for single fields depend on.
struct Context<'a> {
    spec: &'a PodSpec,
    volumes: BTreeMap<&'a str, &'a Volume>,
    claims: BTreeSet<&'a str>,
    restarts: RestartRules,
    validation_gates: ValidationGates,
    report: &'a Report,
}

impl<'a> Context<'a> {
    fn new(spec: &'a PodSpec, rules: ManifestRules, report: &'a Report) -> Self {
        let volumes = spec.volumes.iter().flatten().map(|volume| (volume.name.as_str(), volume)).collect();
        let claims = spec.resource_claims.iter().flatten().map(|claim| claim.name.as_str());
        let claims = claims.filter(|name| !name.is_empty()).collect();
        let ManifestRules { restarts, validation_gates, .. } = rules;
        Self { spec, volumes, claims, restarts, validation_gates, report }
    }

    fn spec_field(&self) -> Field<'a> {
        self.report.root().field("spec")
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
    fn containers(&self) -> impl Iterator<Item = (Field<'a>, &'a Container)> {
        let at = self.spec_field();
        let init = at.list("initContainers", &self.spec.init_containers);
        init.chain(at.field("containers").items(&self.spec.containers))
    }
}

/// Finds malformed quantities. A pod that has any cannot be validated further.
pub(crate) fn find_malformed_quantities(pod: &mut Pod) -> Violations {
    let report = Report::default();
    defaults::each_quantity(pod, &mut |path, _, text| {
        if let Err(error) = Quantity::parse_trimmed(&text.0) {
            report.at(path.clone()).invalid(text.0.as_str(), &error.to_string());
        }
    });
    report.into_violations()
}

/// Checks the metadata of an object.
pub(crate) fn check_object_metadata(metadata: &ObjectMeta, object: &Field<'_>) {
    metadata::check(metadata, &object.field("metadata"));
}

/// Finds all violations of a pod with defaults and identity.
pub(crate) fn check_pod(pod: &Pod, rules: ManifestRules) -> Violations {
    let report = Report::default();
    let empty = PodSpec::default();
    let context = Context::new(pod.spec.as_ref().unwrap_or(&empty), rules, &report);
    let metadata = report.root().field("metadata");
    metadata::check(&pod.metadata, &metadata);
    metadata.if_set("annotations", &pod.metadata.annotations, |annotations, at| {
        annotations::check(annotations, &context, at);
    });
    volumes::check(&context, pod.metadata.name.as_deref().unwrap_or_default());
    containers::check(&context);
    resources::check_pod(&context);
    security::check_pod(&context);
    windows::check(&context);
    dns::check(&context);
    scheduling::check(&context);
    context.spec_field().if_set("affinity", &context.spec.affinity, affinity::check);
    check_other_fields(context.spec, &context.spec_field());
    report.into_violations()
}

/// Checks single fields of the spec that belong to no other topic.
fn check_other_fields(spec: &PodSpec, at: &Field<'_>) {
    let restart_policy = spec.restart_policy.as_deref().unwrap_or_default();
    at.field("restartPolicy").one_of(restart_policy, &["Always", "OnFailure", "Never"]);
    if let Some(seconds) = spec.active_deadline_seconds {
        at.field("activeDeadlineSeconds").in_range(seconds, 1, i64::from(i32::MAX));
    }
    for (field, name) in [
        ("serviceAccountName", &spec.service_account_name),
        ("nodeName", &spec.node_name),
        ("priorityClassName", &spec.priority_class_name),
    ] {
        at.field(field).empty_or_format(name, formats::dns_subdomain);
    }
    at.field("runtimeClassName").optional_format(&spec.runtime_class_name, formats::dns_subdomain);
    at.field("preemptionPolicy").optional_one_of(&spec.preemption_policy, &["PreemptLowerPriority", "Never"]);
    if !spec.ephemeral_containers.as_deref().unwrap_or_default().is_empty() {
        at.field("ephemeralContainers").forbidden("cannot be set on create");
    }
    for (at, gate) in at.list("readinessGates", &spec.readiness_gates) {
        at.field("conditionType").format(&gate.condition_type, formats::qualified_name);
    }
}

#[cfg(test)]
mod tests;
