//! The actions of one sync that bring the runtime to the state that the pod spec describes.
//!
//! Plans converge: if the runtime carries out every action, a later plan is empty.

mod init;
mod kill;
mod restart;
mod restart_all;

use k8s_openapi::api::core::v1::Container;
use model::{
    ContainerId, ContainerKind, ContainerProbeResults, ContainerState, ContainerStatus, NamespaceMode,
    ObservedPod, Pod, ProbeResult, ProbeResults, SandboxId, SandboxState, labels,
};

use crate::runtime_spec::container_hash::{as_annotation, container_hash};
use init::InitProgress;

pub use kill::{KillContainer, KillReason};
pub use restart::{
    RestartPolicy, effective_policy, is_sidecar, restart_policy, restarts_after, should_restart,
};
pub use restart_all::{ResetContainer, restarts_all_containers};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxPlan {
    /// Keep the existing sandbox.
    Keep(SandboxId),
    /// Create a new sandbox after all old containers and sandboxes have been stopped.
    Create {
        attempt: u32,
        reason: SandboxReason,
    },
    None,
}

/// Why a sandbox is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxReason {
    First,
    SeveralReady,
    NotReady,
    /// The sandbox has another network mode than the spec.
    NetworkChanged,
    NoAddress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartContainer {
    pub name: String,
    pub kind: ContainerKind,
    /// `None` if the runtime has no container of this name; the count is then read from the log files.
    pub restart_count: Option<u32>,
}

/// The actions of one sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodActions {
    /// Stop all containers and sandboxes first.
    pub stop_everything: bool,
    pub sandbox: SandboxPlan,
    pub kill: Vec<KillContainer>,
    /// Containers that were created but never ran, because the agent was killed in between. They are removed so that
    /// the same attempt can be repeated.
    pub discard: Vec<ContainerId>,
    /// Init containers of an earlier sandbox. They are removed with their logs, so that none of them counts as completed.
    pub purge: Vec<ContainerId>,
    /// Containers to remove, in order, because all containers of the pod restart.
    pub reset: Vec<ResetContainer>,
    /// Containers to start, in order: ephemeral, init, regular.
    pub start: Vec<StartContainer>,
}

impl SandboxReason {
    /// Whether an event reports that the previous sandbox was unusable.
    pub fn has_event(self) -> bool {
        match self {
            Self::SeveralReady | Self::NotReady | Self::NoAddress => true,
            Self::First | Self::NetworkChanged => false,
        }
    }
}

impl PodActions {
    fn new(sandbox: SandboxPlan) -> Self {
        Self {
            stop_everything: false,
            sandbox,
            kill: Vec::new(),
            discard: Vec::new(),
            purge: Vec::new(),
            reset: Vec::new(),
            start: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.stops_or_removes()
            && !matches!(self.sandbox, SandboxPlan::Create { .. })
            && self.start.is_empty()
    }

    /// Stops dead sandboxes of a pod that gets no new sandbox: until it is stopped, a dead sandbox keeps its IP and its
    /// host ports. `stopped` lists the sandboxes that were stopped before.
    pub fn stop_dead_sandboxes(&mut self, observed: &ObservedPod, stopped: &[SandboxId]) {
        if self.sandbox == SandboxPlan::None && self.reset.is_empty() {
            self.stop_everything |= observed.sandboxes.iter().any(|sandbox| !stopped.contains(&sandbox.id));
        }
    }

    /// The containers that run and are started again: the sync stops them first.
    pub fn replaced(&self, observed: &ObservedPod) -> Vec<ContainerStatus> {
        let current = self.start.iter().filter_map(|start| current(observed, &start.name));
        let runs = |status: &&ContainerStatus| {
            matches!(status.state, ContainerState::Running | ContainerState::Unknown)
        };
        current.filter(runs).cloned().collect()
    }

    pub fn stops_or_removes(&self) -> bool {
        self.stop_everything
            || !self.kill.is_empty()
            || !self.discard.is_empty()
            || !self.purge.is_empty()
            || !self.reset.is_empty()
    }
}

#[derive(Clone, Copy, Debug)]
struct PlanInputs<'a> {
    pod: &'a Pod,
    observed: &'a ObservedPod,
    probes: &'a ProbeResults,
}

impl<'a> PlanInputs<'a> {
    /// The probe results of this container; results of an earlier container of the same name do not count.
    fn probe_results(&self, name: &str, status: &ContainerStatus) -> Option<&'a ContainerProbeResults> {
        self.probes.get(name).filter(|probe_results| probe_results.id == status.id)
    }
}

/// Plans one sync.
pub fn plan(pod: &Pod, observed: &ObservedPod, probes: &ProbeResults) -> PodActions {
    let inputs = PlanInputs { pod, observed, probes };
    let sandbox = sandbox_state(pod, observed);
    if restarts_all_containers(pod, observed) {
        let sandbox_plan = sandbox.map_or(SandboxPlan::None, SandboxPlan::Keep);
        return PodActions { reset: restart_all::resets(pod, observed), ..PodActions::new(sandbox_plan) };
    }
    match sandbox {
        Ok(id) => plan_in_sandbox(&inputs, &id),
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
    let desired_network = if pod.is_host_network() { NamespaceMode::Node } else { NamespaceMode::Pod };
    if ready > 1 {
        Err((SandboxReason::SeveralReady, attempt))
    } else if newest.state != SandboxState::Ready {
        Err((SandboxReason::NotReady, attempt))
    } else if newest.network != desired_network {
        Err((SandboxReason::NetworkChanged, attempt))
    } else if !pod.is_host_network() && newest.lacks_address() {
        Err((SandboxReason::NoAddress, attempt))
    } else {
        Ok(newest.id.clone())
    }
}

fn plan_new_sandbox(pod: &Pod, observed: &ObservedPod, reason: SandboxReason, attempt: u32) -> PodActions {
    let nothing = PodActions { stop_everything: observed.is_alive(), ..PodActions::new(SandboxPlan::None) };
    // A pod with restart policy Never has finished once its sandbox is lost, if it ever ran a container.
    let may_restart = || pod.spec.containers.iter().any(|container| restart::is_restartable(pod, container));
    if restart_policy(pod) == RestartPolicy::Never && attempt != 0 && has_run(observed) && !may_restart() {
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
    let init = pod.spec.init_containers.as_deref().unwrap_or_default();
    let of_init = |status: &&ContainerStatus| init.iter().any(|container| container.name == status.name);
    PodActions {
        // A dead sandbox keeps its network until it is stopped.
        stop_everything: observed.is_alive() || !observed.sandboxes.is_empty(),
        discard: containers_that_never_ran(observed).collect(),
        purge: observed
            .containers
            .iter()
            .filter(|status| !never_ran(status))
            .filter(of_init)
            .map(|status| status.id.clone())
            .collect(),
        start: match init.first() {
            Some(container) => vec![self::start(container, ContainerKind::Init, observed)],
            None => start,
        },
        ..PodActions::new(SandboxPlan::Create { attempt, reason })
    }
}

fn plan_in_sandbox(inputs: &PlanInputs<'_>, sandbox: &SandboxId) -> PodActions {
    let PlanInputs { pod, observed, .. } = *inputs;
    let mut actions = PodActions::new(SandboxPlan::Keep(sandbox.clone()));
    actions.discard.extend(containers_that_never_ran(observed));
    actions.kill.extend(superseded(pod, observed));
    // Ephemeral containers help to debug a pod that does not start, so they do not wait for init containers.
    let missing =
        pod.ephemeral_containers().filter(|entry| current(observed, &entry.container.name).is_none());
    actions.start.extend(missing.map(|entry| start(entry.container, entry.kind, observed)));
    match init::plan_init(inputs, sandbox, &mut actions) {
        InitProgress::Done => {}
        InitProgress::Pending => return actions,
        InitProgress::Failed => {
            return PodActions { stop_everything: true, ..PodActions::new(actions.sandbox) };
        }
    }
    let (mut kept, mut started) = (0, 0);
    for container in &pod.spec.containers {
        let starts = match decide_container(inputs, container) {
            ContainerDecision::Keep => {
                kept += 1;
                false
            }
            ContainerDecision::Leave => false,
            ContainerDecision::Start => true,
            ContainerDecision::Kill(kill) => {
                let restart = kill.restart;
                actions.kill.push(kill);
                restart
            }
        };
        if starts {
            started += 1;
            actions.start.push(start(container, ContainerKind::Regular, observed));
        }
    }
    if kept == 0 && started == 0 {
        return PodActions { stop_everything: true, ..PodActions::new(actions.sandbox) };
    }
    actions
}

enum ContainerDecision {
    /// Keeps running.
    Keep,
    /// Has exited and is not restarted.
    Leave,
    Start,
    Kill(KillContainer),
}

fn decide_container(inputs: &PlanInputs<'_>, container: &Container) -> ContainerDecision {
    let PlanInputs { pod, observed, .. } = *inputs;
    let Some(status) = current(observed, &container.name) else {
        return ContainerDecision::Start;
    };
    let kill = |reason, restart| {
        ContainerDecision::Kill(KillContainer::new(status, ContainerKind::Regular, reason, restart))
    };
    match status.state {
        ContainerState::Running => {
            // A running container has no exit code, so restart rules do not apply.
            let may_restart = effective_policy(pod, container) != RestartPolicy::Never;
            let probe_results = inputs.probe_results(&container.name, status);
            let failed = |result: Option<ProbeResult>| result == Some(ProbeResult::Failure);
            if definition_changed(container, status) {
                kill(KillReason::DefinitionChanged, true)
            } else if failed(probe_results.and_then(|probe_results| probe_results.liveness)) {
                kill(KillReason::LivenessFailed, may_restart)
            } else if failed(probe_results.and_then(|probe_results| probe_results.startup)) {
                kill(KillReason::StartupFailed, may_restart)
            } else {
                ContainerDecision::Keep
            }
        }
        ContainerState::Unknown => kill(KillReason::UnknownState, true),
        ContainerState::Exited if should_restart(pod, status) => ContainerDecision::Start,
        ContainerState::Exited | ContainerState::Created => ContainerDecision::Leave,
    }
}

fn start(container: &Container, kind: ContainerKind, observed: &ObservedPod) -> StartContainer {
    let unstarted = observed.containers_named(&container.name).find(|status| never_ran(status));
    let restart_count = unstarted
        .map(restart_count)
        .or_else(|| current(observed, &container.name).map(|status| restart_count(status).saturating_add(1)));
    StartContainer { name: container.name.clone(), kind, restart_count }
}

/// The newest container of a name that ever ran.
fn current<'a>(observed: &'a ObservedPod, name: &'a str) -> Option<&'a ContainerStatus> {
    observed.containers_named(name).find(|status| !never_ran(status))
}

/// Older containers that still run although a newer one of the same name exists.
fn superseded<'a>(pod: &'a Pod, observed: &'a ObservedPod) -> impl Iterator<Item = KillContainer> + 'a {
    pod.containers().flat_map(|entry| {
        let name = entry.container.name.as_str();
        observed
            .containers_named(name)
            .filter(|status| !never_ran(status))
            .skip(1)
            .filter(|status| matches!(status.state, ContainerState::Running | ContainerState::Unknown))
            .map(move |status| KillContainer::new(status, entry.kind, KillReason::Superseded, false))
    })
}

fn containers_that_never_ran(observed: &ObservedPod) -> impl Iterator<Item = ContainerId> {
    observed.containers.iter().filter(|status| never_ran(status)).map(|status| status.id.clone())
}

/// Whether a container never ran because the agent was killed while creating it: the container was not started, or its
/// start was cancelled with the connection. containerd records the latter as an exit without a start time.
pub fn never_ran(status: &ContainerStatus) -> bool {
    match status.state {
        ContainerState::Created => true,
        ContainerState::Exited => status.started_at.is_zero() && is_cancelled_start(&status.message),
        ContainerState::Running | ContainerState::Unknown => false,
    }
}

/// Whether containerd's error of a failed start means that the client disconnected. containerd passes the cancellation on
/// to the current step; of the programs it runs, only the one that starts the shim is killed. `runc` is not, so its
/// `signal: killed` is a real failure.
fn is_cancelled_start(message: &str) -> bool {
    message.contains("context canceled")
        || (message.contains("failed to start shim: start failed: ") && message.contains(": signal: killed"))
}

/// The restart count that a container was created with.
pub fn restart_count(status: &ContainerStatus) -> u32 {
    status.annotations.get(labels::RESTART_COUNT).and_then(|text| text.parse().ok()).unwrap_or(status.attempt)
}

/// Whether the pod has finished: no container runs, and none will be started again.
pub fn is_finished(pod: &Pod, observed: &ObservedPod) -> bool {
    let init = || pod.spec.init_containers.as_deref().unwrap_or_default().iter();
    let state = |name| current(observed, name).map(|status| status.state);
    // The last init container with a status decides, as in the plan: all before it have completed.
    let latest = init().rev().find_map(|own| current(observed, &own.name).map(|status| (own, status)));
    let init_failed = latest.is_some_and(|(container, status)| {
        !is_sidecar(container)
            && status.state == ContainerState::Exited
            && init::failed(status)
            && !should_restart(pod, status)
    });
    // A regular container that was created, even if it never ran, proves that the init containers had completed: the failed
    // one is older.
    let regular_was_created =
        || pod.spec.containers.iter().any(|own| observed.containers_named(&own.name).next().is_some());
    if init_failed && !regular_was_created() {
        return true;
    }
    let sidecars_ended = init().filter(|container| is_sidecar(container)).all(|container| {
        !matches!(state(&container.name), Some(ContainerState::Running | ContainerState::Unknown))
    });
    sidecars_ended
        && pod.spec.containers.iter().all(|container| {
            current(observed, &container.name)
                .filter(|status| status.state == ContainerState::Exited)
                .is_some_and(|status| !should_restart(pod, status))
        })
}

fn should_start_in_new_sandbox(pod: &Pod, container: &Container, observed: &ObservedPod) -> bool {
    let exited = current(observed, &container.name).filter(|status| status.state == ContainerState::Exited);
    let Some(status) = exited else { return !pod.is_deleted() };
    // In a new sandbox all containers start again, except those that should run once and have.
    let completed = match restart::own_policy(container) {
        Some(RestartPolicy::OnFailure) => status.exit_code == 0,
        Some(RestartPolicy::Always) => false,
        // With init containers the container would not be restarted, and the sandbox would be stopped and recreated forever.
        Some(RestartPolicy::Never) => {
            restart_policy(pod) == RestartPolicy::Never
                || pod.spec.init_containers.as_ref().is_some_and(|init| !init.is_empty())
        }
        None => return should_restart(pod, status),
    };
    !completed && !pod.is_deleted()
}

fn definition_changed(container: &Container, status: &ContainerStatus) -> bool {
    let hash = as_annotation(container_hash(container));
    status.annotations.get(labels::CONTAINER_HASH).is_some_and(|recorded| *recorded != hash)
}

fn has_regular_container(pod: &Pod, observed: &ObservedPod) -> bool {
    pod.spec.containers.iter().any(|container| current(observed, &container.name).is_some())
}

fn has_run(observed: &ObservedPod) -> bool {
    observed.containers.iter().any(|status| !never_ran(status))
}

#[cfg(test)]
mod tests;
