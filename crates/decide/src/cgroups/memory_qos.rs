//! Protection of requested memory, and throttling of containers before they reach their memory limit (gate `MemoryQoS`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::{CgroupLimits, MemoryQos, MemoryReservation, NodeSettings, Pod};

use super::qos_cgroups::QosRequests;
use crate::pod_resources::qos::{QosClass, pod_qos_class};
use crate::pod_resources::resources::ResourceTotals;
use crate::quantity::amount_in;

const MIN: &str = "memory.min";
const LOW: &str = "memory.low";
const HIGH: &str = "memory.high";

/// Cgroup v2 settings of a container.
pub fn container_settings(
    pod: &Pod,
    container: &Container,
    settings: &NodeSettings,
) -> BTreeMap<String, String> {
    let Some(qos) = settings.cgroups.memory_qos else { return BTreeMap::new() };
    let own = container.resources.as_ref();
    let request = amount_in(own.and_then(|own| own.requests.as_ref()), "memory").units();
    let limit = amount_in(own.and_then(|own| own.limits.as_ref()), "memory").units();
    let mut found: Vec<(&str, i64)> = match qos.reservation {
        MemoryReservation::Tiered if request > 0 => match pod_qos_class(pod) {
            QosClass::Guaranteed => vec![(MIN, request)],
            QosClass::Burstable | QosClass::BestEffort => vec![(LOW, request)],
        },
        MemoryReservation::Tiered | MemoryReservation::None => vec![(MIN, 0), (LOW, 0)],
    };
    if request != limit {
        let bound = if limit > 0 { limit } else { pods_memory(settings) };
        let high = throttling_bound(request, bound, qos);
        found.extend((high > request).then_some((HIGH, high)));
    }
    found.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.to_string())).collect()
}

/// `memory.min` and `memory.low` of a pod's cgroup.
pub(super) fn pod_protection(
    pod: &Pod,
    requests: &ResourceTotals,
    settings: &NodeSettings,
) -> (Option<i64>, Option<i64>) {
    let request = requests.get("memory").copied().unwrap_or_default().units();
    match settings.cgroups.memory_qos.map(|qos| qos.reservation) {
        Some(MemoryReservation::Tiered) if request > 0 => match pod_qos_class(pod) {
            QosClass::Guaranteed => (Some(request), None),
            QosClass::Burstable | QosClass::BestEffort => (None, Some(request)),
        },
        Some(MemoryReservation::Tiered | MemoryReservation::None) | None => (None, None),
    }
}

/// Protection in the cgroups of all pods and of Burstable pods. A cgroup protects only as much as its parents do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosProtection {
    pub all: CgroupLimits,
    pub burstable: CgroupLimits,
    /// Protected memory of the Guaranteed pods.
    pub guaranteed_bytes: i64,
    /// Protected memory of the Burstable pods.
    pub burstable_bytes: i64,
}

/// The protection; `None` without the gate, which leaves earlier values unchanged.
pub fn qos_protection(requests: QosRequests, settings: &NodeSettings) -> Option<QosProtection> {
    let (guaranteed_bytes, burstable_bytes) = match settings.cgroups.memory_qos?.reservation {
        MemoryReservation::Tiered => (requests.guaranteed_memory, requests.burstable_memory),
        MemoryReservation::None => (0, 0),
    };
    let min = guaranteed_bytes.saturating_add(burstable_bytes);
    Some(QosProtection {
        all: CgroupLimits { memory_min: Some(min), ..CgroupLimits::default() },
        burstable: CgroupLimits { memory_low: Some(burstable_bytes), ..CgroupLimits::default() },
        guaranteed_bytes,
        burstable_bytes,
    })
}

/// Memory for all pods: the capacity without the reservations.
pub(super) fn pods_memory(settings: &NodeSettings) -> i64 {
    let resources = &settings.resources;
    let of = |amounts: &model::ResourceAmounts| amounts.get("memory").copied().unwrap_or_default();
    of(&resources.capacity) - of(&resources.kube_reserved) - of(&resources.system_reserved)
}

/// Where the kernel begins to throttle: a share of the way from the request to the bound, in whole pages.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "upstream's arithmetic, whose result must be equal"
)]
fn throttling_bound(request: i64, bound: i64, qos: MemoryQos) -> i64 {
    let exact = request as f64 + (bound as f64 - request as f64) * qos.throttling_factor;
    let page = qos.page_size.max(1);
    exact.floor() as i64 / page * page
}

#[cfg(test)]
mod tests;
