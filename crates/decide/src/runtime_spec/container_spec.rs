//! Builds the spec of a container.

mod annotations;
mod go_json;

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::Container;
use model::{
    ContainerId, ContainerRef, ContainerSecurity, ContainerSpec, ImageSpec, ImageStatus, NamespaceMode,
    NodeSettings, PlannedVolume, Pod, labels,
};

use crate::pipeline::object_restart::started_with_annotation;
use crate::pod_resources::resources::container_resources;
use crate::runtime_spec::environment::{EnvironmentInputs, EnvironmentSources, environment, expand, lookup};
use crate::runtime_spec::mounts::{devices, mounts};
use crate::runtime_spec::pod_paths::PodPaths;
use crate::runtime_spec::security::{container_security, verify_run_as_non_root};

#[derive(Clone, Copy, Debug)]
pub struct ContainerInputs<'a> {
    pub pod: &'a Pod,
    pub container: ContainerRef<'a>,
    pub restart_count: u32,
    pub image: &'a ImageStatus,
    /// The reference that the runtime uses for the image.
    pub image_ref: &'a str,
    pub pod_ips: &'a [String],
    pub settings: &'a NodeSettings,
    pub volumes: &'a [PlannedVolume],
    /// Whether the pod's runtime handler supports recursive read-only mounts.
    pub recursive_read_only: bool,
    pub sources: &'a EnvironmentSources,
    pub hosts_file: Option<&'a Path>,
    /// Host path of the termination message file.
    pub termination_log: Option<&'a Path>,
    /// The container whose PID namespace an ephemeral container shares.
    pub target: Option<&'a ContainerId>,
    /// Supplemental groups that the volumes add.
    pub volume_groups: &'a [i64],
}

/// # Errors
/// When the spec cannot be satisfied; reported as `CreateContainerConfigError`.
pub fn container_spec(inputs: &ContainerInputs<'_>) -> Result<ContainerSpec, String> {
    let ContainerInputs { pod, image, settings, restart_count, .. } = *inputs;
    let container = inputs.container.container;
    let env_inputs = EnvironmentInputs { pod, pod_ips: inputs.pod_ips, settings, sources: inputs.sources };
    let env = environment(&env_inputs, container)?;
    let mounts = mounts(inputs, &env)?;
    verify_run_as_non_root(pod, container, image)?;
    let expanded = |arguments: &Option<Vec<String>>| -> Vec<String> {
        arguments.iter().flatten().map(|argument| expand(argument, |name| lookup(&env, name))).collect()
    };
    let mut security = container_security(pod, container, image, settings)?;
    security.supplemental_groups.extend(inputs.volume_groups);
    Ok(ContainerSpec {
        name: container.name.clone(),
        attempt: restart_count,
        image: ImageSpec {
            image: inputs.image_ref.to_owned(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            runtime_handler: String::new(),
            annotations: BTreeMap::new(),
        },
        command: expanded(&container.command),
        args: expanded(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        mounts,
        devices: devices(container, inputs.volumes)?,
        cdi_devices: Vec::new(),
        labels: container_labels(pod, container),
        annotations: annotations::container_annotations(pod, container, restart_count)
            .into_iter()
            .chain(started_with_annotation(pod, container, &inputs.sources.objects))
            .collect(),
        log_path: PodPaths::container_log_relative(&container.name, restart_count),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        resources: container_resources(pod, container, settings),
        security: with_target(security, inputs.target),
        stop_signal: stop_signal(container, settings),
        env,
    })
}

/// Joins the PID namespace of the target, unless all containers of the pod share one.
fn with_target(mut security: ContainerSecurity, target: Option<&ContainerId>) -> ContainerSecurity {
    if let (Some(target), NamespaceMode::Container) = (target, &security.namespaces.pid) {
        security.namespaces.pid = NamespaceMode::Target(target.to_string());
    }
    security
}

fn stop_signal(container: &Container, settings: &NodeSettings) -> Option<String> {
    let requested = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone());
    requested.filter(|_| settings.container_stop_signals)
}

fn container_labels(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    [
        (labels::POD_NAME, pod.name()),
        (labels::POD_NAMESPACE, pod.namespace()),
        (labels::POD_UID, pod.uid.as_str()),
        (labels::CONTAINER_NAME, &container.name),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

#[cfg(test)]
mod tests;
