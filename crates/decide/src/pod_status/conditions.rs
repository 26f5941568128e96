use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};
use model::SandboxState;

use super::Facts;
use crate::pod_actions::is_sidecar;

/// The conditions the agent owns, in the order upstream shows them.
pub(super) fn conditions(
    facts: &Facts<'_>,
    status: &PodStatus,
    init: &[ContainerStatus],
    regular: &[ContainerStatus],
) -> Vec<PodCondition> {
    let verdicts = [
        ("PodReadyToStartContainers", sandbox_up(facts)),
        ("Initialized", initialized(facts, status, init)),
        ("Ready", ready(status, regular)),
        ("ContainersReady", ready(status, regular)),
        ("PodScheduled", Verdict::yes()),
    ];
    verdicts.into_iter().map(|(kind, verdict)| condition(facts, kind, verdict)).collect()
}

struct Verdict {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
    fn yes() -> Self {
        Self { holds: true, reason: None, message: None }
    }

    fn no(reason: &'static str, message: Option<String>) -> Self {
        Self { holds: false, reason: Some(reason), message }
    }
}

fn condition(facts: &Facts<'_>, kind: &str, verdict: Verdict) -> PodCondition {
    let text = if verdict.holds { "True" } else { "False" };
    let before = facts
        .previous
        .and_then(|previous| previous.conditions.as_ref())
        .and_then(|conditions| conditions.iter().find(|condition| condition.type_ == kind));
    let last_transition_time = before
        .filter(|condition| condition.status == text)
        .and_then(|condition| condition.last_transition_time.clone())
        .unwrap_or_else(|| facts.now.to_api_time());
    PodCondition {
        type_: kind.to_owned(),
        status: text.to_owned(),
        reason: verdict.reason.map(str::to_owned),
        message: verdict.message,
        last_transition_time: Some(last_transition_time),
        last_probe_time: None,
        observed_generation: facts.pod.metadata.generation,
    }
}

fn sandbox_up(facts: &Facts<'_>) -> Verdict {
    let up = facts.observed.is_some_and(|observed| {
        observed.sandboxes.first().is_some_and(|sandbox| {
            sandbox.state == SandboxState::Ready && (facts.pod.is_host_network() || !sandbox.ips.is_empty())
        })
    });
    Verdict { holds: up, reason: None, message: None }
}

fn initialized(facts: &Facts<'_>, status: &PodStatus, init: &[ContainerStatus]) -> Verdict {
    if status.phase.as_deref() == Some("Succeeded") && !init.is_empty() {
        return Verdict { holds: true, reason: Some("PodCompleted"), message: None };
    }
    let pending: Vec<&str> = init
        .iter()
        .filter(|entry| !entry.ready)
        .filter(|entry| {
            let spec = facts.pod.spec.init_containers.iter().flatten().find(|spec| spec.name == entry.name);
            // A sidecar has done its part for initialisation once it has started.
            !(spec.is_some_and(is_sidecar) && entry.started == Some(true))
        })
        .map(|entry| entry.name.as_str())
        .collect();
    if pending.is_empty() {
        Verdict::yes()
    } else {
        Verdict::no(
            "ContainersNotInitialized",
            Some(format!("containers with incomplete status: [{}]", pending.join(" "))),
        )
    }
}

fn ready(status: &PodStatus, regular: &[ContainerStatus]) -> Verdict {
    match status.phase.as_deref() {
        Some("Succeeded") => return Verdict::no("PodCompleted", None),
        Some("Failed") => return Verdict::no("PodFailed", None),
        _ => {}
    }
    let unready: Vec<&str> =
        regular.iter().filter(|entry| !entry.ready).map(|entry| entry.name.as_str()).collect();
    if unready.is_empty() {
        Verdict::yes()
    } else {
        Verdict::no(
            "ContainersNotReady",
            Some(format!("containers with unready status: [{}]", unready.join(" "))),
        )
    }
}
