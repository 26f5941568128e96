//! Requests and limits of containers and of the whole pod.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

use super::checker::Checker;
use super::{Context, formats};
use crate::defaults;
use crate::path::Path;
use crate::quantity::Quantity;

type ResourceList = BTreeMap<String, QuantityText>;

/// Who asks for the resources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Container,
    Pod,
}

/// Checks a container's resources.
pub(super) fn check_container(
    resources: Option<&ResourceRequirements>,
    context: &Context<'_>,
    at: &Path,
    check: &mut Checker,
) {
    if let Some(resources) = resources {
        requirements(resources, Owner::Container, at, check);
        claims(resources.claims.as_deref().unwrap_or_default(), context, &at.field("claims"), check);
    }
}

/// Checks the pod's own resources, its overhead and its claims.
pub(super) fn check_pod(context: &Context<'_>, check: &mut Checker) {
    let at = Path::root().field("spec");
    if let Some(overhead) = &context.spec.overhead {
        let overhead =
            ResourceRequirements { limits: Some(overhead.clone()), ..ResourceRequirements::default() };
        requirements(&overhead, Owner::Container, &at.field("overhead"), check);
    }
    pod_claims(context, &at.field("resourceClaims"), check);
    let Some(resources) = &context.spec.resources else { return };
    let at = at.field("resources");
    if context.os() == Some("windows") {
        return check.forbidden(&at, "may not be set for a windows pod");
    }
    if resources.claims.is_some() {
        check.forbidden(&at.field("claims"), "claims may not be set for resources at pod level");
    }
    requirements(resources, Owner::Pod, &at, check);
    pod_covers_containers(resources, context, &at, check);
}

fn requirements(resources: &ResourceRequirements, owner: Owner, at: &Path, check: &mut Checker) {
    let (limits, requests) = (parsed(resources.limits.as_ref()), parsed(resources.requests.as_ref()));
    for (field, list) in [("limits", &limits), ("requests", &requests)] {
        for (name, quantity) in list {
            let at = at.field(field).key(name);
            resource_name(name, owner, &at, check);
            amount(name, *quantity, &at, check);
        }
    }
    for (name, request) in &requests {
        let can_overcommit = is_native(name) && !is_huge_page(name);
        let at_request = at.field("requests").key(name);
        match limits.get(name) {
            Some(limit) if request != limit && !can_overcommit => {
                let detail = format!("must be equal to {name} limit of {limit}");
                check.invalid(&at_request, request.to_string(), &detail);
            }
            Some(limit) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                check.invalid(&at_request, request.to_string(), &detail);
            }
            Some(_) => {}
            None if can_overcommit => {}
            None => {
                let detail = format!("a limit must be set for {name}, which cannot be overcommitted");
                check.required(&at.field("limits"), &detail);
            }
        }
    }
    let mut names = limits.keys().chain(requests.keys());
    let has_compute = names.clone().any(|name| matches!(name.as_str(), "cpu" | "memory"));
    if !has_compute && names.any(|name| is_huge_page(name)) {
        check.forbidden(at, "HugePages require cpu or memory");
    }
}

fn amount(name: &str, quantity: Quantity, at: &Path, check: &mut Checker) {
    if quantity.is_negative() {
        check.invalid(at, quantity.to_string(), "must be greater than or equal to 0");
    }
    if !is_native(name) && !quantity.is_whole() {
        check.invalid(at, quantity.to_string(), "must be an integer");
    }
    if let Some(size) = name.strip_prefix("hugepages-") {
        let size = Quantity::parse(size).ok().filter(|size| size.is_whole() && size.nanos() > 0);
        if size.is_none_or(|size| quantity.value() % size.value() != 0) {
            let detail = format!("must be a whole multiple of the page size of {name}");
            check.invalid(at, quantity.to_string(), &detail);
        }
    }
}

fn resource_name(name: &str, owner: Owner, at: &Path, check: &mut Checker) {
    if let Some(complaint) = formats::qualified_name(name) {
        return check.invalid(at, name, &complaint);
    }
    let is_compute = matches!(name, "cpu" | "memory") || is_huge_page(name);
    match owner {
        Owner::Pod if !is_compute => check.unsupported(at, name, &["cpu", "hugepages-", "memory"]),
        Owner::Container if !name.contains('/') && !is_compute && name != "ephemeral-storage" => {
            check.invalid(at, name, "must be a standard resource for containers");
        }
        Owner::Container if !is_native(name) && !is_extended(name) => {
            check.invalid(at, name, "doesn't follow extended resource name standard");
        }
        Owner::Pod | Owner::Container => {}
    }
}

/// Names without a domain, or in a kubernetes.io domain.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !name.starts_with("requests.") && formats::qualified_name(&format!("requests.{name}")).is_none()
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn pod_covers_containers(
    resources: &ResourceRequirements,
    context: &Context<'_>,
    at: &Path,
    check: &mut Checker,
) {
    let (limits, requests) = (parsed(resources.limits.as_ref()), parsed(resources.requests.as_ref()));
    for (name, needed) in defaults::aggregate(context.spec, |resources| resources.requests.as_ref()) {
        let needed = needed.quantity;
        if let Some(request) = requests.get(&name).filter(|request| needed > **request) {
            let detail = format!("must be greater than or equal to aggregate container requests of {needed}");
            check.invalid(&at.field("requests").key(&name), request.to_string(), &detail);
        }
    }
    for (name, needed) in defaults::aggregate(context.spec, |resources| resources.limits.as_ref()) {
        let needed = needed.quantity;
        if let Some(limit) = limits.get(&name).filter(|limit| is_huge_page(&name) && needed > **limit) {
            let detail = format!("must be greater than or equal to aggregate container limits of {needed}");
            check.invalid(&at.field("limits").key(&name), limit.to_string(), &detail);
        }
    }
    let containers = Path::root().field("spec.containers");
    for (at, container) in containers.items(&context.spec.containers) {
        let own = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        for (name, own) in parsed(own) {
            if let Some(limit) = limits.get(&name).filter(|limit| own > **limit) {
                let detail = format!("must be less than or equal to pod limits of {limit}");
                check.invalid(&at.field("resources.limits").key(&name), own.to_string(), &detail);
            }
        }
    }
}

fn claims(claims: &[ResourceClaim], context: &Context<'_>, at: &Path, check: &mut Checker) {
    let mut seen = BTreeSet::new();
    for (at, claim) in at.items(claims) {
        let name = claim.name.as_str();
        if !check.require_text(&at.field("name"), name) {
            continue;
        }
        let request = claim.request.as_deref().unwrap_or_default();
        if !request.is_empty() {
            check.format(&at.field("request"), request, formats::dns_label(request));
        }
        let overlaps = |other: &(&str, &str)| {
            other.0 == name && (other.1 == request || other.1.is_empty() || request.is_empty())
        };
        if seen.iter().any(overlaps) {
            check.duplicate(&at, name);
        }
        seen.insert((name, request));
        if !context.claims.contains(name) {
            check.not_found(&at.field("name"), name);
        }
    }
}

fn pod_claims(context: &Context<'_>, at: &Path, check: &mut Checker) {
    let mut names = BTreeSet::new();
    for (at, claim) in at.items(context.spec.resource_claims.as_deref().unwrap_or_default()) {
        if check.require_text(&at.field("name"), &claim.name) {
            check.format(&at.field("name"), &claim.name, formats::dns_label(&claim.name));
            if !names.insert(&claim.name) {
                check.duplicate(&at.field("name"), &claim.name);
            }
        }
        let sources = [
            ("resourceClaimName", &claim.resource_claim_name),
            ("resourceClaimTemplateName", &claim.resource_claim_template_name),
        ];
        for (field, name) in sources {
            if let Some(name) = name {
                check.format(&at.field(field), name, formats::dns_subdomain(name));
            }
        }
        if claim.resource_claim_name.is_some() == claim.resource_claim_template_name.is_some() {
            let detail = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`";
            check.invalid(&at, claim.name.as_str(), detail);
        }
    }
}

fn parsed(list: Option<&ResourceList>) -> BTreeMap<String, Quantity> {
    let entries = list.into_iter().flatten();
    entries.filter_map(|(name, text)| Some((name.clone(), Quantity::parse(&text.0).ok()?))).collect()
}
