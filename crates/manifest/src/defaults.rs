//! The defaults that a kube-apiserver gives a v1 Pod, so that a static pod means what the same pod would in a cluster.

mod containers;
mod image_tag;
mod quantities;
mod resources;
mod volumes;

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, PodSpec};

pub(crate) use quantities::{each_quantity, ensure_divisors, publish_quantities};
pub(crate) use resources::aggregate;

const DEFAULT_GRACE_PERIOD_SECONDS: i64 = 30;

/// Fills in every default but one: quantities keep the text they were written in, which the static UID depends on.
/// [`publish_quantities`] finishes them.
pub(crate) fn apply(pod: &mut Pod) {
    let Some(spec) = pod.spec.as_mut() else { return };
    for container in every_container(spec) {
        resources::request_what_is_limited(container);
    }
    resources::default_pod_level(spec);
    spec.enable_service_links.get_or_insert(true);
    if spec.host_network == Some(true) {
        every_container(spec).for_each(containers::bind_ports_on_host);
    }
    fill(&mut spec.dns_policy, "ClusterFirst");
    fill(&mut spec.restart_policy, "Always");
    spec.security_context.get_or_insert_with(PodSecurityContext::default);
    spec.termination_grace_period_seconds.get_or_insert(DEFAULT_GRACE_PERIOD_SECONDS);
    fill(&mut spec.scheduler_name, "default-scheduler");
    spec.volumes.iter_mut().flatten().for_each(volumes::apply);
    every_container(spec).for_each(containers::apply);
    spec.ephemeral_containers.iter_mut().flatten().for_each(containers::apply_ephemeral);
}

fn every_container(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.init_containers.iter_mut().flatten().chain(spec.containers.iter_mut())
}

/// Sets a field that counts as unset when it is missing or empty.
fn fill(slot: &mut Option<String>, value: &str) {
    if slot.as_deref().unwrap_or_default().is_empty() {
        *slot = Some(value.to_owned());
    }
}

/// Sets a number that counts as unset when it is missing or zero.
fn fill_number(slot: &mut Option<i32>, value: i32) {
    if slot.unwrap_or_default() == 0 {
        *slot = Some(value);
    }
}

#[cfg(test)]
mod tests;
