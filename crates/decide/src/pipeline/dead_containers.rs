//! Which dead containers and sandboxes are removed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use model::{
    ContainerId, ContainerState, ContainerStatus, ObservedPod, PodUid, SandboxId, SandboxState, Timestamp,
};

use crate::pipeline::pod_actions::never_ran;
use crate::runtime_spec::pod_paths::log_link_name;

/// Dead containers and sandboxes of one pod that are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSurplus {
    pub containers: Vec<ContainerId>,
    /// Sandboxes without containers, oldest first.
    pub sandboxes: Vec<SandboxId>,
}

/// Everything but the newest `keep` dead containers of each name (at least 1, so that logs and the last state survive)
/// and the newest sandbox.
pub fn surplus(observed: &ObservedPod, keep: usize) -> PodSurplus {
    let mut count_by_name: BTreeMap<&str, usize> = BTreeMap::new();
    let mut surplus = PodSurplus::default();
    // A container that never ran is removed by the sync and must not displace one that ran.
    let dead = |status: &&ContainerStatus| status.state == ContainerState::Exited && !never_ran(status);
    for status in observed.containers.iter().filter(dead) {
        let count = count_by_name.entry(&status.name).or_default();
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

/// How many dead containers the node keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerGcPolicy {
    /// Per container of a pod; `None` for no limit.
    pub per_container: Option<usize>,
    /// On the whole node; `None` for no limit.
    pub total: Option<usize>,
    /// Younger containers are always kept.
    pub min_age: Duration,
}

/// A dead container that is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadContainer {
    pub pod: PodUid,
    pub id: ContainerId,
    /// The log file; empty if the runtime reports none.
    pub log: PathBuf,
    pub log_link: String,
    created_at: Timestamp,
}

/// Selects the dead containers to remove: those beyond the limit per container, and if the node still has too many, those
/// beyond an equal share per container, then the oldest.
pub fn select_dead_containers<'a>(
    pods: impl IntoIterator<Item = &'a ObservedPod>,
    policy: &ContainerGcPolicy,
    now: Timestamp,
) -> Vec<DeadContainer> {
    let mut groups: BTreeMap<(PodUid, String), Vec<DeadContainer>> = BTreeMap::new();
    for pod in pods {
        let dead = pod.containers.iter().filter(|status| {
            status.state == ContainerState::Exited
                && !never_ran(status)
                && now.since(status.created_at) >= policy.min_age
        });
        for status in dead {
            let group = groups.entry((pod.uid.clone(), status.name.clone())).or_default();
            group.push(DeadContainer {
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
        groups.values_mut().for_each(|group| surplus.extend(split_off_oldest(group, keep)));
    }
    let count = |groups: &BTreeMap<_, Vec<DeadContainer>>| groups.values().map(Vec::len).sum::<usize>();
    if let Some(total) = policy.total
        && count(&groups) > total
    {
        let share = (total / groups.len().max(1)).max(1);
        groups.values_mut().for_each(|group| surplus.extend(split_off_oldest(group, share)));
        let mut rest: Vec<DeadContainer> = groups.into_values().flatten().collect();
        surplus.extend(split_off_oldest(&mut rest, total));
    }
    surplus
}

/// Selects the dead containers to remove under disk pressure: all of finished pods, and of the others as usual.
pub fn select_under_disk_pressure<'a>(
    finished: impl IntoIterator<Item = &'a ObservedPod>,
    active: impl IntoIterator<Item = &'a ObservedPod>,
    policy: &ContainerGcPolicy,
    now: Timestamp,
) -> Vec<DeadContainer> {
    let none = ContainerGcPolicy { per_container: Some(0), total: None, ..*policy };
    let mut surplus = select_dead_containers(finished, &none, now);
    surplus.extend(select_dead_containers(active, policy, now));
    surplus
}

/// Splits off all but the newest `keep`.
fn split_off_oldest(group: &mut Vec<DeadContainer>, keep: usize) -> Vec<DeadContainer> {
    group.sort_by_key(|one| std::cmp::Reverse(one.created_at));
    let mut surplus = group.split_off(keep.min(group.len()));
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
    fn container_that_never_ran_does_not_displace_exited_one() {
        let mut cut = container("a1", "a", 1, ContainerState::Exited);
        cut.started_at = model::Timestamp::ZERO;
        cut.message = "failed to start containerd task: context canceled".into();
        let pod = observed(
            vec![sandbox("s", 0, SandboxState::Ready)],
            vec![cut, container("a0", "a", 0, ContainerState::Exited)],
        );
        assert_eq!(surplus(&pod, 1), PodSurplus::default());
    }

    #[test]
    fn removes_old_sandboxes_without_kept_containers() {
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
        let found = select_dead_containers([&first, &second], &policy, Timestamp::from_secs(40));
        found.into_iter().map(|one| one.id.to_string()).collect()
    }

    #[test]
    fn disk_pressure_removes_all_dead_containers_of_finished_pods() {
        let dead = |uid: &str| {
            let mut pod =
                observed(Vec::new(), vec![container(&format!("{uid}0"), "a", 0, ContainerState::Exited)]);
            pod.uid = uid.into();
            pod
        };
        let policy = ContainerGcPolicy { per_container: Some(1), total: None, min_age: Duration::ZERO };
        let found = select_under_disk_pressure(
            [&dead("finished")],
            [&dead("active")],
            &policy,
            Timestamp::from_secs(40),
        );
        let found: Vec<String> = found.into_iter().map(|one| one.id.to_string()).collect();
        assert_eq!(found, ["finished0"]);
    }

    #[test]
    fn keeps_dead_containers_per_name_and_in_total() {
        assert_eq!(collected(Some(1), None, 0), ["a1", "a2", "b1"]);
        assert_eq!(collected(Some(0), None, 0), ["a1", "a2", "a3", "b1", "b2"]);
        assert_eq!(collected(None, None, 0), Vec::<String>::new());
        assert_eq!(collected(None, Some(4), 0), ["a1"]);
        assert_eq!(collected(None, Some(1), 0), ["a1", "a2", "b1", "b2"]);
        assert_eq!(collected(Some(1), None, 16), ["a1"]);
    }
}
