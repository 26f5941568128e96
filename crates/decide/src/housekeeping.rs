//! What the periodic sweep does, decided at once from everything that is known.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::{LogFolder, ObservedPod, Pod, PodUid, WorkerPhase, WorkerView};

use crate::status_report::is_terminal;

/// Why the agent ends pods whose containers and logs nobody will look at again.
const DRIVEN_OUT: [&str; 2] = ["Evicted", "Preempting"];

/// Everything the sweep looks at. It must only run when every source has spoken: a pod that is not desired
/// is taken for unwanted.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    /// Pods that sources want.
    pub desired: Vec<Arc<Pod>>,
    /// Workers.
    pub workers: Vec<Arc<WorkerView>>,
    /// Pods the runtime holds.
    pub observed: Vec<Arc<ObservedPod>>,
    /// UIDs with a pod folder.
    pub pod_folders: Vec<PodUid>,
    /// Pod log folders.
    pub log_folders: Vec<LogFolder>,
    /// Cgroups of pods. They must have been listed before `desired` was read: a pod that came in between would be
    /// taken for gone.
    pub pod_cgroups: Vec<PodCgroup>,
}

/// A cgroup found, and the pod it is named after.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodCgroup {
    /// The pod.
    pub uid: PodUid,
    /// The cgroup.
    pub path: String,
}

/// What the sweep does.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Workers that have nothing left to do and nobody who wants their pod, or whose pod is wanted anew.
    pub forget: Vec<PodUid>,
    /// Desired pods without a worker: to be created (again, with the same UID).
    pub restart: Vec<Arc<Pod>>,
    /// Runtime pods that nobody knows and that are alive: to be killed.
    pub kill: Vec<Arc<ObservedPod>>,
    /// Runtime pods that nobody wants and that are dead: to be removed from the runtime.
    pub remove: Vec<Arc<ObservedPod>>,
    /// Pod folders nobody needs.
    pub remove_pod_folders: Vec<PodUid>,
    /// Log folders nobody needs.
    pub remove_log_folders: Vec<LogFolder>,
    /// Cgroups nobody needs: their processes are killed, then they go.
    pub remove_pod_cgroups: Vec<PodCgroup>,
    /// Cgroups nobody needs, but whose pods still have a folder: memory of its volumes is charged to them, so they
    /// only get less CPU until the folder is gone.
    pub reduce_pod_cgroups: Vec<PodCgroup>,
}

impl Sweep {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { forget, restart, kill, remove, .. } = self;
        let runtime = forget.is_empty() && restart.is_empty() && kill.is_empty() && remove.is_empty();
        let folders = self.remove_pod_folders.is_empty() && self.remove_log_folders.is_empty();
        runtime && folders && self.remove_pod_cgroups.is_empty() && self.reduce_pod_cgroups.is_empty()
    }
}

/// Decides the sweep.
#[must_use]
pub fn sweep(situation: &Situation) -> Sweep {
    let desired: HashSet<&PodUid> = situation.desired.iter().map(|pod| &pod.uid).collect();
    let forget: HashSet<&PodUid> = situation
        .workers
        .iter()
        .filter(|worker| worker.phase == WorkerPhase::Finished)
        .filter(|worker| worker.restart_requested || !desired.contains(&worker.uid))
        .map(|worker| &worker.uid)
        .collect();
    let workers: HashMap<&PodUid, WorkerPhase> = situation
        .workers
        .iter()
        .filter(|worker| !forget.contains(&worker.uid))
        .map(|worker| (&worker.uid, worker.phase))
        .collect();
    let observed: HashSet<&PodUid> = situation.observed.iter().map(|pod| &pod.uid).collect();
    let wanted = |uid: &PodUid| desired.contains(uid) || workers.contains_key(uid);
    let emptied: HashSet<&PodUid> = emptied(situation);
    let keeps_content = |uid: &PodUid| wanted(uid) && !emptied.contains(uid);

    let folders: HashSet<&PodUid> = situation.pod_folders.iter().collect();
    let (reduce_pod_cgroups, remove_pod_cgroups) = situation
        .pod_cgroups
        .iter()
        .filter(|cgroup| !wanted(&cgroup.uid) && !observed.contains(&cgroup.uid))
        .cloned()
        .partition(|cgroup| folders.contains(&cgroup.uid));

    let mut sweep = Sweep {
        remove_pod_cgroups,
        reduce_pod_cgroups,
        forget: forget.iter().map(|uid| (*uid).clone()).collect(),
        restart: situation.desired.iter().filter(|pod| !workers.contains_key(&pod.uid)).cloned().collect(),
        remove_pod_folders: situation
            .pod_folders
            .iter()
            .filter(|uid| !wanted(uid) && !observed.contains(*uid))
            .cloned()
            .collect(),
        remove_log_folders: situation
            .log_folders
            .iter()
            .filter(|folder| !keeps_content(&folder.uid) && !observed.contains(&folder.uid))
            .cloned()
            .collect(),
        ..Sweep::default()
    };
    for pod in &situation.observed {
        if keeps_content(&pod.uid) || (wanted(&pod.uid) && pod.is_alive()) {
            continue;
        }
        let list = if pod.is_alive() { &mut sweep.kill } else { &mut sweep.remove };
        list.push(Arc::clone(pod));
    }
    sweep.forget.sort();
    sweep
}

/// Pods that are over and whose containers and logs go before their objects do: those that were deleted and shown to be
/// over, and those that were driven out.
fn emptied(situation: &Situation) -> HashSet<&PodUid> {
    let deleted: HashSet<&PodUid> = situation
        .desired
        .iter()
        .filter(|pod| pod.is_deleted() && is_terminal(&pod.status))
        .map(|pod| &pod.uid)
        .collect();
    let is_driven_out = |worker: &WorkerView| {
        worker.rejection.as_ref().is_some_and(|rejection| DRIVEN_OUT.contains(&rejection.reason.as_str()))
    };
    let over = situation.workers.iter().filter(|worker| worker.phase == WorkerPhase::Finished);
    over.filter(|worker| !worker.restart_requested)
        .filter(|worker| deleted.contains(&worker.uid) || is_driven_out(worker))
        .map(|worker| &worker.uid)
        .collect()
}

#[cfg(test)]
mod tests {
    use model::{ContainerState, PodFullName, SandboxState};
    use proptest::prelude::*;

    use super::*;
    use crate::test_objects::{container, observed, pod, sandbox};

    fn desired(uid: &str) -> Arc<Pod> {
        let mut pod = pod(serde_json::json!({"containers": []}));
        pod.uid = uid.into();
        Arc::new(pod)
    }

    fn worker(uid: &str, phase: WorkerPhase, restart_requested: bool) -> Arc<WorkerView> {
        Arc::new(WorkerView {
            uid: uid.into(),
            full_name: PodFullName { namespace: "default".into(), name: uid.into() },
            phase,
            started: true,
            passed: true,
            restart_requested,
            orphan: false,
            is_static: false,
            problems: Default::default(),
            last_error: None,
            rejection: None,
        })
    }

    fn seen(uid: &str, alive: bool) -> Arc<ObservedPod> {
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
    fn runtime_pods_nobody_knows_are_killed_when_alive_and_removed_when_dead() {
        let sweep =
            sweep(&Situation { observed: vec![seen("a", true), seen("d", false)], ..Default::default() });
        assert_eq!(uids(sweep.kill.iter().map(|pod| &pod.uid)), ["a"]);
        assert_eq!(uids(sweep.remove.iter().map(|pod| &pod.uid)), ["d"]);
    }

    #[test]
    fn a_terminating_pod_is_left_to_its_worker() {
        let sweep = sweep(&Situation {
            workers: vec![worker("a", WorkerPhase::Terminating, false)],
            observed: vec![seen("a", true)],
            pod_folders: vec!["a".into()],
            log_folders: vec![folder("a")],
            ..Default::default()
        });
        assert!(sweep.kill.is_empty() && sweep.remove_pod_folders.is_empty());
        assert!(sweep.remove_log_folders.is_empty());
    }

    #[test]
    fn a_deleted_pod_is_emptied_once_its_end_was_shown() {
        let deleted = |uid: &str, phase: &str| {
            let mut pod = (*desired(uid)).clone();
            pod.metadata.deletion_timestamp = Some(model::Timestamp::from_secs(1).to_api_time());
            pod.status.phase = Some(phase.to_owned());
            Arc::new(pod)
        };
        let situation = Situation {
            desired: vec![deleted("gone", "Failed"), deleted("untold", "Running"), deleted("runs", "Failed")],
            workers: vec![
                worker("gone", WorkerPhase::Finished, false),
                worker("untold", WorkerPhase::Finished, false),
                worker("runs", WorkerPhase::Terminating, false),
            ],
            observed: vec![seen("gone", false), seen("untold", false), seen("runs", false)],
            pod_folders: vec!["gone".into()],
            log_folders: vec![folder("gone"), folder("untold"), folder("runs")],
            ..Default::default()
        };
        let first = sweep(&situation);
        assert_eq!(uids(first.remove.iter().map(|pod| &pod.uid)), ["gone"]);
        assert!(first.kill.is_empty() && first.forget.is_empty() && first.restart.is_empty());
        assert!(first.remove_log_folders.is_empty(), "the logs of containers that are still there");
        let second = sweep(&Situation { observed: vec![], ..situation });
        assert_eq!(uids(second.remove_log_folders.iter().map(|folder| &folder.uid)), ["gone"]);
        assert!(second.remove_pod_folders.is_empty());
    }

    #[test]
    fn a_pod_that_was_driven_out_is_emptied() {
        for (reason, removed) in [("Preempting", 1), ("Evicted", 1), ("DeadlineExceeded", 0)] {
            let mut view = (*worker("a", WorkerPhase::Finished, false)).clone();
            view.rejection = Some(model::Rejection { reason: reason.into(), message: String::new() });
            let sweep = sweep(&Situation {
                desired: vec![desired("a")],
                workers: vec![Arc::new(view)],
                observed: vec![seen("a", false)],
                ..Default::default()
            });
            assert_eq!(sweep.remove.len(), removed, "{reason}");
        }
    }

    #[test]
    fn a_finished_pod_that_is_still_desired_keeps_its_worker_and_remains() {
        let sweep = sweep(&Situation {
            desired: vec![desired("a")],
            workers: vec![worker("a", WorkerPhase::Finished, false)],
            observed: vec![seen("a", false)],
            ..Default::default()
        });
        assert!(sweep.forget.is_empty() && sweep.restart.is_empty() && sweep.remove.is_empty());
    }

    #[test]
    fn a_finished_pod_wanted_anew_is_forgotten_and_restarted() {
        let sweep = sweep(&Situation {
            desired: vec![desired("a")],
            workers: vec![worker("a", WorkerPhase::Finished, true)],
            ..Default::default()
        });
        assert_eq!(uids(&sweep.forget), ["a"]);
        assert_eq!(uids(sweep.restart.iter().map(|pod| &pod.uid)), ["a"]);
    }

    #[test]
    fn folders_wait_until_the_runtime_holds_nothing_of_the_pod() {
        let with_remains = Situation {
            observed: vec![seen("a", false)],
            pod_folders: vec!["a".into()],
            log_folders: vec![folder("a")],
            ..Default::default()
        };
        assert!(sweep(&with_remains).remove_pod_folders.is_empty());
        let without = Situation { observed: vec![], ..with_remains };
        assert_eq!(uids(&sweep(&without).remove_pod_folders), ["a"]);
        assert_eq!(sweep(&without).remove_log_folders.len(), 1);
    }

    fn cgroup(uid: &str) -> PodCgroup {
        PodCgroup { uid: uid.into(), path: format!("/kubepods/pod{uid}") }
    }

    #[test]
    fn cgroups_nobody_needs_go_when_the_folder_is_gone() {
        let sweep = sweep(&Situation {
            desired: vec![desired("wanted")],
            workers: vec![worker("ending", WorkerPhase::Terminating, false)],
            observed: vec![seen("remains", false)],
            pod_folders: vec!["volumes".into(), "wanted".into()],
            pod_cgroups: ["wanted", "ending", "remains", "volumes", "orphan"].map(cgroup).to_vec(),
            ..Default::default()
        });
        assert_eq!(sweep.remove_pod_cgroups, [cgroup("orphan")]);
        assert_eq!(sweep.reduce_pod_cgroups, [cgroup("volumes")]);
    }

    fn any_situation() -> impl Strategy<Value = Situation> {
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
            .prop_map(|(wanted, workers, runtime, folders)| Situation {
                desired: wanted.into_iter().map(desired).collect(),
                workers: workers.into_iter().map(|(uid, (phase, again))| worker(uid, phase, again)).collect(),
                observed: runtime.into_iter().map(|(uid, alive)| seen(uid, alive)).collect(),
                pod_folders: folders.iter().map(|uid| PodUid::from(*uid)).collect(),
                pod_cgroups: ["a", "b", "c", "d"].map(cgroup).to_vec(),
                log_folders: folders.into_iter().map(folder).collect(),
            })
    }

    proptest! {
        #[test]
        fn nothing_that_is_wanted_or_worked_on_is_harmed(situation in any_situation()) {
            let sweep = sweep(&situation);
            for pod in &situation.desired {
                prop_assert!(sweep.kill.iter().chain(&sweep.remove).all(|other| other.uid != pod.uid));
                prop_assert!(!sweep.remove_pod_folders.contains(&pod.uid));
                prop_assert!(!sweep.remove_pod_cgroups.contains(&cgroup(pod.uid.as_str())));
            }
            for pod in &situation.observed {
                prop_assert!(!sweep.remove_pod_cgroups.contains(&cgroup(pod.uid.as_str())));
            }
            for worker in situation.workers.iter().filter(|worker| worker.phase != WorkerPhase::Finished) {
                prop_assert!(!sweep.forget.contains(&worker.uid));
                prop_assert!(sweep.kill.iter().chain(&sweep.remove).all(|other| other.uid != worker.uid));
                prop_assert!(sweep.restart.iter().all(|pod| pod.uid != worker.uid));
            }
        }

        #[test]
        fn every_unknown_runtime_pod_is_dealt_with(situation in any_situation()) {
            let sweep = sweep(&situation);
            for pod in &situation.observed {
                let known = situation.desired.iter().any(|other| other.uid == pod.uid)
                    || situation.workers.iter().any(|worker| worker.uid == pod.uid && !sweep.forget.contains(&worker.uid));
                let dealt = sweep.kill.iter().chain(&sweep.remove).any(|other| other.uid == pod.uid);
                prop_assert_eq!(dealt, !known);
            }
        }
    }
}
