//! Which containers restart: the container's rules come first, then its own policy, then the pod's.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};
use model::{ContainerStatus, Pod};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

pub fn restart_policy(pod: &Pod) -> RestartPolicy {
    parse(pod.spec.restart_policy.as_deref()).unwrap_or(RestartPolicy::Always)
}

/// The container's own policy, or the pod's.
pub fn effective_policy(pod: &Pod, container: &Container) -> RestartPolicy {
    own_policy(container).unwrap_or_else(|| restart_policy(pod))
}

pub(super) fn own_policy(container: &Container) -> Option<RestartPolicy> {
    parse(container.restart_policy.as_deref())
}

/// Whether an exited container must be restarted.
pub fn should_restart(pod: &Pod, status: &ContainerStatus) -> bool {
    let container = pod.container(&status.name).map(|entry| entry.container);
    !pod.is_deleted()
        && match container {
            Some(container) => restarts_after(pod, container, status.exit_code),
            None => restart_policy(pod).restarts(status.exit_code),
        }
}

/// Whether a container is restarted after this exit code.
pub fn restarts_after(pod: &Pod, container: &Container, exit_code: i32) -> bool {
    // Rules apply only if the container has its own policy.
    let rule = own_policy(container).and_then(|_| matching_rule(container, exit_code));
    match rule.map(|rule| rule.action.as_str()) {
        Some("Restart" | "RestartAllContainers") => true,
        Some(_) | None => effective_policy(pod, container).restarts(exit_code),
    }
}

/// Whether there is any exit code after which the container is restarted.
pub(super) fn is_restartable(pod: &Pod, container: &Container) -> bool {
    let restarts =
        |rule: &ContainerRestartRule| matches!(rule.action.as_str(), "Restart" | "RestartAllContainers");
    effective_policy(pod, container) != RestartPolicy::Never
        || container.restart_policy_rules.iter().flatten().any(restarts)
}

/// Whether this exit code restarts all containers of the pod.
pub(super) fn restarts_all_after(container: &Container, exit_code: i32) -> bool {
    matching_rule(container, exit_code).is_some_and(|rule| rule.action == "RestartAllContainers")
}

/// Whether an init container keeps running next to the regular containers.
pub fn is_sidecar(container: &Container) -> bool {
    own_policy(container) == Some(RestartPolicy::Always)
}

/// The first rule that matches the exit code.
fn matching_rule(container: &Container, exit_code: i32) -> Option<&ContainerRestartRule> {
    container.restart_policy_rules.iter().flatten().find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.iter().flatten().any(|code| *code == exit_code);
            match codes.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    })
}

fn parse(policy: Option<&str>) -> Option<RestartPolicy> {
    match policy {
        Some("Always") => Some(RestartPolicy::Always),
        Some("OnFailure") => Some(RestartPolicy::OnFailure),
        Some("Never") => Some(RestartPolicy::Never),
        Some(_) | None => None,
    }
}
