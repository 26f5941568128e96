//! What the runtime is asked for to make a container.

mod annotations;
mod go_json;

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::Container;
use model::{
    ContainerId, ContainerRef, ContainerSecurity, ContainerSpec, ImageSpec, ImageStatus, NamespaceMode,
    NodeSettings, PlannedVolume, Pod, labels,
};

pub(crate) use go_json::string as go_json_string;

use crate::environment::{EnvironmentFacts, EnvironmentSources, environment, expand, lookup};
use crate::mounts::{MountInputs, devices, mounts};
use crate::object_restart::started_with;
use crate::pod_paths::PodPaths;
use crate::resources::container_resources;
use crate::security::{container_security, verify_run_as_non_root};

/// Everything a container's specification is made from.
#[derive(Clone, Copy, Debug)]
pub struct ContainerInputs<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Its container.
    pub container: ContainerRef<'a>,
    /// How often the container was restarted before.
    pub restart_count: u32,
    /// The local image.
    pub image: &'a ImageStatus,
    /// The reference the runtime knows it by.
    pub image_ref: &'a str,
    /// The pod's addresses.
    pub pod_ips: &'a [String],
    /// The node.
    pub settings: &'a NodeSettings,
    /// The pod's volumes, ready to be mounted.
    pub volumes: &'a [PlannedVolume],
    /// Whether the pod's handler can make mounts read-only with everything below them.
    pub recursive_read_only: bool,
    /// What was read for the environment.
    pub sources: &'a EnvironmentSources,
    /// The pod's hosts file on the host.
    pub hosts_file: Option<&'a Path>,
    /// This container's termination log on the host.
    pub termination_log: Option<&'a Path>,
    /// The container whose processes it sees, for an ephemeral container with a target.
    pub target: Option<&'a ContainerId>,
    /// Groups that the pod's volumes give to its containers.
    pub volume_groups: &'a [i64],
}

/// The specification of a container.
///
/// # Errors
/// When the container cannot be made as the pod wants it (`CreateContainerConfigError`).
pub fn container_spec(inputs: &ContainerInputs<'_>) -> Result<ContainerSpec, String> {
    let ContainerInputs { pod, image, settings, restart_count, .. } = *inputs;
    let container = inputs.container.container;
    let facts = EnvironmentFacts { pod, pod_ips: inputs.pod_ips, settings, sources: inputs.sources };
    let env = environment(&facts, container)?;
    let mounts = mounts(&MountInputs {
        pod,
        container,
        volumes: inputs.volumes,
        env: &env,
        hosts_file: inputs.hosts_file,
        termination_log: inputs.termination_log,
        recursive_read_only: inputs.recursive_read_only,
        settings,
    })?;
    verify_run_as_non_root(pod, container, image)?;
    let expanded = |words: &Option<Vec<String>>| -> Vec<String> {
        words.iter().flatten().map(|word| expand(word, |name| lookup(&env, name))).collect()
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
        labels: container_labels(pod, container),
        annotations: annotations::container_annotations(pod, container, restart_count)
            .into_iter()
            .chain(started_with(pod, container, &inputs.sources.objects))
            .collect(),
        log_path: PodPaths::container_log_relative(&container.name, restart_count),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        resources: container_resources(pod, container, settings),
        security: aimed_at(security, inputs.target),
        stop_signal: stop_signal(container, settings),
        env,
    })
}

/// Shares the target's processes, unless all containers share theirs anyway.
fn aimed_at(mut security: ContainerSecurity, target: Option<&ContainerId>) -> ContainerSecurity {
    if let (Some(target), NamespaceMode::Container) = (target, &security.namespaces.pid) {
        security.namespaces.pid = NamespaceMode::Target(target.to_string());
    }
    security
}

fn stop_signal(container: &Container, settings: &NodeSettings) -> Option<String> {
    let asked = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone());
    asked.filter(|_| settings.container_stop_signals)
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
