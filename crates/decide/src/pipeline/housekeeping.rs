//! Decides what the periodic housekeeping sweep does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::{LogFolder, ObservedPod, Pod, PodUid, WorkerPhase, WorkerView};

use crate::status::status_report::is_terminal;

/// Reasons of pods whose containers and logs are removed as soon as they have stopped.
const PURGED_REASONS: [&str; 2] = ["Evicted", "Preempting"];

/// The state that a sweep is decided from. Every source must have sent its pods before: a pod that is missing in
/// `desired` counts as deleted.
#[derive(Clone, Debug, Default)]
pub struct HousekeepingInputs {
    pub desired: Vec<Arc<Pod>>,
    pub workers: Vec<Arc<WorkerView>>,
    pub observed: Vec<Arc<ObservedPod>>,
    /// UIDs of pods that have a folder below the pods directory.
    pub pod_folders: Vec<PodUid>,
    pub log_folders: Vec<LogFolder>,
    /// Must have been listed before `desired` was read: otherwise the cgroup of a pod that was added in between
    /// would count as an orphan.
    pub pod_cgroups: Vec<PodCgroup>,
}

/// A cgroup and the UID in its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodCgroup {
    pub uid: PodUid,
    pub path: String,
}

/// The actions of one sweep.
#[derive(Clone, Debug, Default)]
pub struct SweepPlan {
    /// Finished workers whose pod is no longer desired, or must be created again.
    pub drop_workers: Vec<PodUid>,
    /// Desired pods without a worker; a worker is created for them (again, if the UID had one before).
    pub restart: Vec<Arc<Pod>>,
    /// Running orphans.
    pub kill: Vec<Arc<ObservedPod>>,
    /// Stopped orphans and purged pods; their containers and sandboxes are removed.
    pub remove: Vec<Arc<ObservedPod>>,
    pub remove_pod_folders: Vec<PodUid>,
    pub remove_log_folders: Vec<LogFolder>,
    /// Orphaned cgroups: their processes are killed and the cgroups removed.
    pub remove_pod_cgroups: Vec<PodCgroup>,
    /// Orphaned cgroups whose pods still have a folder: memory of its volumes is charged to them, so they stay with the
    /// minimum CPU weight until the folder is removed.
    pub reduce_pod_cgroups: Vec<PodCgroup>,
}

impl SweepPlan {
    pub fn is_empty(&self) -> bool {
        let Self { drop_workers, restart, kill, remove, .. } = self;
        let runtime = drop_workers.is_empty() && restart.is_empty() && kill.is_empty() && remove.is_empty();
        let folders = self.remove_pod_folders.is_empty() && self.remove_log_folders.is_empty();
        runtime && folders && self.remove_pod_cgroups.is_empty() && self.reduce_pod_cgroups.is_empty()
    }
}

pub fn sweep(inputs: &HousekeepingInputs) -> SweepPlan {
    let desired: HashSet<&PodUid> = inputs.desired.iter().map(|pod| &pod.uid).collect();
    let drop_workers: HashSet<&PodUid> = inputs
        .workers
        .iter()
        .filter(|worker| worker.phase == WorkerPhase::Finished)
        .filter(|worker| worker.restart_requested || !desired.contains(&worker.uid))
        .map(|worker| &worker.uid)
        .collect();
    let workers: HashMap<&PodUid, WorkerPhase> = inputs
        .workers
        .iter()
        .filter(|worker| !drop_workers.contains(&worker.uid))
        .map(|worker| (&worker.uid, worker.phase))
        .collect();
    let observed: HashSet<&PodUid> = inputs.observed.iter().map(|pod| &pod.uid).collect();
    let in_use = |uid: &PodUid| desired.contains(uid) || workers.contains_key(uid);
    let purged: HashSet<&PodUid> = purged(inputs);
    let keeps_content = |uid: &PodUid| in_use(uid) && !purged.contains(uid);

    let folders: HashSet<&PodUid> = inputs.pod_folders.iter().collect();
    let (reduce_pod_cgroups, remove_pod_cgroups) = inputs
        .pod_cgroups
        .iter()
        .filter(|cgroup| !in_use(&cgroup.uid) && !observed.contains(&cgroup.uid))
        .cloned()
        .partition(|cgroup| folders.contains(&cgroup.uid));

    let mut sweep = SweepPlan {
        remove_pod_cgroups,
        reduce_pod_cgroups,
        drop_workers: drop_workers.iter().map(|uid| (*uid).clone()).collect(),
        restart: inputs.desired.iter().filter(|pod| !workers.contains_key(&pod.uid)).cloned().collect(),
        remove_pod_folders: inputs
            .pod_folders
            .iter()
            .filter(|uid| !in_use(uid) && !observed.contains(*uid))
            .cloned()
            .collect(),
        remove_log_folders: inputs
            .log_folders
            .iter()
            .filter(|folder| !keeps_content(&folder.uid) && !observed.contains(&folder.uid))
            .cloned()
            .collect(),
        ..SweepPlan::default()
    };
    for pod in &inputs.observed {
        if keeps_content(&pod.uid) || (in_use(&pod.uid) && pod.is_alive()) {
            continue;
        }
        let list = if pod.is_alive() { &mut sweep.kill } else { &mut sweep.remove };
        list.push(Arc::clone(pod));
    }
    sweep.drop_workers.sort();
    sweep
}

/// Finished pods whose containers and logs are removed before their API objects: deleted pods whose reported phase is
/// terminal, and evicted or preempted pods.
fn purged(inputs: &HousekeepingInputs) -> HashSet<&PodUid> {
    let deleted: HashSet<&PodUid> = inputs
        .desired
        .iter()
        .filter(|pod| pod.is_deleted() && is_terminal(&pod.status))
        .map(|pod| &pod.uid)
        .collect();
    let was_evicted = |worker: &WorkerView| {
        worker.rejection.as_ref().is_some_and(|rejection| PURGED_REASONS.contains(&rejection.reason.as_str()))
    };
    let finished = inputs.workers.iter().filter(|worker| worker.phase == WorkerPhase::Finished);
    finished
        .filter(|worker| !worker.restart_requested)
        .filter(|worker| deleted.contains(&worker.uid) || was_evicted(worker))
        .map(|worker| &worker.uid)
        .collect()
}

#[cfg(test)]
mod tests {
    use model::{ContainerState, PodFullName, RejectionKind, SandboxState};
    use proptest::prelude::*;

    use super::*;
    use crate::test_objects::{container, observed, pod, sandbox, worker_view};

    fn desired(uid: &str) -> Arc<Pod> {
        let mut pod = pod(serde_json::json!({"containers": []}));
        pod.uid = uid.into();
        Arc::new(pod)
    }

    fn worker(uid: &str, phase: WorkerPhase, restart_requested: bool) -> Arc<WorkerView> {
        Arc::new(WorkerView { restart_requested, ..worker_view(uid, phase) })
    }

    fn observed_pod(uid: &str, alive: bool) -> Arc<ObservedPod> {
        let (sandbox_state, state) = if alive {
            (SandboxState::Ready, ContainerState::Running)
        } else {
            (SandboxState::NotReady, ContainerState::Exited)
        };
        let mut pod = observed(vec![sandbox("s", 0, sandbox_state)], vec![container("c", "a", 0, state)]);
        pod.uid = uid.into();
        Arc::new(pod)
    }

    fn folder(uid: &str) -> LogFolder {
        LogFolder {
            uid: uid.into(),
            full_name: PodFullName { namespace: "default".into(), name: uid.into() },
        }
    }

    fn uids<'a>(items: impl IntoIterator<Item = &'a PodUid>) -> Vec<&'a str> {
        items.into_iter().map(PodUid::as_str).collect()
    }

    #[test]
    fn kills_running_orphans_and_removes_stopped_ones() {
        let sweep = sweep(&HousekeepingInputs {
            observed: vec![observed_pod("a", true), observed_pod("d", false)],
            ..Default::default()
        });
        assert_eq!(uids(sweep.kill.iter().map(|pod| &pod.uid)), ["a"]);
        assert_eq!(uids(sweep.remove.iter().map(|pod| &pod.uid)), ["d"]);
    }

    #[test]
    fn leaves_terminating_pod_to_its_worker() {
        let sweep = sweep(&HousekeepingInputs {
            workers: vec![worker("a", WorkerPhase::Terminating, false)],
            observed: vec![observed_pod("a", true)],
            pod_folders: vec!["a".into()],
            log_folders: vec![folder("a")],
            ..Default::default()
        });
        assert!(sweep.kill.is_empty() && sweep.remove_pod_folders.is_empty());
        assert!(sweep.remove_log_folders.is_empty());
    }

    #[test]
    fn purges_deleted_pod_after_terminal_phase_is_reported() {
        let deleted = |uid: &str, phase: &str| {
            let mut pod = (*desired(uid)).clone();
            pod.metadata.deletion_timestamp = Some(model::Timestamp::from_secs(1).to_api_time());
            pod.status.phase = Some(phase.to_owned());
            Arc::new(pod)
        };
        let inputs = HousekeepingInputs {
            desired: vec![
                deleted("reported", "Failed"),
                deleted("unreported", "Running"),
                deleted("runs", "Failed"),
            ],
            workers: vec![
                worker("reported", WorkerPhase::Finished, false),
                worker("unreported", WorkerPhase::Finished, false),
                worker("runs", WorkerPhase::Terminating, false),
            ],
            observed: vec![
                observed_pod("reported", false),
                observed_pod("unreported", false),
                observed_pod("runs", false),
            ],
            pod_folders: vec!["reported".into()],
            log_folders: vec![folder("reported"), folder("unreported"), folder("runs")],
            ..Default::default()
        };
        let first = sweep(&inputs);
        assert_eq!(uids(first.remove.iter().map(|pod| &pod.uid)), ["reported"]);
        assert!(first.kill.is_empty() && first.drop_workers.is_empty() && first.restart.is_empty());
        assert!(first.remove_log_folders.is_empty(), "containers still use the logs");
        let second = sweep(&HousekeepingInputs { observed: vec![], ..inputs });
        assert_eq!(uids(second.remove_log_folders.iter().map(|folder| &folder.uid)), ["reported"]);
        assert!(second.remove_pod_folders.is_empty());
    }

    #[test]
    fn purges_evicted_and_preempted_pods() {
        for (kind, reason, removed) in [
            (RejectionKind::Preemption, "Preempting", 1),
            (RejectionKind::NodePressure, "Evicted", 1),
            (RejectionKind::Deadline, "DeadlineExceeded", 0),
        ] {
            let mut view = (*worker("a", WorkerPhase::Finished, false)).clone();
            view.rejection = Some(model::Rejection { kind, reason: reason.into(), message: String::new() });
            let sweep = sweep(&HousekeepingInputs {
                desired: vec![desired("a")],
                workers: vec![Arc::new(view)],
                observed: vec![observed_pod("a", false)],
                ..Default::default()
            });
            assert_eq!(sweep.remove.len(), removed, "{reason}");
        }
    }

    #[test]
    fn finished_pod_that_is_still_desired_keeps_worker_and_containers() {
        let sweep = sweep(&HousekeepingInputs {
            desired: vec![desired("a")],
            workers: vec![worker("a", WorkerPhase::Finished, false)],
            observed: vec![observed_pod("a", false)],
            ..Default::default()
        });
        assert!(sweep.drop_workers.is_empty() && sweep.restart.is_empty() && sweep.remove.is_empty());
    }

    #[test]
    fn recreates_worker_of_finished_pod_when_restart_is_requested() {
        let sweep = sweep(&HousekeepingInputs {
            desired: vec![desired("a")],
            workers: vec![worker("a", WorkerPhase::Finished, true)],
            ..Default::default()
        });
        assert_eq!(uids(&sweep.drop_workers), ["a"]);
        assert_eq!(uids(sweep.restart.iter().map(|pod| &pod.uid)), ["a"]);
    }

    #[test]
    fn removes_folders_only_after_runtime_objects() {
        let with_remains = HousekeepingInputs {
            observed: vec![observed_pod("a", false)],
            pod_folders: vec!["a".into()],
            log_folders: vec![folder("a")],
            ..Default::default()
        };
        assert!(sweep(&with_remains).remove_pod_folders.is_empty());
        let without = HousekeepingInputs { observed: vec![], ..with_remains };
        assert_eq!(uids(&sweep(&without).remove_pod_folders), ["a"]);
        assert_eq!(sweep(&without).remove_log_folders.len(), 1);
    }

    fn cgroup(uid: &str) -> PodCgroup {
        PodCgroup { uid: uid.into(), path: format!("/kubepods/pod{uid}") }
    }

    #[test]
    fn removes_orphaned_cgroup_only_without_pod_folder() {
        let sweep = sweep(&HousekeepingInputs {
            desired: vec![desired("in-use")],
            workers: vec![worker("ending", WorkerPhase::Terminating, false)],
            observed: vec![observed_pod("remains", false)],
            pod_folders: vec!["volumes".into(), "in-use".into()],
            pod_cgroups: ["in-use", "ending", "remains", "volumes", "orphan"].map(cgroup).to_vec(),
            ..Default::default()
        });
        assert_eq!(sweep.remove_pod_cgroups, [cgroup("orphan")]);
        assert_eq!(sweep.reduce_pod_cgroups, [cgroup("volumes")]);
    }

    fn any_inputs() -> impl Strategy<Value = HousekeepingInputs> {
        let phases = prop_oneof![
            Just(WorkerPhase::Syncing),
            Just(WorkerPhase::Terminating),
            Just(WorkerPhase::Terminated),
            Just(WorkerPhase::Finished)
        ];
        let uid = || proptest::sample::select(vec!["a", "b", "c", "d"]);
        (
            proptest::collection::btree_set(uid(), 0..4),
            proptest::collection::btree_map(uid(), (phases, any::<bool>()), 0..4),
            proptest::collection::btree_map(uid(), any::<bool>(), 0..4),
            proptest::collection::btree_set(uid(), 0..4),
        )
            .prop_map(|(desired_uids, workers, runtime, folders)| HousekeepingInputs {
                desired: desired_uids.into_iter().map(desired).collect(),
                workers: workers.into_iter().map(|(uid, (phase, again))| worker(uid, phase, again)).collect(),
                observed: runtime.into_iter().map(|(uid, alive)| observed_pod(uid, alive)).collect(),
                pod_folders: folders.iter().map(|uid| PodUid::from(*uid)).collect(),
                pod_cgroups: ["a", "b", "c", "d"].map(cgroup).to_vec(),
                log_folders: folders.into_iter().map(folder).collect(),
            })
    }

    proptest! {
        #[test]
        fn never_touches_desired_pods_or_active_workers(inputs in any_inputs()) {
            let sweep = sweep(&inputs);
            for pod in &inputs.desired {
                prop_assert!(sweep.kill.iter().chain(&sweep.remove).all(|other| other.uid != pod.uid));
                prop_assert!(!sweep.remove_pod_folders.contains(&pod.uid));
                prop_assert!(!sweep.remove_pod_cgroups.contains(&cgroup(pod.uid.as_str())));
            }
            for pod in &inputs.observed {
                prop_assert!(!sweep.remove_pod_cgroups.contains(&cgroup(pod.uid.as_str())));
            }
            for worker in inputs.workers.iter().filter(|worker| worker.phase != WorkerPhase::Finished) {
                prop_assert!(!sweep.drop_workers.contains(&worker.uid));
                prop_assert!(sweep.kill.iter().chain(&sweep.remove).all(|other| other.uid != worker.uid));
                prop_assert!(sweep.restart.iter().all(|pod| pod.uid != worker.uid));
            }
        }

        #[test]
        fn handles_every_orphan_in_the_runtime(inputs in any_inputs()) {
            let sweep = sweep(&inputs);
            for pod in &inputs.observed {
                let known = inputs.desired.iter().any(|other| other.uid == pod.uid)
                    || inputs.workers.iter().any(|worker| worker.uid == pod.uid && !sweep.drop_workers.contains(&worker.uid));
                let dealt = sweep.kill.iter().chain(&sweep.remove).any(|other| other.uid == pod.uid);
                prop_assert_eq!(dealt, !known);
            }
        }
    }
}
