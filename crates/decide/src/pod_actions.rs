//! What one pass of a worker must do so that the runtime holds what the spec says.
//!
//! Applied to a runtime that obeys, the plan leads to a state in which the next plan is empty.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::{
    ContainerId, ContainerKind, ContainerState, ContainerStatus, NamespaceMode, ObservedPod, Pod, SandboxId,
    SandboxState, labels,
};

use crate::container_hash::{as_annotation, container_hash};

/// Containers whose liveness or startup probe gave up, with the message for users.
pub type FailedProbes = BTreeMap<ContainerId, FailedProbe>;

/// Which probe gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedProbe {
    /// Liveness.
    Liveness,
    /// Startup.
    Startup,
}

/// What to do with the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxPlan {
    /// The one that is there stays.
    Keep(SandboxId),
    /// A new one is made after everything old was stopped.
    Create {
        /// Attempt of the new one.
        attempt: u32,
        /// Why.
        reason: SandboxReason,
    },
    /// None is needed.
    None,
}

/// Why a sandbox is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxReason {
    /// The pod has none.
    First,
    /// More than one is ready.
    SeveralReady,
    /// The newest is not ready.
    NotReady,
    /// The network mode of the spec is another one.
    NetworkChanged,
    /// The newest has no address.
    NoAddress,
}

/// Why a container is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// Image or name in the spec changed.
    DefinitionChanged,
    /// The runtime cannot say whether it runs.
    UnknownState,
    /// A newer container of the same name exists.
    Superseded,
    /// Its liveness probe failed.
    LivenessFailed,
    /// Its startup probe failed.
    StartupFailed,
}

/// A container to be stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillContainer {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: KillReason,
}

/// A container to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartContainer {
    /// Its name.
    pub name: String,
    /// The list it stands in.
    pub kind: ContainerKind,
    /// Restart count, `None` when nothing of it is left in the runtime and its logs must tell.
    pub restart_count: Option<u32>,
}

/// The plan of one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodActions {
    /// Whether all containers and sandboxes are stopped first.
    pub stop_everything: bool,
    /// The sandbox.
    pub sandbox: SandboxPlan,
    /// Containers to stop.
    pub kill: Vec<KillContainer>,
    /// Containers that were made but never started (the agent died in between): removed, so that their
    /// attempt can be made again.
    pub discard: Vec<ContainerId>,
    /// Containers to start, in order.
    pub start: Vec<StartContainer>,
}

impl PodActions {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.stop_everything
            && !matches!(self.sandbox, SandboxPlan::Create { .. })
            && self.kill.is_empty()
            && self.discard.is_empty()
            && self.start.is_empty()
    }
}

/// Plans one pass.
#[must_use]
pub fn plan(pod: &Pod, observed: &ObservedPod, probes: &FailedProbes) -> PodActions {
    match sandbox_state(pod, observed) {
        Ok(id) => plan_in_sandbox(pod, observed, probes, id),
        Err((reason, attempt)) => plan_new_sandbox(pod, observed, reason, attempt),
    }
}

/// The usable sandbox, or why and with which attempt a new one is needed.
fn sandbox_state(pod: &Pod, observed: &ObservedPod) -> Result<SandboxId, (SandboxReason, u32)> {
    let Some(newest) = observed.sandboxes.first() else {
        return Err((SandboxReason::First, 0));
    };
    let attempt = newest.attempt.saturating_add(1);
    let ready = observed.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
    let wanted = if pod.is_host_network() { NamespaceMode::Node } else { NamespaceMode::Pod };
    if ready > 1 {
        Err((SandboxReason::SeveralReady, attempt))
    } else if newest.state != SandboxState::Ready {
        Err((SandboxReason::NotReady, attempt))
    } else if newest.network != wanted {
        Err((SandboxReason::NetworkChanged, attempt))
    } else if !pod.is_host_network() && newest.ips.is_empty() {
        Err((SandboxReason::NoAddress, attempt))
    } else {
        Ok(newest.id.clone())
    }
}

fn plan_new_sandbox(pod: &Pod, observed: &ObservedPod, reason: SandboxReason, attempt: u32) -> PodActions {
    let nothing = PodActions {
        stop_everything: observed.is_alive(),
        sandbox: SandboxPlan::None,
        kill: Vec::new(),
        discard: Vec::new(),
        start: Vec::new(),
    };
    // A pod that must not be restarted is over once its sandbox is gone, if it ever had containers.
    if restart_policy(pod) == RestartPolicy::Never && attempt != 0 && has_run(observed) {
        return nothing;
    }
    let start: Vec<_> = pod
        .spec
        .containers
        .iter()
        .filter(|container| should_start_in_new_sandbox(pod, container, observed))
        .map(|container| start(container, ContainerKind::Regular, observed))
        .collect();
    if start.is_empty() && has_regular_container(pod, observed) {
        return nothing;
    }
    let first_init = pod.spec.init_containers.iter().flatten().next();
    PodActions {
        stop_everything: observed.is_alive(),
        sandbox: SandboxPlan::Create { attempt, reason },
        kill: Vec::new(),
        discard: half_made(observed).collect(),
        start: match first_init {
            Some(container) => vec![self::start(container, ContainerKind::Init, observed)],
            None => start,
        },
    }
}

fn plan_in_sandbox(
    pod: &Pod,
    observed: &ObservedPod,
    probes: &FailedProbes,
    sandbox: SandboxId,
) -> PodActions {
    let mut actions = PodActions {
        stop_everything: false,
        sandbox: SandboxPlan::Keep(sandbox),
        kill: Vec::new(),
        discard: half_made(observed).collect(),
        start: Vec::new(),
    };
    actions.kill.extend(superseded(pod, observed));
    match init_progress(pod, observed, &mut actions) {
        InitProgress::Done => {}
        InitProgress::Pending => return actions,
        InitProgress::Failed => {
            actions.stop_everything = true;
            return actions;
        }
    }
    let mut kept = 0;
    for container in &pod.spec.containers {
        match fate(pod, container, observed, probes) {
            Fate::Keep => kept += 1,
            Fate::Leave => {}
            Fate::Start => actions.start.push(start(container, ContainerKind::Regular, observed)),
            Fate::Kill { id, reason, restart } => {
                actions.kill.push(KillContainer { id, name: container.name.clone(), reason });
                if restart {
                    actions.start.push(start(container, ContainerKind::Regular, observed));
                }
            }
        }
    }
    if kept == 0 && actions.start.is_empty() {
        actions.stop_everything = true;
        actions.kill.clear();
        actions.discard.clear();
    }
    actions
}

enum Fate {
    /// Runs and stays.
    Keep,
    /// Has ended and stays so.
    Leave,
    /// Must be started.
    Start,
    /// Must be stopped, and perhaps started again.
    Kill { id: ContainerId, reason: KillReason, restart: bool },
}

fn fate(pod: &Pod, container: &Container, observed: &ObservedPod, probes: &FailedProbes) -> Fate {
    let Some(status) = current(observed, &container.name) else {
        return Fate::Start;
    };
    let kill = |reason, restart| Fate::Kill { id: status.id.clone(), reason, restart };
    match status.state {
        ContainerState::Running => {
            let may_restart = restart_policy(pod) != RestartPolicy::Never;
            if definition_changed(container, status) {
                kill(KillReason::DefinitionChanged, true)
            } else {
                match probes.get(&status.id) {
                    Some(FailedProbe::Liveness) => kill(KillReason::LivenessFailed, may_restart),
                    Some(FailedProbe::Startup) => kill(KillReason::StartupFailed, may_restart),
                    None => Fate::Keep,
                }
            }
        }
        ContainerState::Unknown => kill(KillReason::UnknownState, true),
        ContainerState::Exited if should_restart(pod, status) => Fate::Start,
        ContainerState::Exited | ContainerState::Created => Fate::Leave,
    }
}

enum InitProgress {
    Done,
    Pending,
    Failed,
}

/// Walks the init containers in order; adds the next one to start.
fn init_progress(pod: &Pod, observed: &ObservedPod, actions: &mut PodActions) -> InitProgress {
    let init = pod.spec.init_containers.as_deref().unwrap_or_default();
    if init.is_empty() {
        return InitProgress::Done;
    }
    let past_init = has_regular_container(pod, observed);
    for container in init {
        let sidecar = is_sidecar(container);
        match current(observed, &container.name) {
            Some(status) if status.state == ContainerState::Running => {
                if !sidecar {
                    return InitProgress::Pending;
                }
            }
            Some(status) if status.state == ContainerState::Exited && !sidecar => {
                if status.exit_code == 0 || past_init {
                    continue;
                }
                if restart_policy(pod) == RestartPolicy::Never {
                    return InitProgress::Failed;
                }
                actions.start.push(start(container, ContainerKind::Init, observed));
                return InitProgress::Pending;
            }
            other => {
                if past_init && !sidecar {
                    continue;
                }
                if let Some(status) = other
                    && status.state == ContainerState::Unknown
                {
                    actions.kill.push(KillContainer {
                        id: status.id.clone(),
                        name: container.name.clone(),
                        reason: KillReason::UnknownState,
                    });
                }
                actions.start.push(start(container, ContainerKind::Init, observed));
                if !past_init {
                    return InitProgress::Pending;
                }
            }
        }
    }
    InitProgress::Done
}

fn start(container: &Container, kind: ContainerKind, observed: &ObservedPod) -> StartContainer {
    let half_made = observed.containers_named(&container.name).find(|status| is_half_made(status));
    let restart_count = half_made
        .map(restart_count)
        .or_else(|| current(observed, &container.name).map(|status| restart_count(status).saturating_add(1)));
    StartContainer { name: container.name.clone(), kind, restart_count }
}

/// The newest container of a name that was started at some time.
fn current<'a>(observed: &'a ObservedPod, name: &'a str) -> Option<&'a ContainerStatus> {
    observed.containers_named(name).find(|status| !is_half_made(status))
}

/// Older containers that run beside the newest of their name.
fn superseded<'a>(pod: &'a Pod, observed: &'a ObservedPod) -> impl Iterator<Item = KillContainer> + 'a {
    pod.containers().flat_map(|entry| {
        let name = entry.container.name.as_str();
        observed
            .containers_named(name)
            .filter(|status| !is_half_made(status))
            .skip(1)
            .filter(|status| matches!(status.state, ContainerState::Running | ContainerState::Unknown))
            .map(|status| KillContainer {
                id: status.id.clone(),
                name: status.name.clone(),
                reason: KillReason::Superseded,
            })
    })
}

fn half_made(observed: &ObservedPod) -> impl Iterator<Item = ContainerId> {
    observed.containers.iter().filter(|status| is_half_made(status)).map(|status| status.id.clone())
}

/// Whether a container never ran because the agent that made it was killed: it was not started, or its start was
/// cut off with the connection, which containerd records as an end that no start preceded.
#[must_use]
pub fn is_half_made(status: &ContainerStatus) -> bool {
    match status.state {
        ContainerState::Created => true,
        ContainerState::Exited => status.started_at.is_zero() && status.message.contains("context canceled"),
        ContainerState::Running | ContainerState::Unknown => false,
    }
}

/// The restart count a container was made with.
#[must_use]
pub fn restart_count(status: &ContainerStatus) -> u32 {
    status.annotations.get(labels::RESTART_COUNT).and_then(|text| text.parse().ok()).unwrap_or(status.attempt)
}

/// Pod restart policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Whatever the exit code.
    Always,
    /// On exit codes other than 0.
    OnFailure,
    /// Not at all.
    Never,
}

/// The pod's restart policy.
#[must_use]
pub fn restart_policy(pod: &Pod) -> RestartPolicy {
    match pod.spec.restart_policy.as_deref() {
        Some("Never") => RestartPolicy::Never,
        Some("OnFailure") => RestartPolicy::OnFailure,
        _ => RestartPolicy::Always,
    }
}

/// Whether a container that ended must run again.
#[must_use]
pub fn should_restart(pod: &Pod, status: &ContainerStatus) -> bool {
    if pod.is_deleted() {
        return false;
    }
    match restart_policy(pod) {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => status.exit_code != 0,
        RestartPolicy::Never => false,
    }
}

/// Whether an init container runs beside the regular ones.
#[must_use]
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether the pod has run to its end: nothing runs and nothing will be started again.
#[must_use]
pub fn is_finished(pod: &Pod, observed: &ObservedPod) -> bool {
    let ended = |name| current(observed, name).filter(|status| status.state == ContainerState::Exited);
    let never = restart_policy(pod) == RestartPolicy::Never;
    let init_failed = never
        && !has_regular_container(pod, observed)
        && pod
            .spec
            .init_containers
            .iter()
            .flatten()
            .filter(|container| !is_sidecar(container))
            .any(|container| ended(&container.name).is_some_and(|status| status.exit_code != 0));
    let all_ended = pod
        .spec
        .containers
        .iter()
        .all(|container| ended(&container.name).is_some_and(|status| !should_restart(pod, status)));
    init_failed || all_ended
}

fn should_start_in_new_sandbox(pod: &Pod, container: &Container, observed: &ObservedPod) -> bool {
    match current(observed, &container.name) {
        Some(status) if status.state == ContainerState::Exited => should_restart(pod, status),
        Some(_) | None => !pod.is_deleted(),
    }
}

fn definition_changed(container: &Container, status: &ContainerStatus) -> bool {
    let hash = as_annotation(container_hash(container));
    status.annotations.get(labels::CONTAINER_HASH).is_some_and(|recorded| *recorded != hash)
}

fn has_regular_container(pod: &Pod, observed: &ObservedPod) -> bool {
    pod.spec.containers.iter().any(|container| current(observed, &container.name).is_some())
}

fn has_run(observed: &ObservedPod) -> bool {
    observed.containers.iter().any(|status| !is_half_made(status))
}

#[cfg(test)]
mod tests;
