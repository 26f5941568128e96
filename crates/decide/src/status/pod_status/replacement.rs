//! Containers that a sync replaces.
//!
//! Between the exit of the old container and the start of the new one the pod has not ended, whatever its restart policy
//! is. Showing the exit would make the pod terminal under `OnFailure` and `Never`, and the API server refuses to let a
//! terminated container of such a pod run again. So the old state stands until the new container exists or the sync has
//! ended without it.

use model::{ContainerState, ContainerStatus, Observation, ObservedPod, Replacement};

use super::{PodStatusInputs, is_syncing};
use crate::pipeline::pod_actions::never_ran;

/// The observation with the old state of the containers that are being replaced; `None` if there are none.
pub(super) fn observation_before_replacement(inputs: &PodStatusInputs<'_>) -> Option<ObservedPod> {
    let (replacement, observed) = (inputs.replacement?, inputs.observed?);
    if !is_syncing(inputs) || shows_result(observed, replacement) {
        return None;
    }
    let mut standing = observed.clone();
    for old in &replacement.containers {
        restore(&mut standing.containers, old);
    }
    Some(standing)
}

/// Whether the observation began after the sync, so that it has the new containers if their start succeeded.
fn shows_result(observed: &ObservedPod, replacement: &Replacement) -> bool {
    observed.observation == Observation::Complete
        && replacement.ended.is_some_and(|ended| observed.moment > ended)
}

fn restore(containers: &mut Vec<ContainerStatus>, old: &ContainerStatus) {
    let newest = containers.iter_mut().find(|status| status.name == old.name && !never_ran(status));
    match newest {
        Some(status) if status.id == old.id && status.state == ContainerState::Exited => {
            *status = old.clone();
        }
        Some(_) => {}
        // A sync that creates a new sandbox also removes the old init containers.
        None => containers.push(old.clone()),
    }
}

#[cfg(test)]
mod tests {
    use model::{Moment, MomentSource, Pod, SandboxState, WorkerPhase};

    use super::super::tests::{exited, inputs, node, worker};
    use super::super::{PodStatus, pod_status};
    use super::*;
    use crate::test_objects::{container, observed, pod, sandbox};

    fn one_container(policy: &str) -> Pod {
        let spec = serde_json::json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "x"}]});
        let mut pod = pod(spec);
        pod.source = model::PodSource::Api;
        pod
    }

    fn running(attempt: u32) -> ContainerStatus {
        container(&format!("a{attempt}"), "a", attempt, ContainerState::Running)
    }

    fn moment(count: u64) -> Moment {
        let source = MomentSource::default();
        (0..count).fold(Moment::START, |_, _| source.next())
    }

    struct Step {
        containers: Vec<ContainerStatus>,
        observed_at: Moment,
        ended: Option<Moment>,
        phase: WorkerPhase,
    }

    impl Default for Step {
        fn default() -> Self {
            Self {
                containers: vec![exited("a", 0, 0)],
                observed_at: moment(1),
                ended: None,
                phase: WorkerPhase::Syncing,
            }
        }
    }

    /// The status after a step, continued from the status before the container was stopped.
    fn check(policy: &str, step: Step) -> (PodStatus, PodStatus) {
        let (pod, node, worker) = (one_container(policy), node(), worker(step.phase));
        let mut seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![running(0)]);
        let before = pod_status(&inputs(&pod, &seen, &node));
        seen.containers = step.containers;
        seen.moment = step.observed_at;
        let replacement = Replacement { containers: vec![running(0)], ended: step.ended };
        let after = pod_status(&PodStatusInputs {
            worker: Some(&worker),
            previous: Some(&before),
            own: Some(&before),
            replacement: Some(&replacement),
            ..inputs(&pod, &seen, &node)
        });
        (before, after)
    }

    fn summary(status: &PodStatus) -> (&str, String, bool, i32) {
        let container = &status.container_statuses.as_ref().unwrap()[0];
        let id = container.container_id.clone().unwrap_or_default();
        let runs = container.state.as_ref().unwrap().running.is_some();
        (status.phase.as_deref().unwrap(), id, runs, container.restart_count)
    }

    #[test]
    fn status_stands_until_the_new_container_runs() {
        for policy in ["Always", "OnFailure", "Never"] {
            let (before, after) = check(policy, Step::default());
            assert_eq!(after, before, "{policy}: the sync runs");
            let created = container("a1", "a", 1, ContainerState::Created);
            let containers = vec![created, exited("a", 0, 0)];
            let (before, after) = check(policy, Step { containers, ..Step::default() });
            assert_eq!(after, before, "{policy}: the new container was not started yet");
            let (before, after) = check(policy, Step { containers: vec![], ..Step::default() });
            assert_eq!(after, before, "{policy}: the old container was removed");
            let step = Step { ended: Some(moment(2)), ..Step::default() };
            let (before, after) = check(policy, step);
            assert_eq!(after, before, "{policy}: the observation is older than the end of the sync");

            let containers = vec![running(1), exited("a", 0, 7)];
            let (_, after) = check(policy, Step { containers, ..Step::default() });
            assert_eq!(summary(&after), ("Running", "containerd://a1".to_owned(), true, 1), "{policy}");
            let last = after.container_statuses.unwrap()[0].last_state.clone().unwrap();
            assert_eq!(last.terminated.unwrap().exit_code, 7, "{policy}");
        }
    }

    #[test]
    fn exit_shows_once_the_start_has_failed() {
        for (policy, code, phase) in
            [("Always", 0, "Running"), ("OnFailure", 0, "Succeeded"), ("Never", 137, "Failed")]
        {
            let step = Step {
                containers: vec![exited("a", 0, code)],
                observed_at: moment(3),
                ended: Some(moment(2)),
                ..Step::default()
            };
            let (_, after) = check(policy, step);
            assert_eq!(summary(&after), (phase, "containerd://a0".to_owned(), false, 0), "{policy}");
        }
    }

    #[test]
    fn exit_of_the_new_container_shows_at_once() {
        let containers = vec![exited("a", 1, 3), exited("a", 0, 0)];
        let (_, after) = check("Never", Step { containers, ..Step::default() });
        assert_eq!(summary(&after), ("Failed", "containerd://a1".to_owned(), false, 1));
    }

    #[test]
    fn exit_shows_when_the_pod_terminates_instead() {
        let (_, after) = check("Never", Step { phase: WorkerPhase::Terminating, ..Step::default() });
        assert_eq!(summary(&after), ("Succeeded", "containerd://a0".to_owned(), false, 0));
    }

    #[test]
    fn status_stands_while_the_pod_cannot_be_observed() {
        let (pod, node) = (one_container("Never"), node());
        let mut seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![exited("a", 0, 0)]);
        seen.observation = Observation::Failed("no answer".to_owned());
        seen.moment = moment(3);
        let replacement = Replacement { containers: vec![running(0)], ended: Some(moment(2)) };
        let status =
            pod_status(&PodStatusInputs { replacement: Some(&replacement), ..inputs(&pod, &seen, &node) });
        assert_eq!(summary(&status).0, "Running");
    }
}
