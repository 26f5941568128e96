use std::sync::Arc;

use futures::future::{join_all, try_join};
use model::{
    ContainerState, ContainerStatus, ContainerSummary, ImageSpec, Moment, Observation, ObservedPod,
    PodFullName, PodUid, SandboxState, SandboxStatus, SandboxSummary,
};
use ports::runtime::{Runtime, RuntimeError};
use ports::termination_messages::TerminationMessages;

use super::last_words::add_last_words;

/// Where a look is taken.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) runtime: &'a dyn Runtime,
    pub(super) messages: &'a dyn TerminationMessages,
    /// Whether images that are mounted are asked for their ids.
    pub(super) image_volume_digests: bool,
}

/// Reads everything the runtime holds of one pod. What cannot change any more (ended containers, stopped
/// sandboxes) is taken from the previous look.
pub(super) async fn look(
    world: &World<'_>,
    uid: &PodUid,
    listed: Option<(Vec<SandboxSummary>, Vec<ContainerSummary>)>,
    previous: Option<Arc<ObservedPod>>,
    moment: Moment,
) -> Result<ObservedPod, RuntimeError> {
    let runtime = world.runtime;
    let (sandboxes, containers) = match listed {
        Some(lists) => lists,
        None => try_join(runtime.list_sandboxes(Some(uid)), runtime.list_containers(Some(uid))).await?,
    };
    let full_name = full_name(&sandboxes, &containers, previous.as_deref());
    let old = previous.as_deref();
    let (sandboxes, containers) = futures::future::join(
        join_all(sandboxes.iter().map(|summary| sandbox(runtime, summary, old))),
        join_all(containers.iter().map(|summary| container(world, uid, summary, old))),
    )
    .await;
    let mut sandboxes = found(sandboxes)?;
    let mut containers = found(containers)?;
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
    let known = old.and_then(|old| old.sandboxes.iter().find(|sandbox| sandbox.id == summary.id));
    match known {
        Some(known) if known.state == SandboxState::NotReady && summary.state == SandboxState::NotReady => {
            Ok(known.clone())
        }
        _ => runtime.sandbox_status(&summary.id).await,
    }
}

async fn container(
    world: &World<'_>,
    uid: &PodUid,
    summary: &ContainerSummary,
    old: Option<&ObservedPod>,
) -> Result<ContainerStatus, RuntimeError> {
    let known = old.and_then(|old| old.containers.iter().find(|container| container.id == summary.id));
    match known {
        Some(known) if known.state == ContainerState::Exited && summary.state == ContainerState::Exited => {
            Ok(known.clone())
        }
        _ => {
            let mut status = world.runtime.container_status(&summary.id).await?;
            status.sandbox_id = summary.sandbox_id.clone();
            status.image_mounts = image_ids(world, std::mem::take(&mut status.image_mounts), known).await;
            add_last_words(world.messages, uid, &mut status).await;
            Ok(status)
        }
    }
}

/// The ids of images that are mounted, where they are shown. An image that the runtime does not tell of is left out.
async fn image_ids(
    world: &World<'_>,
    mounts: Vec<(String, String)>,
    known: Option<&ContainerStatus>,
) -> Vec<(String, String)> {
    if !world.image_volume_digests || mounts.is_empty() {
        return Vec::new();
    }
    // What is mounted in a container does not change.
    if let Some(known) = known.filter(|known| known.image_mounts.len() == mounts.len()) {
        return known.image_mounts.clone();
    }
    let ask = |(path, image): (String, String)| async move {
        let spec = ImageSpec { image, ..ImageSpec::default() };
        let found = world.runtime.image_status(&spec).await.ok().flatten()?;
        Some((path, found.id))
    };
    join_all(mounts.into_iter().map(ask)).await.into_iter().flatten().collect()
}

/// What vanished between list and look is left out.
fn found<T>(results: Vec<Result<T, RuntimeError>>) -> Result<Vec<T>, RuntimeError> {
    let gone = |result: &Result<T, RuntimeError>| matches!(result, Err(error) if error.is_not_found());
    results.into_iter().filter(|result| !gone(result)).collect()
}

fn full_name(
    sandboxes: &[SandboxSummary],
    containers: &[ContainerSummary],
    previous: Option<&ObservedPod>,
) -> PodFullName {
    let listed = sandboxes
        .iter()
        .map(|sandbox| (&sandbox.pod_namespace, &sandbox.pod_name))
        .chain(containers.iter().map(|container| (&container.pod_namespace, &container.pod_name)))
        .next();
    match (listed, previous) {
        (Some((namespace, name)), _) => PodFullName { namespace: namespace.clone(), name: name.clone() },
        (None, Some(previous)) => previous.full_name.clone(),
        (None, None) => PodFullName { namespace: String::new(), name: String::new() },
    }
}
