//! QoS classes of pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use model::Pod;
use values::quantity::Amount;

use crate::quantity::{ResourceList, amount_in};

/// Resources that determine the class.
const COMPUTE_RESOURCES: [&str; 2] = ["cpu", "memory"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QosClass {
    /// Limits and requests of all containers are set and equal.
    Guaranteed,
    Burstable,
    /// No requests and no limits.
    BestEffort,
}

impl QosClass {
    /// The value of `status.qosClass`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// The class in the pod's status, or the one that its spec implies.
pub fn pod_qos_class(pod: &Pod) -> QosClass {
    match pod.status.qos_class.as_deref() {
        Some("Guaranteed") => QosClass::Guaranteed,
        Some("Burstable") => QosClass::Burstable,
        Some("BestEffort") => QosClass::BestEffort,
        _ => qos_class(&pod.spec),
    }
}

/// The class a spec implies. Pod-level resources, where given, replace those of the containers.
pub fn qos_class(spec: &PodSpec) -> QosClass {
    let parts: Vec<Option<&ResourceRequirements>> = match &spec.resources {
        Some(pod_level) => vec![Some(pod_level)],
        None => {
            let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
            containers.map(|container| container.resources.as_ref()).collect()
        }
    };
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let mut is_fully_limited = true;
    for part in parts {
        let limits_of_part = part.and_then(|part| part.limits.as_ref());
        add(&mut requests, part.and_then(|part| part.requests.as_ref()));
        add(&mut limits, limits_of_part);
        is_fully_limited &=
            COMPUTE_RESOURCES.iter().all(|name| amount_in(limits_of_part, name).is_positive());
    }
    // Missing limits at pod level are not a reason against Guaranteed; the comparison below handles them.
    let pod_level = spec.resources.as_ref();
    is_fully_limited |= pod_level.is_some_and(|own| own.limits.as_ref().is_none_or(BTreeMap::is_empty));
    if requests.is_empty() && limits.is_empty() {
        QosClass::BestEffort
    } else if is_fully_limited && requests == limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

fn add(totals: &mut BTreeMap<&'static str, Amount>, list: Option<&ResourceList>) {
    for name in COMPUTE_RESOURCES {
        let amount = amount_in(list, name);
        if amount.is_positive() {
            let total = totals.entry(name).or_default();
            *total = *total + amount;
        }
    }
}

#[cfg(test)]
mod tests;
