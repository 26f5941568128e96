//! What is reported about a pod: a pure function of spec, observation, worker and the last report.

mod conditions;
mod containers;
mod phase;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};
use model::{ObservedPod, Pod, Timestamp, WorkerPhase, WorkerView};

use crate::qos::qos_class;

pub use phase::{Phase, phase};

/// Everything a status is made of.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What the runtime holds.
    pub observed: Option<&'a ObservedPod>,
    /// How far its worker is.
    pub worker: Option<&'a WorkerView>,
    /// What was reported last.
    pub previous: Option<&'a PodStatus>,
    /// The node's addresses, the primary one first.
    pub host_addresses: &'a [IpAddr],
    /// Name of the runtime, which prefixes container ids.
    pub runtime_name: &'a str,
    /// Now.
    pub now: Timestamp,
}

/// The status to report.
#[must_use]
pub fn pod_status(facts: &Facts<'_>) -> PodStatus {
    let pod = facts.pod;
    let (init, regular) = containers::container_statuses(facts);
    let mut status = PodStatus {
        host_ip: facts.host_addresses.first().map(ToString::to_string),
        host_ips: (!facts.host_addresses.is_empty())
            .then(|| facts.host_addresses.iter().map(|ip| HostIP { ip: ip.to_string() }).collect()),
        qos_class: Some(qos_class(&pod.spec).as_str().to_owned()),
        start_time: Some(
            facts
                .previous
                .and_then(|previous| previous.start_time.clone())
                .unwrap_or_else(|| facts.now.to_api_time()),
        ),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    };
    let ips = pod_ips(facts);
    status.pod_ip = ips.first().cloned();
    status.pod_ips = (!ips.is_empty()).then(|| ips.into_iter().map(|ip| PodIP { ip }).collect());

    let ending = facts.worker.is_some_and(|worker| worker.phase > WorkerPhase::Syncing);
    let computed = phase(pod, &init, &regular, ending && !still_alive(facts));
    let phase = if ending { sticky(facts.previous, computed) } else { computed };
    status.phase = Some(phase.as_str().to_owned());
    if let Some(rejection) = facts.worker.and_then(|worker| worker.rejection.as_ref()) {
        status.phase = Some(Phase::Failed.as_str().to_owned());
        status.reason = Some(rejection.reason.clone());
        status.message = Some(rejection.message.clone());
    }
    status.conditions = Some(conditions::conditions(facts, &status, &init, &regular));
    status.init_container_statuses = (!init.is_empty()).then_some(init);
    status.container_statuses = (!regular.is_empty()).then_some(regular);
    status
}

/// A pod that reached its end stays there; only a new worker for the same UID begins anew.
fn sticky(previous: Option<&PodStatus>, computed: Phase) -> Phase {
    match previous.and_then(|status| status.phase.as_deref()) {
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => computed,
    }
}

fn still_alive(facts: &Facts<'_>) -> bool {
    facts.observed.is_some_and(|observed| observed.running().next().is_some())
}

fn pod_ips(facts: &Facts<'_>) -> Vec<String> {
    if facts.pod.is_host_network() {
        return facts.host_addresses.iter().map(ToString::to_string).collect();
    }
    let observed = facts.observed.map(ObservedPod::ips).unwrap_or_default();
    if !observed.is_empty() {
        return observed.to_vec();
    }
    // A stopped pod keeps showing the address it had.
    facts
        .previous
        .and_then(|previous| previous.pod_ips.as_ref())
        .map(|ips| ips.iter().map(|ip| ip.ip.clone()).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
