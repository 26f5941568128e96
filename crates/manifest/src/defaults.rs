//! The defaults that a kube-apiserver sets in a v1 Pod, so that a static pod behaves like the same pod in a cluster.

mod containers;
mod quantities;
mod resources;
mod volumes;

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, PodSpec};
use values::image_name::parse_image_name;

pub(crate) use quantities::{each_quantity, ensure_divisors, publish_quantities};
pub(crate) use resources::aggregate;

const DEFAULT_GRACE_PERIOD_SECONDS: i64 = 30;

/// Sets all defaults. Quantities keep their original text, because the static UID depends on it;
/// [`publish_quantities`] converts them later.
pub(crate) fn apply(pod: &mut Pod) {
    let Some(spec) = pod.spec.as_mut() else { return };
    for container in containers_mut(spec) {
        resources::default_requests_to_limits(container);
    }
    resources::default_pod_level_resources(spec);
    spec.enable_service_links.get_or_insert(true);
    if spec.host_network == Some(true) {
        containers_mut(spec).for_each(containers::bind_ports_on_host);
    }
    default_string(&mut spec.dns_policy, "ClusterFirst");
    default_string(&mut spec.restart_policy, "Always");
    spec.security_context.get_or_insert_with(PodSecurityContext::default);
    spec.termination_grace_period_seconds.get_or_insert(DEFAULT_GRACE_PERIOD_SECONDS);
    default_string(&mut spec.scheduler_name, "default-scheduler");
    spec.volumes.iter_mut().flatten().for_each(volumes::apply);
    containers_mut(spec).for_each(containers::apply);
    spec.ephemeral_containers.iter_mut().flatten().for_each(containers::apply_ephemeral);
}

fn containers_mut(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.init_containers.iter_mut().flatten().chain(spec.containers.iter_mut())
}

/// The default pull policy of an image: `Always` for the tag `latest`, explicit or implied. A name that cannot be parsed counts
/// as "not latest".
fn pull_policy(image: Option<&String>) -> &'static str {
    let name = parse_image_name(image.map_or("", String::as_str));
    if name.is_ok_and(|name| name.is_latest()) { "Always" } else { "IfNotPresent" }
}

/// Sets a string that is missing or empty.
fn default_string(field: &mut Option<String>, value: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(value.to_owned());
    }
}

/// Sets a number that is missing or zero.
fn default_number(field: &mut Option<i32>, value: i32) {
    if field.unwrap_or_default() == 0 {
        *field = Some(value);
    }
}

#[cfg(test)]
mod tests;
