//! QoS classes of pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
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
    let mut totals = Totals::default();
    let is_fully_limited = match &spec.resources {
        Some(pod_level) => {
            totals.add_requests(pod_level.requests.as_ref());
            // Missing limits are not a reason against Guaranteed here; the comparison below handles them.
            totals.add_limits(pod_level.limits.as_ref())
                || pod_level.limits.as_ref().is_none_or(BTreeMap::is_empty)
        }
        None => {
            let mut all = true;
            for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
                let resources = container.resources.as_ref();
                totals.add_requests(resources.and_then(|resources| resources.requests.as_ref()));
                all &= totals.add_limits(resources.and_then(|resources| resources.limits.as_ref()));
            }
            all
        }
    };
    if totals.requests.is_empty() && totals.limits.is_empty() {
        QosClass::BestEffort
    } else if is_fully_limited && totals.requests == totals.limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

#[derive(Default)]
struct Totals {
    requests: BTreeMap<&'static str, Amount>,
    limits: BTreeMap<&'static str, Amount>,
}

impl Totals {
    fn add_requests(&mut self, list: Option<&ResourceList>) {
        add(&mut self.requests, list);
    }

    /// Adds limits. Returns whether every compute resource has one.
    fn add_limits(&mut self, list: Option<&ResourceList>) -> bool {
        add(&mut self.limits, list);
        COMPUTE_RESOURCES.iter().all(|name| amount_in(list, name).is_positive())
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
