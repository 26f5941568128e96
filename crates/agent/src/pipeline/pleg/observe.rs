use std::sync::Arc;

use futures::future::{join_all, try_join};
use model::{
    ContainerState, ContainerStatus, ContainerSummary, ImageSpec, Moment, Observation, ObservedPod,
    PodFullName, PodUid, SandboxState, SandboxStatus, SandboxSummary,
};
use ports::host::termination_messages::TerminationMessages;
use ports::runtime::{Runtime, RuntimeError};

use super::termination_message::add_termination_message;

#[derive(Clone, Copy)]
pub(super) struct ObserveDeps<'a> {
    pub(super) runtime: &'a dyn Runtime,
    pub(super) messages: &'a dyn TerminationMessages,
    /// Whether the ids of mounted images are read from the runtime.
    pub(super) image_volume_digests: bool,
}

/// Reads the state of one pod from the runtime. Exited containers and stopped sandboxes cannot change any more and are
/// copied from the previous observation.
pub(super) async fn observe_pod(
    deps: &ObserveDeps<'_>,
    uid: &PodUid,
    listed: Option<(Vec<SandboxSummary>, Vec<ContainerSummary>)>,
    previous: Option<Arc<ObservedPod>>,
    moment: Moment,
) -> Result<ObservedPod, RuntimeError> {
    let runtime = deps.runtime;
    let (sandboxes, containers) = match listed {
        Some(lists) => lists,
        None => try_join(runtime.list_sandboxes(Some(uid)), runtime.list_containers(Some(uid))).await?,
    };
    let old = previous.as_deref();
    let full_name = listed_name(&sandboxes, &containers)
        .or_else(|| old.map(|old| old.full_name.clone()))
        .unwrap_or_else(|| PodFullName { namespace: String::new(), name: String::new() });
    let (sandboxes, containers) = futures::future::join(
        join_all(sandboxes.iter().map(|summary| sandbox(runtime, summary, old))),
        join_all(containers.iter().map(|summary| container(deps, uid, summary, old))),
    )
    .await;
    let mut sandboxes = ignore_not_found(sandboxes)?;
    let mut containers = ignore_not_found(containers)?;
    sandboxes.sort_by_key(|sandbox| std::cmp::Reverse((sandbox.created_at, sandbox.attempt)));
    containers.sort_by_key(|container| std::cmp::Reverse((container.created_at, container.attempt)));
    Ok(ObservedPod {
        uid: uid.clone(),
        full_name,
        sandboxes,
        containers,
        moment,
        observation: Observation::Complete,
    })
}

async fn sandbox(
    runtime: &dyn Runtime,
    summary: &SandboxSummary,
    old: Option<&ObservedPod>,
) -> Result<SandboxStatus, RuntimeError> {
    let previous = old.and_then(|old| old.sandboxes.iter().find(|sandbox| sandbox.id == summary.id));
    match previous {
        Some(previous)
            if previous.state == SandboxState::NotReady && summary.state == SandboxState::NotReady =>
        {
            Ok(previous.clone())
        }
        _ => runtime.sandbox_status(&summary.id).await,
    }
}

async fn container(
    deps: &ObserveDeps<'_>,
    uid: &PodUid,
    summary: &ContainerSummary,
    old: Option<&ObservedPod>,
) -> Result<ContainerStatus, RuntimeError> {
    let previous = old.and_then(|old| old.containers.iter().find(|container| container.id == summary.id));
    match previous {
        Some(previous)
            if previous.state == ContainerState::Exited && summary.state == ContainerState::Exited =>
        {
            Ok(previous.clone())
        }
        _ => {
            let mut status = deps.runtime.container_status(&summary.id).await?;
            status.sandbox_id = summary.sandbox_id.clone();
            status.image_mounts = image_ids(deps, std::mem::take(&mut status.image_mounts), previous).await;
            add_termination_message(deps.messages, uid, &mut status).await;
            Ok(status)
        }
    }
}

/// The ids of mounted images, if enabled. An image whose status cannot be read is left out.
async fn image_ids(
    deps: &ObserveDeps<'_>,
    mounts: Vec<(String, String)>,
    previous: Option<&ContainerStatus>,
) -> Vec<(String, String)> {
    if !deps.image_volume_digests || mounts.is_empty() {
        return Vec::new();
    }
    // The mounts of a container never change.
    if let Some(previous) = previous.filter(|previous| previous.image_mounts.len() == mounts.len()) {
        return previous.image_mounts.clone();
    }
    let read_id = |(path, image): (String, String)| async move {
        let spec = ImageSpec { image, ..ImageSpec::default() };
        let found = deps.runtime.image_status(&spec).await.ok().flatten()?;
        Some((path, found.id))
    };
    join_all(mounts.into_iter().map(read_id)).await.into_iter().flatten().collect()
}

/// Leaves out objects that were removed after they were listed.
fn ignore_not_found<T>(results: Vec<Result<T, RuntimeError>>) -> Result<Vec<T>, RuntimeError> {
    let is_removed = |result: &Result<T, RuntimeError>| matches!(result, Err(error) if error.is_not_found());
    results.into_iter().filter(|result| !is_removed(result)).collect()
}

/// The name of the pod whose objects are listed.
pub(super) fn listed_name(
    sandboxes: &[SandboxSummary],
    containers: &[ContainerSummary],
) -> Option<PodFullName> {
    let of_sandboxes = sandboxes.iter().map(|sandbox| (&sandbox.pod_namespace, &sandbox.pod_name));
    let of_containers = containers.iter().map(|container| (&container.pod_namespace, &container.pod_name));
    let (namespace, name) = of_sandboxes.chain(of_containers).next()?;
    Some(PodFullName { namespace: namespace.clone(), name: name.clone() })
}
