//! Defaults of a container.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EphemeralContainer, HTTPGetAction, Lifecycle, Probe,
};

use super::{default_number, default_string, pull_policy};

/// Sets the defaults of an init or regular container.
pub(super) fn apply(container: &mut Container) {
    default_string(&mut container.image_pull_policy, pull_policy(container.image.as_ref()));
    default_string(&mut container.termination_message_path, "/dev/termination-log");
    default_string(&mut container.termination_message_policy, "File");
    container.ports.iter_mut().flatten().for_each(default_port);
    container.env.iter_mut().flatten().for_each(default_env);
    let probes =
        [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(default_probe);
    container.lifecycle.iter_mut().for_each(default_lifecycle);
}

/// Sets the same defaults in an ephemeral container.
pub(super) fn apply_ephemeral(container: &mut EphemeralContainer) {
    default_string(&mut container.image_pull_policy, pull_policy(container.image.as_ref()));
    default_string(&mut container.termination_message_path, "/dev/termination-log");
    default_string(&mut container.termination_message_policy, "File");
    container.ports.iter_mut().flatten().for_each(default_port);
    container.env.iter_mut().flatten().for_each(default_env);
    let probes =
        [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(default_probe);
    container.lifecycle.iter_mut().for_each(default_lifecycle);
}

/// With the host network, every container port is a host port.
pub(super) fn bind_ports_on_host(container: &mut Container) {
    for port in container.ports.iter_mut().flatten() {
        default_number(&mut port.host_port, port.container_port);
    }
}

fn default_port(port: &mut ContainerPort) {
    default_string(&mut port.protocol, "TCP");
}

fn default_env(variable: &mut EnvVar) {
    let Some(source) = variable.value_from.as_mut() else { return };
    if let Some(field) = source.field_ref.as_mut() {
        default_string(&mut field.api_version, "v1");
    }
    if let Some(file) = source.file_key_ref.as_mut() {
        file.optional.get_or_insert(false);
    }
}

fn default_probe(probe: &mut Probe) {
    default_number(&mut probe.timeout_seconds, 1);
    default_number(&mut probe.period_seconds, 10);
    default_number(&mut probe.success_threshold, 1);
    default_number(&mut probe.failure_threshold, 3);
    probe.http_get.iter_mut().for_each(default_http_get);
    if let Some(grpc) = probe.grpc.as_mut() {
        grpc.service.get_or_insert_default();
    }
}

fn default_lifecycle(lifecycle: &mut Lifecycle) {
    for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
        handler.http_get.iter_mut().for_each(default_http_get);
    }
}

fn default_http_get(action: &mut HTTPGetAction) {
    default_string(&mut action.path, "/");
    default_string(&mut action.scheme, "HTTP");
}
