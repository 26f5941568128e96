//! Quality of service: how a pod ranks when the node runs short.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use model::Pod;

use crate::quantity::{Amount, ResourceList};

/// Resources that count for the class.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// A pod's quality of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QosClass {
    /// Every container's limits equal its requests.
    Guaranteed,
    /// Something is requested or limited.
    Burstable,
    /// Nothing is requested.
    BestEffort,
}

impl QosClass {
    /// The word of `status.qosClass`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// The class of a pod: what its status says already, else what its spec implies.
#[must_use]
pub fn pod_qos_class(pod: &Pod) -> QosClass {
    match pod.status.qos_class.as_deref() {
        Some("Guaranteed") => QosClass::Guaranteed,
        Some("Burstable") => QosClass::Burstable,
        Some("BestEffort") => QosClass::BestEffort,
        _ => qos_class(&pod.spec),
    }
}

/// The class a spec implies. Pod-level resources, where given, replace those of the containers.
#[must_use]
pub fn qos_class(spec: &PodSpec) -> QosClass {
    let mut totals = Totals::default();
    let is_fully_limited = match &spec.resources {
        Some(pod_level) => {
            totals.add_requests(pod_level.requests.as_ref());
            // Absent limits do not speak against Guaranteed here; the comparison below does.
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

    /// Adds limits and says whether every compute resource had one.
    fn add_limits(&mut self, list: Option<&ResourceList>) -> bool {
        add(&mut self.limits, list);
        COMPUTE.iter().all(|name| Amount::in_list(list, name).is_positive())
    }
}

fn add(totals: &mut BTreeMap<&'static str, Amount>, list: Option<&ResourceList>) {
    for name in COMPUTE {
        let amount = Amount::in_list(list, name);
        if amount.is_positive() {
            let total = totals.entry(name).or_default();
            *total = *total + amount;
        }
    }
}

#[cfg(test)]
mod tests;
