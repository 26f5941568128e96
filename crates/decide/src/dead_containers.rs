//! Which dead containers of a pod can go.

use std::collections::BTreeMap;

use model::{ContainerId, ContainerState, ContainerStatus, ObservedPod, SandboxId, SandboxState};

use crate::pod_actions::is_half_made;

/// Dead containers and sandboxes beyond what is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surplus {
    /// Containers, oldest first.
    pub containers: Vec<ContainerId>,
    /// Sandboxes without containers, oldest first.
    pub sandboxes: Vec<SandboxId>,
}

/// Keeps the newest `keep` dead containers of each name (1 at least, so that logs and the last state survive)
/// and the newest sandbox.
#[must_use]
pub fn surplus(observed: &ObservedPod, keep: usize) -> Surplus {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut surplus = Surplus::default();
    // What never ran is no dead container: it goes by itself, and must not push out a real one.
    let dead = |status: &&ContainerStatus| status.state == ContainerState::Exited && !is_half_made(status);
    for status in observed.containers.iter().filter(dead) {
        let count = seen.entry(&status.name).or_default();
        *count += 1;
        if *count > keep.max(1) {
            surplus.containers.push(status.id.clone());
        }
    }
    surplus.containers.reverse();
    for sandbox in observed.sandboxes.iter().skip(1).filter(|sandbox| sandbox.state == SandboxState::NotReady)
    {
        let used = observed
            .containers
            .iter()
            .any(|status| status.sandbox_id == sandbox.id && !surplus.containers.contains(&status.id));
        if !used {
            surplus.sandboxes.push(sandbox.id.clone());
        }
    }
    surplus.sandboxes.reverse();
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::{container, observed, sandbox};

    #[test]
    fn keeps_one_dead_container_per_name_and_every_live_one() {
        let pod = observed(
            vec![sandbox("s", 0, SandboxState::Ready)],
            vec![
                container("a3", "a", 3, ContainerState::Running),
                container("a2", "a", 2, ContainerState::Exited),
                container("b1", "b", 1, ContainerState::Exited),
                container("a1", "a", 1, ContainerState::Exited),
                container("a0", "a", 0, ContainerState::Exited),
            ],
        );
        assert_eq!(surplus(&pod, 1).containers, ["a0".into(), "a1".into()]);
        assert_eq!(surplus(&pod, 0), surplus(&pod, 1));
        assert_eq!(surplus(&pod, 2).containers, ["a0".into()]);
    }

    #[test]
    fn a_start_that_was_cut_off_does_not_cost_the_last_real_end() {
        let mut cut = container("a1", "a", 1, ContainerState::Exited);
        cut.started_at = model::Timestamp::ZERO;
        cut.message = "failed to start containerd task: context canceled".into();
        let pod = observed(
            vec![sandbox("s", 0, SandboxState::Ready)],
            vec![cut, container("a0", "a", 0, ContainerState::Exited)],
        );
        assert_eq!(surplus(&pod, 1), Surplus::default());
    }

    #[test]
    fn old_sandboxes_go_when_nothing_kept_lives_in_them() {
        let mut old = container("a0", "a", 0, ContainerState::Exited);
        old.sandbox_id = "s0".into();
        let pod = observed(
            vec![
                sandbox("s2", 2, SandboxState::Ready),
                sandbox("s1", 1, SandboxState::NotReady),
                sandbox("s0", 0, SandboxState::NotReady),
            ],
            vec![old],
        );
        assert_eq!(surplus(&pod, 1).sandboxes, ["s1".into()]);
    }
}
