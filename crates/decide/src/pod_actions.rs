//! What one pass of a worker must do so that the runtime holds what the spec says.
//!
//! Applied to a runtime that obeys, the plan leads to a state in which the next plan is empty.

mod init;
mod kill;
mod restart;
mod restart_all;

use k8s_openapi::api::core::v1::Container;
use model::{
    ContainerId, ContainerKind, ContainerState, ContainerStatus, ContainerVerdicts, NamespaceMode,
    ObservedPod, Pod, ProbeVerdict, ProbeVerdicts, SandboxId, SandboxState, labels,
};

use crate::container_hash::{as_annotation, container_hash};
use init::Progress;

pub use kill::{KillContainer, KillReason};
pub use restart::{
    RestartPolicy, effective_policy, is_sidecar, restart_policy, restarts_after, should_restart,
};
pub use restart_all::{ResetContainer, all_containers_restart};

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
    /// Init containers of an earlier sandbox: removed with their logs, so that none of them counts as done.
    pub purge: Vec<ContainerId>,
    /// Containers to remove, in order, because the whole pod begins again.
    pub reset: Vec<ResetContainer>,
    /// Containers to start, in order: ephemeral, init, regular.
    pub start: Vec<StartContainer>,
}

impl SandboxReason {
    /// Whether users are told that the sandbox before was not fit any more.
    #[must_use]
    pub fn is_told(self) -> bool {
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

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.removes() && !matches!(self.sandbox, SandboxPlan::Create { .. }) && self.start.is_empty()
    }

    /// Adds the stop of sandboxes that died by themselves in a pod that gets no other one: until it is stopped, a
    /// dead sandbox keeps its address and its ports of the node. `stopped` are those that were.
    pub fn stop_dead(&mut self, observed: &ObservedPod, stopped: &[SandboxId]) {
        if self.sandbox == SandboxPlan::None && self.reset.is_empty() {
            self.stop_everything |= observed.sandboxes.iter().any(|sandbox| !stopped.contains(&sandbox.id));
        }
    }

    /// Whether something is stopped or removed.
    #[must_use]
    pub fn removes(&self) -> bool {
        self.stop_everything
            || !self.kill.is_empty()
            || !self.discard.is_empty()
            || !self.purge.is_empty()
            || !self.reset.is_empty()
    }
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
struct Situation<'a> {
    pod: &'a Pod,
    observed: &'a ObservedPod,
    probes: &'a ProbeVerdicts,
}

impl<'a> Situation<'a> {
    /// What the probes say of exactly this container.
    fn verdicts(&self, name: &str, status: &ContainerStatus) -> Option<&'a ContainerVerdicts> {
        self.probes.get(name).filter(|verdicts| verdicts.id == status.id)
    }
}

/// Plans one pass.
#[must_use]
pub fn plan(pod: &Pod, observed: &ObservedPod, probes: &ProbeVerdicts) -> PodActions {
    let situation = Situation { pod, observed, probes };
    let sandbox = sandbox_state(pod, observed);
    if all_containers_restart(pod, observed) {
        let kept = sandbox.map_or(SandboxPlan::None, SandboxPlan::Keep);
        return PodActions { reset: restart_all::resets(pod, observed), ..PodActions::new(kept) };
    }
    match sandbox {
        Ok(id) => plan_in_sandbox(&situation, &id),
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
    } else if !pod.is_host_network() && newest.lacks_address() {
        Err((SandboxReason::NoAddress, attempt))
    } else {
        Ok(newest.id.clone())
    }
}

fn plan_new_sandbox(pod: &Pod, observed: &ObservedPod, reason: SandboxReason, attempt: u32) -> PodActions {
    let nothing = PodActions { stop_everything: observed.is_alive(), ..PodActions::new(SandboxPlan::None) };
    // A pod that must not be restarted is over once its sandbox is gone, if it ever had containers.
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
        // A sandbox that died by itself has not given back its network.
        stop_everything: observed.is_alive() || !observed.sandboxes.is_empty(),
        discard: half_made(observed).collect(),
        purge: observed
            .containers
            .iter()
            .filter(|status| !is_half_made(status))
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

fn plan_in_sandbox(situation: &Situation<'_>, sandbox: &SandboxId) -> PodActions {
    let Situation { pod, observed, .. } = *situation;
    let mut actions = PodActions::new(SandboxPlan::Keep(sandbox.clone()));
    actions.discard.extend(half_made(observed));
    actions.kill.extend(superseded(pod, observed));
    // They may help to find out why the pod does not come up, so they do not wait for anything.
    let missing =
        pod.ephemeral_containers().filter(|entry| current(observed, &entry.container.name).is_none());
    actions.start.extend(missing.map(|entry| start(entry.container, entry.kind, observed)));
    match init::plan_init(situation, sandbox, &mut actions) {
        Progress::Done => {}
        Progress::Pending => return actions,
        Progress::Failed => {
            return PodActions { stop_everything: true, ..PodActions::new(actions.sandbox) };
        }
    }
    let (mut kept, mut started) = (0, 0);
    for container in &pod.spec.containers {
        let starts = match fate(situation, container) {
            Fate::Keep => {
                kept += 1;
                false
            }
            Fate::Leave => false,
            Fate::Start => true,
            Fate::Kill { id, reason, restart } => {
                let (name, kind) = (container.name.clone(), ContainerKind::Regular);
                actions.kill.push(KillContainer { id, name, kind, reason, restart });
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

fn fate(situation: &Situation<'_>, container: &Container) -> Fate {
    let Situation { pod, observed, .. } = *situation;
    let Some(status) = current(observed, &container.name) else {
        return Fate::Start;
    };
    let kill = |reason, restart| Fate::Kill { id: status.id.clone(), reason, restart };
    match status.state {
        ContainerState::Running => {
            // It has no exit code that a rule could look at.
            let may_restart = effective_policy(pod, container) != RestartPolicy::Never;
            let verdicts = situation.verdicts(&container.name, status);
            let failed = |verdict: Option<ProbeVerdict>| verdict == Some(ProbeVerdict::Failure);
            if definition_changed(container, status) {
                kill(KillReason::DefinitionChanged, true)
            } else if failed(verdicts.and_then(|verdicts| verdicts.liveness)) {
                kill(KillReason::LivenessFailed, may_restart)
            } else if failed(verdicts.and_then(|verdicts| verdicts.startup)) {
                kill(KillReason::StartupFailed, may_restart)
            } else {
                Fate::Keep
            }
        }
        ContainerState::Unknown => kill(KillReason::UnknownState, true),
        ContainerState::Exited if should_restart(pod, status) => Fate::Start,
        ContainerState::Exited | ContainerState::Created => Fate::Leave,
    }
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
            .map(move |status| KillContainer {
                id: status.id.clone(),
                name: status.name.clone(),
                kind: entry.kind,
                reason: KillReason::Superseded,
                restart: false,
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
        ContainerState::Exited => status.started_at.is_zero() && is_cut_start(&status.message),
        ContainerState::Running | ContainerState::Unknown => false,
    }
}

/// Whether containerd's words about a failed start tell of a caller that went away. It hands the cancelled call down
/// to whatever runs just then; only the program that finds or starts the shim is killed for it. `runc` is not, so
/// that one's `signal: killed` is a failure of its own.
fn is_cut_start(message: &str) -> bool {
    message.contains("context canceled")
        || (message.contains("failed to start shim: start failed: ") && message.contains(": signal: killed"))
}

/// The restart count a container was made with.
#[must_use]
pub fn restart_count(status: &ContainerStatus) -> u32 {
    status.annotations.get(labels::RESTART_COUNT).and_then(|text| text.parse().ok()).unwrap_or(status.attempt)
}

/// Whether the pod has run to its end: nothing runs and nothing will be started again.
#[must_use]
pub fn is_finished(pod: &Pod, observed: &ObservedPod) -> bool {
    let init = || pod.spec.init_containers.as_deref().unwrap_or_default().iter();
    let state = |name| current(observed, name).map(|status| status.state);
    // The latest that is known decides, as it does for the plan: those before it are done.
    let latest = init().rev().find_map(|own| current(observed, &own.name).map(|status| (own, status)));
    let init_failed = latest.is_some_and(|(container, status)| {
        !is_sidecar(container)
            && status.state == ContainerState::Exited
            && init::failed(status)
            && !should_restart(pod, status)
    });
    // One that was made, even if it never ran, shows that the init containers were done: what failed is older.
    let regular_was_made =
        || pod.spec.containers.iter().any(|own| observed.containers_named(&own.name).next().is_some());
    if init_failed && !regular_was_made() {
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
    let ended = current(observed, &container.name).filter(|status| status.state == ContainerState::Exited);
    let Some(status) = ended else { return !pod.is_deleted() };
    // In a new sandbox everything begins again, but for what was to run once and did.
    let over = match restart::own_policy(container) {
        Some(RestartPolicy::OnFailure) => status.exit_code == 0,
        Some(RestartPolicy::Always) => false,
        // Behind init containers it would be left as it ended, and the sandbox be stopped and made again for ever.
        Some(RestartPolicy::Never) => {
            restart_policy(pod) == RestartPolicy::Never
                || pod.spec.init_containers.as_ref().is_some_and(|init| !init.is_empty())
        }
        None => return should_restart(pod, status),
    };
    !over && !pod.is_deleted()
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
