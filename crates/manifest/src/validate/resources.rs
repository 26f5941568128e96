//! Rules for requests and limits of containers and pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use values::quantity::Quantity;

use super::field::Field;
use super::{Context, formats};
use crate::defaults;

type ResourceList = BTreeMap<String, QuantityText>;

/// Where the resources are specified.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Container,
    Pod,
}

pub(super) fn check_container(resources: &ResourceRequirements, context: &Context<'_>, at: &Field<'_>) {
    check_requirements(resources, Owner::Container, at);
    at.if_set("claims", &resources.claims, |claims, at| check_container_claims(claims, context, at));
}

/// Checks the pod-level resources, the overhead and the resource claims.
pub(super) fn check_pod(context: &Context<'_>) {
    let at = context.spec_field();
    if let Some(overhead) = &context.spec.overhead {
        let overhead =
            ResourceRequirements { limits: Some(overhead.clone()), ..ResourceRequirements::default() };
        check_requirements(&overhead, Owner::Container, &at.field("overhead"));
    }
    check_pod_claims(context);
    let Some(resources) = &context.spec.resources else { return };
    let at = at.field("resources");
    if context.os() == Some("windows") {
        return at.forbidden("may not be set for a windows pod");
    }
    if resources.claims.is_some() {
        at.field("claims").forbidden("claims may not be set for resources at pod level");
    }
    check_requirements(resources, Owner::Pod, &at);
    check_pod_covers_containers(resources, context, &at);
}

fn check_requirements(resources: &ResourceRequirements, owner: Owner, at: &Field<'_>) {
    let (limits, requests) = (parsed(resources.limits.as_ref()), parsed(resources.requests.as_ref()));
    for (field, list) in [("limits", &limits), ("requests", &requests)] {
        for (name, quantity) in list {
            let at = at.field(field).key(name);
            check_resource_name(name, owner, &at);
            check_amount(name, quantity, &at);
        }
    }
    for (name, request) in &requests {
        let can_overcommit = is_native(name) && !is_huge_page(name);
        let request_path = at.field("requests").key(name);
        match limits.get(name) {
            Some(limit) if request != limit && !can_overcommit => {
                let detail = format!("must be equal to {name} limit of {limit}");
                request_path.invalid(request.to_string(), &detail);
            }
            Some(limit) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                request_path.invalid(request.to_string(), &detail);
            }
            Some(_) => {}
            None if can_overcommit => {}
            None => {
                let detail = format!("a limit must be set for {name}, which cannot be overcommitted");
                at.field("limits").required(&detail);
            }
        }
    }
    let mut names = limits.keys().chain(requests.keys());
    let has_compute = names.clone().any(|name| matches!(name.as_str(), "cpu" | "memory"));
    if !has_compute && names.any(|name| is_huge_page(name)) {
        at.forbidden("HugePages require cpu or memory");
    }
}

fn check_amount(name: &str, quantity: &Quantity, at: &Field<'_>) {
    if quantity.is_negative() {
        at.invalid(quantity.to_string(), "must be greater than or equal to 0");
    }
    if !is_native(name) && !quantity.is_whole() {
        at.invalid(quantity.to_string(), "must be an integer");
    }
    if let Some(size) = name.strip_prefix("hugepages-") {
        let size = Quantity::parse_trimmed(size).ok().filter(|size| size.is_whole() && size.is_positive());
        if size.is_none_or(|size| quantity.value() % size.value() != 0) {
            let detail = format!("must be a whole multiple of the page size of {name}");
            at.invalid(quantity.to_string(), &detail);
        }
    }
}

fn check_resource_name(name: &str, owner: Owner, at: &Field<'_>) {
    if let Some(message) = formats::qualified_name(name) {
        return at.invalid(name, &message);
    }
    let is_compute = matches!(name, "cpu" | "memory") || is_huge_page(name);
    match owner {
        Owner::Pod if !is_compute => at.unsupported(name, &["cpu", "hugepages-", "memory"]),
        Owner::Container if !name.contains('/') && !is_compute && name != "ephemeral-storage" => {
            at.invalid(name, "must be a standard resource for containers");
        }
        Owner::Container if !is_native(name) && !is_extended(name) => {
            at.invalid(name, "doesn't follow extended resource name standard");
        }
        Owner::Pod | Owner::Container => {}
    }
}

/// Whether a name has no domain or a kubernetes.io domain.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !name.starts_with("requests.") && formats::qualified_name(&format!("requests.{name}")).is_none()
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn check_pod_covers_containers(resources: &ResourceRequirements, context: &Context<'_>, at: &Field<'_>) {
    let (limits, requests) = (parsed(resources.limits.as_ref()), parsed(resources.requests.as_ref()));
    for (name, needed) in defaults::aggregate(context.spec, |resources| resources.requests.as_ref()) {
        let needed = needed.quantity;
        if let Some(request) = requests.get(&name).filter(|request| needed > **request) {
            let detail = format!("must be greater than or equal to aggregate container requests of {needed}");
            at.field("requests").key(&name).invalid(request.to_string(), &detail);
        }
    }
    for (name, needed) in defaults::aggregate(context.spec, |resources| resources.limits.as_ref()) {
        let needed = needed.quantity;
        if let Some(limit) = limits.get(&name).filter(|limit| is_huge_page(&name) && needed > **limit) {
            let detail = format!("must be greater than or equal to aggregate container limits of {needed}");
            at.field("limits").key(&name).invalid(limit.to_string(), &detail);
        }
    }
    for (at, container) in context.spec_field().field("containers").items(&context.spec.containers) {
        let container_limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        for (name, container_limit) in parsed(container_limits) {
            if let Some(limit) = limits.get(&name).filter(|limit| container_limit > **limit) {
                let detail = format!("must be less than or equal to pod limits of {limit}");
                at.field("resources.limits").key(&name).invalid(container_limit.to_string(), &detail);
            }
        }
    }
}

fn check_container_claims(claims: &[ResourceClaim], context: &Context<'_>, at: &Field<'_>) {
    let mut seen = BTreeSet::new();
    for (at, claim) in at.items(claims) {
        let name = claim.name.as_str();
        if !at.field("name").require(name) {
            continue;
        }
        at.field("request").empty_or_format(&claim.request, formats::dns_label);
        let request = claim.request.as_deref().unwrap_or_default();
        let overlaps = |other: &(&str, &str)| {
            other.0 == name && (other.1 == request || other.1.is_empty() || request.is_empty())
        };
        if seen.iter().any(overlaps) {
            at.duplicate(name);
        }
        seen.insert((name, request));
        if !context.claims.contains(name) {
            at.field("name").not_found(name);
        }
    }
}

fn check_pod_claims(context: &Context<'_>) {
    let mut names = BTreeSet::new();
    for (at, claim) in context.spec_field().list("resourceClaims", &context.spec.resource_claims) {
        if at.field("name").require(&claim.name) {
            at.field("name").format(&claim.name, formats::dns_label);
            if !names.insert(&claim.name) {
                at.field("name").duplicate(&claim.name);
            }
        }
        let sources = [
            ("resourceClaimName", &claim.resource_claim_name),
            ("resourceClaimTemplateName", &claim.resource_claim_template_name),
        ];
        for (field, name) in sources {
            if let Some(name) = name {
                at.field(field).format(name, formats::dns_subdomain);
            }
        }
        if claim.resource_claim_name.is_some() == claim.resource_claim_template_name.is_some() {
            let detail = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`";
            at.invalid(claim.name.as_str(), detail);
        }
    }
}

fn parsed(list: Option<&ResourceList>) -> BTreeMap<String, Quantity> {
    let entries = list.into_iter().flatten();
    entries.filter_map(|(name, text)| Some((name.clone(), Quantity::parse_trimmed(&text.0).ok()?))).collect()
}
