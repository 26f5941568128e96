//! Which dead containers of a pod can go.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use model::{
    ContainerId, ContainerState, ContainerStatus, ObservedPod, PodUid, SandboxId, SandboxState, Timestamp,
};

use crate::pod_actions::is_half_made;
use crate::pod_paths::log_link_name;

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

/// How many dead containers the whole node keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerGcPolicy {
    /// Per container of a pod; `None` for any number.
    pub per_container: Option<usize>,
    /// Altogether; `None` for any number.
    pub total: Option<usize>,
    /// A container made more recently is kept in any case.
    pub min_age: Duration,
}

/// A dead container that can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collectable {
    /// Its pod.
    pub pod: PodUid,
    /// Its id.
    pub id: ContainerId,
    /// Its log file; empty when the runtime names none.
    pub log: PathBuf,
    /// The link to its log.
    pub log_link: String,
    created_at: Timestamp,
}

/// Decides which dead containers of the node go: those beyond the limit of their name, and while there are more than
/// the node keeps, an equal share per name, then the oldest.
#[must_use]
pub fn collect<'a>(
    pods: impl IntoIterator<Item = &'a ObservedPod>,
    policy: &ContainerGcPolicy,
    now: Timestamp,
) -> Vec<Collectable> {
    let mut units: BTreeMap<(PodUid, String), Vec<Collectable>> = BTreeMap::new();
    for pod in pods {
        let dead = pod.containers.iter().filter(|status| {
            status.state == ContainerState::Exited
                && !is_half_made(status)
                && now.since(status.created_at) >= policy.min_age
        });
        for status in dead {
            let unit = units.entry((pod.uid.clone(), status.name.clone())).or_default();
            unit.push(Collectable {
                pod: pod.uid.clone(),
                id: status.id.clone(),
                log: PathBuf::from(&status.log_path),
                log_link: log_link_name(&pod.full_name, &status.name, &status.id),
                created_at: status.created_at,
            });
        }
    }
    let mut surplus = Vec::new();
    if let Some(keep) = policy.per_container {
        units.values_mut().for_each(|unit| surplus.extend(beyond(unit, keep)));
    }
    let count = |units: &BTreeMap<_, Vec<Collectable>>| units.values().map(Vec::len).sum::<usize>();
    if let Some(total) = policy.total
        && count(&units) > total
    {
        let share = (total / units.len().max(1)).max(1);
        units.values_mut().for_each(|unit| surplus.extend(beyond(unit, share)));
        let mut rest: Vec<Collectable> = units.into_values().flatten().collect();
        surplus.extend(beyond(&mut rest, total));
    }
    surplus
}

/// Which dead containers go when the node needs the room: all of pods that are over, and of the others as usual.
#[must_use]
pub fn give_up<'a>(
    over: impl IntoIterator<Item = &'a ObservedPod>,
    living: impl IntoIterator<Item = &'a ObservedPod>,
    policy: &ContainerGcPolicy,
    now: Timestamp,
) -> Vec<Collectable> {
    let none = ContainerGcPolicy { per_container: Some(0), total: None, ..*policy };
    let mut surplus = collect(over, &none, now);
    surplus.extend(collect(living, policy, now));
    surplus
}

/// Takes the oldest beyond `keep`.
fn beyond(unit: &mut Vec<Collectable>, keep: usize) -> Vec<Collectable> {
    unit.sort_by_key(|one| std::cmp::Reverse(one.created_at));
    let mut surplus = unit.split_off(keep.min(unit.len()));
    surplus.reverse();
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

    fn collected(per_container: Option<usize>, total: Option<usize>, min_age: u64) -> Vec<String> {
        let aged = |id: &str, name: &str, created: i64| {
            let mut status = container(id, name, 0, ContainerState::Exited);
            status.created_at = Timestamp::from_secs(created);
            status
        };
        let mut first =
            observed(Vec::new(), vec![aged("a3", "a", 30), aged("a2", "a", 20), aged("a1", "a", 10)]);
        first.uid = "p".into();
        let mut second = observed(
            Vec::new(),
            vec![aged("b2", "b", 25), aged("b1", "b", 15), container("c", "c", 0, ContainerState::Running)],
        );
        second.uid = "q".into();
        let min_age = Duration::from_secs(min_age);
        let policy = ContainerGcPolicy { per_container, total, min_age };
        let found = collect([&first, &second], &policy, Timestamp::from_secs(40));
        found.into_iter().map(|one| one.id.to_string()).collect()
    }

    #[test]
    fn pods_that_are_over_give_up_everything_when_room_is_needed() {
        let dead = |uid: &str| {
            let mut pod =
                observed(Vec::new(), vec![container(&format!("{uid}0"), "a", 0, ContainerState::Exited)]);
            pod.uid = uid.into();
            pod
        };
        let policy = ContainerGcPolicy { per_container: Some(1), total: None, min_age: Duration::ZERO };
        let found = give_up([&dead("over")], [&dead("living")], &policy, Timestamp::from_secs(40));
        let found: Vec<String> = found.into_iter().map(|one| one.id.to_string()).collect();
        assert_eq!(found, ["over0"]);
    }

    #[test]
    fn the_node_keeps_so_many_dead_containers_per_name_and_altogether() {
        assert_eq!(collected(Some(1), None, 0), ["a1", "a2", "b1"]);
        assert_eq!(collected(Some(0), None, 0), ["a1", "a2", "a3", "b1", "b2"]);
        assert_eq!(collected(None, None, 0), Vec::<String>::new());
        assert_eq!(collected(None, Some(4), 0), ["a1"]);
        assert_eq!(collected(None, Some(1), 0), ["a1", "a2", "b1", "b2"]);
        assert_eq!(collected(Some(1), None, 16), ["a1"]);
    }
}
