//! Whether containers have started and are ready, by what their probes say.

use k8s_openapi::api::core::v1::{Container, ContainerStatus};
use model::{ContainerVerdicts, ProbeVerdict};

use super::{Facts, Statuses};
use crate::pod_actions::is_sidecar;

/// Fills in `started` and `ready`.
pub(super) fn judge(facts: &Facts<'_>, statuses: &mut Statuses) {
    for status in &mut statuses.regular {
        if let Some(container) = facts.pod.spec.containers.iter().find(|entry| entry.name == status.name) {
            judge_one(facts, container, status);
        }
    }
    for status in &mut statuses.init {
        let mut init = facts.pod.spec.init_containers.iter().flatten();
        let Some(container) = init.find(|entry| entry.name == status.name) else { continue };
        judge_one(facts, container, status);
        if !is_sidecar(container) {
            // An init container that did its work counts as ready.
            let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
            status.ready = ended.is_some_and(|ended| ended.exit_code == 0);
        }
    }
}

fn judge_one(facts: &Facts<'_>, container: &Container, status: &mut ContainerStatus) {
    let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
    let verdicts = verdicts(facts, status);
    let before = before(facts, status);
    let started = runs
        && match verdicts.and_then(|verdicts| verdicts.startup) {
            Some(verdict) => verdict == ProbeVerdict::Success,
            // What was started once stays so, also for an agent that has not asked yet.
            None => container.startup_probe.is_none() || before.is_some_and(|old| old.started == Some(true)),
        };
    status.started = Some(started);
    status.ready = started
        && match verdicts.and_then(|verdicts| verdicts.readiness) {
            Some(verdict) => verdict == ProbeVerdict::Success,
            None => container.readiness_probe.is_none() || before.is_some_and(|old| old.ready),
        };
}

/// What the probes say of this very container.
fn verdicts<'a>(facts: &Facts<'a>, status: &ContainerStatus) -> Option<&'a ContainerVerdicts> {
    let verdicts = facts.verdicts?.get(&status.name)?;
    let id = status.container_id.as_deref()?.rsplit_once("://")?.1;
    (verdicts.id.as_str() == id).then_some(verdicts)
}

/// What was reported of this very container.
fn before<'a>(facts: &Facts<'a>, status: &ContainerStatus) -> Option<&'a ContainerStatus> {
    let previous = facts.previous.filter(|_| !facts.node.gates.restart_forgets_probes)?;
    let lists = [&previous.container_statuses, &previous.init_container_statuses];
    lists
        .into_iter()
        .flatten()
        .flatten()
        .find(|old| old.name == status.name && old.container_id == status.container_id)
        .filter(|old| old.container_id.is_some())
}
