//! What containers and the pod were given, in the API's quantities.

use k8s_openapi::api::core::v1::{Container, ContainerStatus as ApiStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::{ContainerState, ContainerStatus, LinuxResources, Pod};

use crate::quantity::{Amount, ResourceList, text};
use crate::resources::{MIN_CPU_SHARES, Totals, pod_limits, pod_requests as request_totals};

/// The least CPU limit the kernel can hold, in thousandths.
const MIN_MILLI_CPU_LIMIT: i64 = 10;

/// What a container has: what the spec grants, and for a running one what the runtime says is in force.
pub(super) fn container_resources(
    container: &Container,
    status: &ContainerStatus,
    old: Option<&ApiStatus>,
) -> ResourceRequirements {
    let mut resources = container.resources.clone().unwrap_or_default();
    if status.state != ContainerState::Running {
        return resources;
    }
    let in_force = status.resources.as_ref();
    let old = old.filter(|old| old.state.as_ref().is_some_and(|state| state.running.is_some()));
    let old = old
        .filter(|old| old.container_id.as_deref().is_some_and(|id| id.ends_with(status.id.as_str())))
        .and_then(|old| old.resources.as_ref());
    if let Some(limits) = &mut resources.limits {
        let old = old.and_then(|old| old.limits.as_ref());
        match in_force.and_then(cpu_limit) {
            Some(milli) => replace_cpu(limits, milli, MIN_MILLI_CPU_LIMIT),
            None => keep(limits, old, "cpu"),
        }
        match in_force.map(|resources| resources.memory_limit_bytes).filter(|bytes| *bytes > 0) {
            Some(bytes) => {
                limits.insert("memory".to_owned(), Quantity(text::binary(bytes)));
            }
            None => keep(limits, old, "memory"),
        }
    }
    if let Some(requests) = &mut resources.requests {
        let old = old.and_then(|old| old.requests.as_ref());
        match in_force.and_then(cpu_request) {
            Some(milli) => replace_cpu(requests, milli, MIN_CPU_SHARES),
            None => keep(requests, old, "cpu"),
        }
        keep(requests, old, "memory");
    }
    resources
}

/// What the pod asks for in all.
pub(super) fn pod_requests(pod: &Pod) -> Option<ResourceList> {
    let mut list = quantities(pod, &request_totals(pod), |resources| resources.requests.as_ref());
    // What containers do not ask for is held all the same.
    for (name, quantity) in pod.spec.overhead.iter().flatten() {
        list.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
    (!list.is_empty()).then_some(list)
}

/// What the pod asks for and may have in all.
pub(super) fn pod_resources(pod: &Pod) -> ResourceRequirements {
    let limits = quantities(pod, &pod_limits(pod), |resources| resources.limits.as_ref());
    ResourceRequirements {
        requests: pod_requests(pod),
        limits: (!limits.is_empty()).then_some(limits),
        claims: pod.spec.resources.as_ref().and_then(|resources| resources.claims.clone()),
    }
}

type ListOf = fn(&ResourceRequirements) -> Option<&ResourceList>;

/// Totals with overhead, written as the first of the quantities they are made of.
fn quantities(pod: &Pod, totals: &Totals, list_of: ListOf) -> ResourceList {
    let spec = &pod.spec;
    let of_containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let parts: Vec<&ResourceList> = spec
        .resources
        .iter()
        .chain(of_containers.filter_map(|container| container.resources.as_ref()))
        .filter_map(list_of)
        .collect();
    let write = |(name, total): (&String, &Amount)| {
        let total = *total + Amount::in_list(spec.overhead.as_ref(), name);
        let texts = || parts.iter().filter_map(|list| list.get(name));
        let same = texts().find(|quantity| Amount::of(quantity) == total);
        let is_binary = texts()
            .find(|quantity| !Amount::of(quantity).is_zero())
            .is_some_and(|first| first.0.ends_with('i'));
        let text = match same {
            Some(quantity) => quantity.0.clone(),
            None if is_binary => text::binary(total.units()),
            None => decimal(total.milli()),
        };
        (name.clone(), Quantity(text))
    };
    totals.iter().map(write).collect()
}

fn cpu_limit(resources: &LinuxResources) -> Option<i64> {
    let LinuxResources { cpu_quota, cpu_period, .. } = resources;
    let milli = cpu_quota.saturating_mul(1000).checked_div(*cpu_period)?;
    (*cpu_period > 0 && milli > 0).then_some(milli)
}

fn cpu_request(resources: &LinuxResources) -> Option<i64> {
    let shares = resources.cpu_shares;
    // Rounded up, as the shares were rounded down.
    (shares >= MIN_CPU_SHARES).then(|| shares.saturating_mul(1000).saturating_add(1023) / 1024)
}

/// Below what the kernel can tell apart, the granted value is the truth.
fn replace_cpu(list: &mut ResourceList, milli: i64, least: i64) {
    if milli > least || Amount::in_list(Some(list), "cpu").milli() > least {
        list.insert("cpu".to_owned(), Quantity(decimal(milli)));
    }
}

fn keep(list: &mut ResourceList, old: Option<&ResourceList>, name: &str) {
    if let Some(quantity) = old.and_then(|old| old.get(name)) {
        list.insert(name.to_owned(), quantity.clone());
    }
}

/// Thousandths with the largest decimal suffix that loses nothing.
fn decimal(milli: i64) -> String {
    if milli % 1000 != 0 {
        return format!("{milli}m");
    }
    text::decimal(milli / 1000)
}
