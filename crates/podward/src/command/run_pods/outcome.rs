//! Whether all pods of a run have ended, and the exit code of what ran.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Running,
    /// Every pod has succeeded or failed.
    Ended {
        exit_code: u8,
    },
}

/// The exit code is that of the first container that failed in the first failed pod, init containers first. A pod that
/// failed without one (evicted, rejected) gives 1.
pub(super) fn outcome(expected: usize, statuses: &[Option<PodStatus>]) -> Outcome {
    let phase = |status: &Option<PodStatus>| status.as_ref().and_then(|status| status.phase.clone());
    let has_ended =
        |status: &&Option<PodStatus>| matches!(phase(status).as_deref(), Some("Succeeded" | "Failed"));
    if statuses.len() < expected || !statuses.iter().all(|status| has_ended(&status)) {
        return Outcome::Running;
    }
    let failed = statuses.iter().flatten().find(|status| status.phase.as_deref() == Some("Failed"));
    Outcome::Ended { exit_code: failed.map_or(0, failure_of) }
}

fn failure_of(status: &PodStatus) -> u8 {
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let code = containers.filter_map(exit_code).find(|code| *code != 0).unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}

fn exit_code(status: &ContainerStatus) -> Option<i32> {
    status.state.as_ref()?.terminated.as_ref().map(|terminated| terminated.exit_code)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(expected: usize, statuses: &[Value], outcome_expected: Outcome) {
        let statuses: Vec<_> =
            statuses.iter().map(|status| serde_json::from_str(&status.to_string()).unwrap()).collect();
        assert_eq!(outcome(expected, &statuses), outcome_expected, "{statuses:?}");
    }

    fn ended(name: &str, code: i32) -> Value {
        json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code}}})
    }

    #[test]
    fn run_ends_when_every_pod_has_ended() {
        let done = json!({"phase": "Succeeded", "containerStatuses": [ended("a", 0)]});
        check(2, std::slice::from_ref(&done), Outcome::Running);
        check(2, &[done.clone(), json!(null)], Outcome::Running);
        check(2, &[done.clone(), json!({"phase": "Running"})], Outcome::Running);
        check(2, &[done.clone(), done], Outcome::Ended { exit_code: 0 });
    }

    #[test]
    fn exit_code_is_that_of_the_first_failed_container() {
        let failed = json!({"phase": "Failed", "initContainerStatuses": [ended("i", 0)],
            "containerStatuses": [ended("a", 0), ended("b", 7), ended("c", 9)]});
        check(1, &[failed], Outcome::Ended { exit_code: 7 });
        let by_init =
            json!({"phase": "Failed", "initContainerStatuses": [ended("i", 3)], "containerStatuses": []});
        check(1, &[by_init], Outcome::Ended { exit_code: 3 });
        let killed = json!({"phase": "Failed", "containerStatuses": [ended("a", 137)]});
        check(1, &[killed], Outcome::Ended { exit_code: 137 });
    }

    #[test]
    fn pod_without_a_failed_container_gives_one() {
        check(1, &[json!({"phase": "Failed", "reason": "NodePorts"})], Outcome::Ended { exit_code: 1 });
        let large = json!({"phase": "Failed", "containerStatuses": [ended("a", 3000)]});
        check(1, &[large], Outcome::Ended { exit_code: 255 });
    }
}
