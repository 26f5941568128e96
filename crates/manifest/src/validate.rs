//! What a kube-apiserver would refuse when a pod is created, as far as a static pod can say it.
//!
//! The rules follow upstream's validation of v1.36 with its default gates, one file per topic. Where upstream's field
//! path lacks the index of a list item, ours has it, so that the problem's line is the item's.

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
use crate::quantity::Quantity;
use crate::restart_rules::RestartRules;
use crate::{Rules, Strictness};

pub(crate) use checker::{Checker, Findings};

/// What the rules of one field need to know about the rest of the pod.
struct Context<'a> {
    spec: &'a PodSpec,
    volumes: BTreeMap<&'a str, &'a Volume>,
    claims: BTreeSet<&'a str>,
    restarts: RestartRules,
    strictness: Strictness,
}

impl<'a> Context<'a> {
    fn new(spec: &'a PodSpec, rules: Rules) -> Self {
        let volumes = spec.volumes.iter().flatten().map(|volume| (volume.name.as_str(), volume)).collect();
        let claims = spec.resource_claims.iter().flatten().map(|claim| claim.name.as_str());
        let claims = claims.filter(|name| !name.is_empty()).collect();
        Self { spec, volumes, claims, restarts: rules.restarts, strictness: rules.strictness }
    }

    /// Whether the pod shares the host's user namespace, which is the default.
    fn host_users(&self) -> bool {
        self.spec.host_users != Some(false)
    }

    fn host_network(&self) -> bool {
        self.spec.host_network == Some(true)
    }

    /// The pod's operating system, if it says one.
    fn os(&self) -> Option<&'a str> {
        self.spec.os.as_ref().map(|os| os.name.as_str())
    }

    /// Init and regular containers, each with its path.
    fn containers(&self) -> impl Iterator<Item = (Path, &'a Container)> {
        let at = Path::root().field("spec");
        let init = self.spec.init_containers.as_deref().unwrap_or_default();
        let init = at.field("initContainers").items(init);
        init.chain(at.field("containers").items(&self.spec.containers))
    }
}

/// Quantities that cannot be read; nothing else can be said about a pod that has them.
pub(crate) fn quantities(pod: &mut Pod) -> Findings {
    let mut check = Checker::default();
    defaults::each_quantity(pod, &mut |at, _, text| {
        if let Err(error) = Quantity::parse(&text.0) {
            check.invalid(at, text.0.as_str(), &error.to_string());
        }
    });
    check.finish()
}

/// Checks the name, namespace, labels and annotations of any object.
pub(crate) fn object_metadata(metadata: &ObjectMeta, check: &mut Checker) {
    metadata::check(metadata, check);
}

/// Everything wrong with a defaulted pod that has its identity.
pub(crate) fn pod(pod: &Pod, rules: Rules) -> Findings {
    let mut check = Checker::default();
    let empty = PodSpec::default();
    let context = Context::new(pod.spec.as_ref().unwrap_or(&empty), rules);
    metadata::check(&pod.metadata, &mut check);
    annotations::check(pod.metadata.annotations.as_ref(), &context, &mut check);
    volumes::check(&context, pod.metadata.name.as_deref().unwrap_or_default(), &mut check);
    containers::check(&context, &mut check);
    resources::check_pod(&context, &mut check);
    security::check_pod(&context, &mut check);
    windows::check(&context, &mut check);
    dns::check(&context, &mut check);
    scheduling::check(&context, &mut check);
    affinity::check(context.spec, &mut check);
    rest(context.spec, &mut check);
    check.finish()
}

/// Single fields of the spec that belong to no larger topic.
fn rest(spec: &PodSpec, check: &mut Checker) {
    let at = Path::root().field("spec");
    let restart_policy = spec.restart_policy.as_deref().unwrap_or_default();
    check.one_of(&at.field("restartPolicy"), restart_policy, &["Always", "OnFailure", "Never"]);
    if let Some(seconds) = spec.active_deadline_seconds {
        check.in_range(&at.field("activeDeadlineSeconds"), seconds, 1, i64::from(i32::MAX));
    }
    for (field, name) in [
        ("serviceAccountName", &spec.service_account_name),
        ("nodeName", &spec.node_name),
        ("priorityClassName", &spec.priority_class_name),
    ] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            check.format(&at.field(field), name, formats::dns_subdomain(name));
        }
    }
    if let Some(name) = &spec.runtime_class_name {
        check.format(&at.field("runtimeClassName"), name, formats::dns_subdomain(name));
    }
    if let Some(policy) = spec.preemption_policy.as_deref() {
        check.one_of(&at.field("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    if !spec.ephemeral_containers.as_deref().unwrap_or_default().is_empty() {
        check.forbidden(&at.field("ephemeralContainers"), "cannot be set on create");
    }
    for (at, gate) in at.field("readinessGates").items(spec.readiness_gates.as_deref().unwrap_or_default()) {
        let name = gate.condition_type.as_str();
        check.format(&at.field("conditionType"), name, formats::qualified_name(name));
    }
}

#[cfg(test)]
mod tests;
