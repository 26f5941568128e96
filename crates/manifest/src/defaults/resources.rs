//! Default requests of containers and of the whole pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use values::quantity::Quantity;

use crate::static_uid::text_of_sum;

type ResourceList = BTreeMap<String, QuantityText>;

/// Sets missing requests to the limit.
pub(super) fn default_requests_to_limits(container: &mut Container) {
    let Some(resources) = container.resources.as_mut() else { return };
    let Some(limits) = resources.limits.as_ref() else { return };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

/// Sets the pod-level requests and huge page limits if the pod has pod-level resources.
pub(super) fn default_pod_level_resources(spec: &mut PodSpec) {
    let Some(mut pod_level) = spec.resources.take() else { return };
    default_huge_page_limits(&mut pod_level, spec);
    default_pod_requests(&mut pod_level, spec);
    spec.resources = Some(pod_level);
}

fn default_huge_page_limits(pod_level: &mut ResourceRequirements, spec: &PodSpec) {
    let is_empty = |list: &Option<ResourceList>| list.as_ref().is_none_or(BTreeMap::is_empty);
    if is_empty(&pod_level.limits) && is_empty(&pod_level.requests) {
        return;
    }
    let needed = aggregate(spec, |resources| resources.limits.as_ref());
    for (name, quantity) in needed {
        let is_requested = pod_level.requests.as_ref().is_some_and(|requests| requests.contains_key(&name));
        if is_huge_page(&name) && !is_requested {
            let limits = pod_level.limits.get_or_insert_default();
            limits.entry(name).or_insert(quantity.text);
        }
    }
}

fn default_pod_requests(pod_level: &mut ResourceRequirements, spec: &PodSpec) {
    let Some(limits) = pod_level.limits.clone().filter(|limits| !limits.is_empty()) else { return };
    let mut requests = pod_level.requests.clone().unwrap_or_default();
    for (name, quantity) in aggregate(spec, |resources| resources.requests.as_ref()) {
        if matches!(name.as_str(), "cpu" | "memory") {
            requests.entry(name).or_insert(quantity.text);
        }
    }
    for (name, limit) in limits {
        if is_pod_level(&name) {
            requests.entry(name).or_insert(limit);
        }
    }
    if !requests.is_empty() {
        pod_level.requests = Some(requests);
    }
}

/// A quantity together with its text.
#[derive(Clone)]
pub(crate) struct Amount {
    /// The parsed value.
    pub(crate) quantity: Quantity,
    /// The text of the manifest, or a computed text for a sum.
    pub(crate) text: QuantityText,
}

type Amounts = BTreeMap<String, Amount>;

/// The resources that all containers need together: the maximum of the regular containers with all sidecars, and of each
/// init container with the sidecars before it.
pub(crate) fn aggregate(
    spec: &PodSpec,
    list: impl Fn(&ResourceRequirements) -> Option<&ResourceList>,
) -> Amounts {
    let amounts_of = |container: &Container| amounts(container.resources.as_ref().and_then(&list));
    let mut running = BTreeMap::new();
    for container in &spec.containers {
        add(&mut running, &amounts_of(container));
    }
    let mut sidecars = BTreeMap::new();
    let mut peak = BTreeMap::new();
    for container in spec.init_containers.iter().flatten() {
        let mut needed = amounts_of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut running, &needed);
            add(&mut sidecars, &needed);
            needed.clone_from(&sidecars);
        } else {
            add(&mut needed, &sidecars);
        }
        raise_to(&mut peak, &needed);
    }
    raise_to(&mut running, &peak);
    running
}

fn amounts(list: Option<&ResourceList>) -> Amounts {
    let parsed = list.into_iter().flatten().filter_map(|(name, text)| {
        let quantity = Quantity::parse_trimmed(&text.0).ok()?;
        Some((name.clone(), Amount { quantity, text: text.clone() }))
    });
    parsed.collect()
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = match total.get(name) {
            None => amount.clone(),
            Some(value) => {
                let quantity = &value.quantity + &amount.quantity;
                Amount { text: QuantityText(text_of_sum(&quantity)), quantity }
            }
        };
        total.insert(name.clone(), sum);
    }
}

fn raise_to(maximum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if maximum.get(name).is_none_or(|value| amount.quantity > value.quantity) {
            maximum.insert(name.clone(), amount.clone());
        }
    }
}

fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}
