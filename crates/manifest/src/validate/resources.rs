//! Rules for requests and limits of containers and pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use values::quantity::Quantity;

use super::checker::Checker;
use super::{Context, formats};
use crate::defaults;
use crate::path::Path;

type ResourceList = BTreeMap<String, QuantityText>;

/// Where the resources are specified.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Container,
    Pod,
}

pub(super) fn check_container(
    resources: Option<&ResourceRequirements>,
    context: &Context<'_>,
    path: &Path,
    checker: &mut Checker,
) {
    if let Some(resources) = resources {
        check_requirements(resources, Owner::Container, path, checker);
        check_container_claims(
            resources.claims.as_deref().unwrap_or_default(),
            context,
            &path.field("claims"),
            checker,
        );
    }
}

/// Checks the pod-level resources, the overhead and the resource claims.
pub(super) fn check_pod(context: &Context<'_>, checker: &mut Checker) {
    let path = Path::root().field("spec");
    if let Some(overhead) = &context.spec.overhead {
        let overhead =
            ResourceRequirements { limits: Some(overhead.clone()), ..ResourceRequirements::default() };
        check_requirements(&overhead, Owner::Container, &path.field("overhead"), checker);
    }
    check_pod_claims(context, &path.field("resourceClaims"), checker);
    let Some(resources) = &context.spec.resources else { return };
    let path = path.field("resources");
    if context.os() == Some("windows") {
        return checker.forbidden(&path, "may not be set for a windows pod");
    }
    if resources.claims.is_some() {
        checker.forbidden(&path.field("claims"), "claims may not be set for resources at pod level");
    }
    check_requirements(resources, Owner::Pod, &path, checker);
    check_pod_covers_containers(resources, context, &path, checker);
}

fn check_requirements(resources: &ResourceRequirements, owner: Owner, path: &Path, checker: &mut Checker) {
    let (limits, requests) = (parsed(resources.limits.as_ref()), parsed(resources.requests.as_ref()));
    for (field, list) in [("limits", &limits), ("requests", &requests)] {
        for (name, quantity) in list {
            let path = path.field(field).key(name);
            check_resource_name(name, owner, &path, checker);
            check_amount(name, quantity, &path, checker);
        }
    }
    for (name, request) in &requests {
        let can_overcommit = is_native(name) && !is_huge_page(name);
        let request_path = path.field("requests").key(name);
        match limits.get(name) {
            Some(limit) if request != limit && !can_overcommit => {
                let detail = format!("must be equal to {name} limit of {limit}");
                checker.invalid(&request_path, request.to_string(), &detail);
            }
            Some(limit) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                checker.invalid(&request_path, request.to_string(), &detail);
            }
            Some(_) => {}
            None if can_overcommit => {}
            None => {
                let detail = format!("a limit must be set for {name}, which cannot be overcommitted");
                checker.required(&path.field("limits"), &detail);
            }
        }
    }
    let mut names = limits.keys().chain(requests.keys());
    let has_compute = names.clone().any(|name| matches!(name.as_str(), "cpu" | "memory"));
    if !has_compute && names.any(|name| is_huge_page(name)) {
        checker.forbidden(path, "HugePages require cpu or memory");
    }
}

fn check_amount(name: &str, quantity: &Quantity, path: &Path, checker: &mut Checker) {
    if quantity.is_negative() {
        checker.invalid(path, quantity.to_string(), "must be greater than or equal to 0");
    }
    if !is_native(name) && !quantity.is_whole() {
        checker.invalid(path, quantity.to_string(), "must be an integer");
    }
    if let Some(size) = name.strip_prefix("hugepages-") {
        let size = Quantity::parse_trimmed(size).ok().filter(|size| size.is_whole() && size.is_positive());
        if size.is_none_or(|size| quantity.value() % size.value() != 0) {
            let detail = format!("must be a whole multiple of the page size of {name}");
            checker.invalid(path, quantity.to_string(), &detail);
        }
    }
}

fn check_resource_name(name: &str, owner: Owner, path: &Path, checker: &mut Checker) {
    if let Some(message) = formats::qualified_name(name) {
        return checker.invalid(path, name, &message);
    }
    let is_compute = matches!(name, "cpu" | "memory") || is_huge_page(name);
    match owner {
        Owner::Pod if !is_compute => checker.unsupported(path, name, &["cpu", "hugepages-", "memory"]),
        Owner::Container if !name.contains('/') && !is_compute && name != "ephemeral-storage" => {
            checker.invalid(path, name, "must be a standard resource for containers");
        }
        Owner::Container if !is_native(name) && !is_extended(name) => {
            checker.invalid(path, name, "doesn't follow extended resource name standard");
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

fn check_pod_covers_containers(
    resources: &ResourceRequirements,
    context: &Context<'_>,
    path: &Path,
    checker: &mut Checker,
) {
    let (limits, requests) = (parsed(resources.limits.as_ref()), parsed(resources.requests.as_ref()));
    for (name, needed) in defaults::aggregate(context.spec, |resources| resources.requests.as_ref()) {
        let needed = needed.quantity;
        if let Some(request) = requests.get(&name).filter(|request| needed > **request) {
            let detail = format!("must be greater than or equal to aggregate container requests of {needed}");
            checker.invalid(&path.field("requests").key(&name), request.to_string(), &detail);
        }
    }
    for (name, needed) in defaults::aggregate(context.spec, |resources| resources.limits.as_ref()) {
        let needed = needed.quantity;
        if let Some(limit) = limits.get(&name).filter(|limit| is_huge_page(&name) && needed > **limit) {
            let detail = format!("must be greater than or equal to aggregate container limits of {needed}");
            checker.invalid(&path.field("limits").key(&name), limit.to_string(), &detail);
        }
    }
    let containers = Path::root().field("spec.containers");
    for (path, container) in containers.items(&context.spec.containers) {
        let container_limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        for (name, container_limit) in parsed(container_limits) {
            if let Some(limit) = limits.get(&name).filter(|limit| container_limit > **limit) {
                let detail = format!("must be less than or equal to pod limits of {limit}");
                checker.invalid(
                    &path.field("resources.limits").key(&name),
                    container_limit.to_string(),
                    &detail,
                );
            }
        }
    }
}

fn check_container_claims(
    claims: &[ResourceClaim],
    context: &Context<'_>,
    path: &Path,
    checker: &mut Checker,
) {
    let mut seen = BTreeSet::new();
    for (path, claim) in path.items(claims) {
        let name = claim.name.as_str();
        if !checker.require_text(&path.field("name"), name) {
            continue;
        }
        let request = claim.request.as_deref().unwrap_or_default();
        if !request.is_empty() {
            checker.format(&path.field("request"), request, formats::dns_label(request));
        }
        let overlaps = |other: &(&str, &str)| {
            other.0 == name && (other.1 == request || other.1.is_empty() || request.is_empty())
        };
        if seen.iter().any(overlaps) {
            checker.duplicate(&path, name);
        }
        seen.insert((name, request));
        if !context.claims.contains(name) {
            checker.not_found(&path.field("name"), name);
        }
    }
}

fn check_pod_claims(context: &Context<'_>, path: &Path, checker: &mut Checker) {
    let mut names = BTreeSet::new();
    for (path, claim) in path.items(context.spec.resource_claims.as_deref().unwrap_or_default()) {
        if checker.require_text(&path.field("name"), &claim.name) {
            checker.format(&path.field("name"), &claim.name, formats::dns_label(&claim.name));
            if !names.insert(&claim.name) {
                checker.duplicate(&path.field("name"), &claim.name);
            }
        }
        let sources = [
            ("resourceClaimName", &claim.resource_claim_name),
            ("resourceClaimTemplateName", &claim.resource_claim_template_name),
        ];
        for (field, name) in sources {
            if let Some(name) = name {
                checker.format(&path.field(field), name, formats::dns_subdomain(name));
            }
        }
        if claim.resource_claim_name.is_some() == claim.resource_claim_template_name.is_some() {
            let detail = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`";
            checker.invalid(&path, claim.name.as_str(), detail);
        }
    }
}

fn parsed(list: Option<&ResourceList>) -> BTreeMap<String, Quantity> {
    let entries = list.into_iter().flatten();
    entries.filter_map(|(name, text)| Some((name.clone(), Quantity::parse_trimmed(&text.0).ok()?))).collect()
}
