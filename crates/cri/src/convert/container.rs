use std::collections::HashMap;

use model::{
    ContainerSpec, ContainerState, ContainerStatus, ContainerSummary, ContainerUser, Mount, MountPropagation,
    Timestamp, UserNamespace,
};
use serde::Deserialize;

use super::labels::{self, to_hash_map};
use super::{MissingField, image, resources, security};
use crate::{list_calls, v1};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown stop signal {0:?}")]
pub(crate) struct UnknownSignal(String);

/// `user_namespace` is that of the sandbox; it applies to the container and its mounts.
pub(crate) fn config(
    spec: &ContainerSpec,
    user_namespace: UserNamespace,
) -> Result<v1::ContainerConfig, UnknownSignal> {
    let env =
        |(key, value): &(String, String)| v1::KeyValue { key: key.clone(), value: value.clone().into() };
    Ok(v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: spec.name.clone(), attempt: spec.attempt }),
        image: Some(image::spec(&spec.image)),
        command: spec.command.clone(),
        args: spec.args.clone(),
        working_dir: spec.working_dir.clone(),
        envs: spec.env.iter().map(env).collect(),
        mounts: spec.mounts.iter().map(|entry| mount(entry, user_namespace)).collect(),
        devices: spec.devices.iter().map(device).collect(),
        labels: to_hash_map(&spec.labels),
        annotations: to_hash_map(&spec.annotations),
        log_path: spec.log_path.clone(),
        stdin: spec.stdin,
        stdin_once: spec.stdin_once,
        tty: spec.tty,
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(resources::to_cri(&spec.resources)),
            security_context: Some(security::container_context(&spec.security, user_namespace)),
        }),
        windows: None,
        cdi_devices: spec.cdi_devices.iter().map(|name| v1::CdiDevice { name: name.clone() }).collect(),
        stop_signal: stop_signal(spec.stop_signal.as_deref())?.into(),
    })
}

/// Returns `None` for a container that does not belong to a pod.
pub(crate) fn summary(item: &list_calls::Container) -> Option<ContainerSummary> {
    let (pod_uid, pod_name, pod_namespace) = labels::pod_identity(&item.labels)?;
    let metadata = item.metadata.as_ref();
    let name = labels::value(&item.labels, model::labels::CONTAINER_NAME)
        .or_else(|| metadata.map(|metadata| labels::text(&metadata.name)));
    Some(ContainerSummary {
        id: labels::text(&item.id).as_ref().into(),
        sandbox_id: labels::text(&item.pod_sandbox_id).as_ref().into(),
        pod_uid,
        pod_name,
        pod_namespace,
        name: name.unwrap_or_default().into_owned(),
        attempt: metadata.map_or(0, |metadata| metadata.attempt),
        state: state(item.state()),
        created_at: Timestamp::from_nanos(item.created_at),
    })
}

pub(crate) fn status(
    mut status: v1::ContainerStatus,
    info: &HashMap<String, String>,
) -> Result<ContainerStatus, MissingField> {
    if status.id.is_empty() {
        return Err(MissingField("a container status without an id"));
    }
    let state = state(status.state());
    let stop_signal = signal_name(status.stop_signal());
    let metadata = status.metadata.ok_or(MissingField("a container status without metadata"))?;
    let image = status.image.unwrap_or_default();
    let image_mounts = image_mounts(&status.mounts);
    let mut mounts: Vec<_> =
        status.mounts.into_iter().map(|mount| (mount.container_path, mount.host_path)).collect();
    // The conversion reuses the allocation of the much larger messages; free the rest, because statuses are cached.
    mounts.shrink_to_fit();
    Ok(ContainerStatus {
        id: status.id.into(),
        sandbox_id: "".into(),
        name: status.labels.remove(model::labels::CONTAINER_NAME).unwrap_or(metadata.name),
        attempt: metadata.attempt,
        state,
        created_at: Timestamp::from_nanos(status.created_at),
        started_at: Timestamp::from_nanos(status.started_at),
        finished_at: Timestamp::from_nanos(status.finished_at),
        exit_code: status.exit_code,
        image: image.image,
        image_handler: image.runtime_handler,
        image_ref: status.image_ref,
        image_id: status.image_id,
        reason: status.reason,
        message: status.message,
        annotations: status.annotations.into_iter().collect(),
        log_path: status.log_path,
        mounts,
        image_mounts,
        resources: status.resources.and_then(|wrapper| wrapper.linux).map(resources::from_cri),
        pid: info.get("info").and_then(|text| pid(text)),
        user: status.user.and_then(|wrapper| wrapper.linux).map(|user| ContainerUser {
            uid: user.uid,
            gid: user.gid,
            supplemental_groups: user.supplemental_groups,
        }),
        stop_signal,
    })
}

/// Returns the container path and image of each image mount.
fn image_mounts(mounts: &[v1::Mount]) -> Vec<(String, String)> {
    let image_mounts = mounts.iter().filter_map(|mount| Some((mount, mount.image.as_ref()?)));
    let image_mounts = image_mounts.filter(|(_, image)| !image.image.is_empty());
    image_mounts.map(|(mount, image)| (mount.container_path.clone(), image.image.clone())).collect()
}

/// Extracts the process id from the verbose JSON of containerd and CRI-O. 0 means no process.
fn pid(text: &str) -> Option<u32> {
    #[derive(Deserialize)]
    struct Details {
        pid: u32,
    }
    serde_json::from_str::<Details>(text).ok().map(|details| details.pid).filter(|pid| *pid > 0)
}

fn state(state: v1::ContainerState) -> ContainerState {
    match state {
        v1::ContainerState::ContainerCreated => ContainerState::Created,
        v1::ContainerState::ContainerRunning => ContainerState::Running,
        v1::ContainerState::ContainerExited => ContainerState::Exited,
        v1::ContainerState::ContainerUnknown => ContainerState::Unknown,
    }
}

/// Converts an API signal name; `SIGRTMIN+1` of the API is `SIGRTMINPLUS1` in the CRI.
fn stop_signal(name: Option<&str>) -> Result<v1::Signal, UnknownSignal> {
    let Some(name) = name else { return Ok(v1::Signal::RuntimeDefault) };
    let cri_name = name.replace('+', "PLUS").replace('-', "MINUS");
    v1::Signal::from_str_name(&cri_name).ok_or_else(|| UnknownSignal(name.to_owned()))
}

/// Returns the API name of a signal; `None` for the runtime default.
fn signal_name(signal: v1::Signal) -> Option<String> {
    (signal != v1::Signal::RuntimeDefault)
        .then(|| signal.as_str_name().replace("PLUS", "+").replace("MINUS", "-"))
}

fn mount(mount: &Mount, user_namespace: UserNamespace) -> v1::Mount {
    let propagation = match mount.propagation {
        MountPropagation::Private => v1::MountPropagation::PropagationPrivate,
        MountPropagation::HostToContainer => v1::MountPropagation::PropagationHostToContainer,
        MountPropagation::Bidirectional => v1::MountPropagation::PropagationBidirectional,
    };
    v1::Mount {
        container_path: mount.container_path.clone(),
        host_path: mount.host_path.clone(),
        readonly: mount.readonly,
        selinux_relabel: mount.selinux_relabel,
        propagation: propagation.into(),
        recursive_read_only: mount.recursive_read_only,
        image: mount.image.as_ref().map(super::image::spec),
        image_sub_path: mount.image_sub_path.clone(),
        uid_mappings: security::id_mappings(user_namespace),
        gid_mappings: security::id_mappings(user_namespace),
    }
}

fn device(device: &model::Device) -> v1::Device {
    v1::Device {
        container_path: device.container_path.clone(),
        host_path: device.host_path.clone(),
        permissions: device.permissions.clone(),
    }
}

#[cfg(test)]
mod tests;
