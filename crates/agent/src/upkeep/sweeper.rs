//! Removes orphans: dead pods in the runtime, pod folders, log folders and cgroups.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use decide::cgroups::qos_cgroups::orphan_cgroup_limits;
use decide::pipeline::housekeeping::PodCgroup;
use model::{LogFolder, ObservedPod, PodUid};
use ports::host::pod_cgroups::PodCgroups;
use ports::host::pod_folders::PodFolders;
use ports::host::pod_volumes::PodVolumes;
use ports::runtime::{Runtime, RuntimeError};
use ports::served::pod_logs::PodLogs;
use timing::Limiter;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::pipeline::messages::SweepOrder;
use crate::pipeline::observation::Observer;
use crate::upkeep::sweep_claims::{SweepClaim, SweepClaims, SweepGuard};

/// Pods that are swept at the same time.
const MAX_CONCURRENT_SWEEPS: usize = 8;
/// A sweep that takes longer goes on, and another one may begin.
const MAX_HOLD: Duration = Duration::from_secs(5);
/// For the removal of one pod from the runtime. The removal of folders is not interrupted, because the kernel continues it.
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(120);
const OBSERVE_TIMEOUT: Duration = Duration::from_secs(10);

pub struct SweeperDeps {
    pub runtime: Arc<dyn Runtime>,
    pub folders: Arc<dyn PodFolders>,
    pub volumes: Arc<dyn PodVolumes>,
    pub logs: Arc<dyn PodLogs>,
    pub cgroups: Arc<dyn PodCgroups>,
    /// Checks whether a pod is still an orphan.
    pub guard: SweepGuard,
    pub sweeping: SweepClaims,
    /// Notified about removed pods.
    pub observer: Observer,
    pub metrics: Arc<Metrics>,
}

impl SweeperDeps {
    /// Claims a pod for removal, unless it is desired again.
    fn claim_unwanted(&self, uid: &PodUid) -> Option<SweepClaim> {
        self.sweeping.claim(uid, || self.guard.is_orphan(uid))
    }

    /// Claims the remains of a finished pod.
    fn claim_over(&self, uid: &PodUid) -> Option<SweepClaim> {
        self.sweeping.claim(uid, || self.guard.is_over(uid))
    }
}

/// Runs until cancelled. The orphans are swept side by side: one whose removal hangs delays neither the others nor the next
/// order.
pub async fn run(deps: SweeperDeps, mut orders: watch::Receiver<SweepOrder>, cancel: CancellationToken) {
    let mut sweeper = Sweeper {
        deps: Arc::new(deps),
        limiter: Arc::new(Limiter::new(MAX_CONCURRENT_SWEEPS, MAX_HOLD)),
        sweeps: JoinSet::new(),
        running: HashSet::new(),
        failures: Failures::default(),
    };
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = orders.changed() => {
                if changed.is_err() {
                    return;
                }
                let order = orders.borrow_and_update().clone();
                sweeper.start(order);
            }
            Some(ended) = sweeper.sweeps.join_next() => match ended {
                Ok(ended) => sweeper.end(ended),
                Err(error) => if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                },
            },
        }
    }
}

struct Sweeper {
    deps: Arc<SweeperDeps>,
    limiter: Arc<Limiter>,
    sweeps: JoinSet<EndedSweep>,
    /// Pods that are being swept.
    running: HashSet<PodUid>,
    failures: Failures,
}

/// Failures are logged once per folder, not every two seconds.
#[derive(Default)]
struct Failures {
    logged: HashMap<PodUid, String>,
    /// Pod folders since the last order.
    folders: usize,
    failed_folders: usize,
}

struct EndedSweep {
    uid: PodUid,
    /// `None` if there was no folder to remove.
    folder: Option<Result<(), String>>,
}

impl Sweeper {
    fn start(&mut self, order: SweepOrder) {
        let metrics = &self.deps.metrics.pods;
        metrics.orphan_folders.set_count(std::mem::take(&mut self.failures.folders));
        metrics.orphan_folder_errors.set_count(std::mem::take(&mut self.failures.failed_folders));
        for (uid, sweep) in by_pod(order) {
            if self.running.insert(uid.clone()) {
                let (deps, limiter) = (Arc::clone(&self.deps), Arc::clone(&self.limiter));
                self.sweeps.spawn(async move {
                    let folder = limiter.run(sweep.run(&deps, &uid)).await;
                    EndedSweep { uid, folder }
                });
            }
        }
    }

    fn end(&mut self, ended: EndedSweep) {
        self.running.remove(&ended.uid);
        let Some(result) = ended.folder else { return };
        self.failures.folders += 1;
        let Err(text) = result else {
            self.failures.logged.remove(&ended.uid);
            return;
        };
        self.failures.failed_folders += 1;
        if self.failures.logged.get(&ended.uid) != Some(&text) {
            tracing::warn!(pod = %ended.uid, error = %text, "failed to remove the folder of a removed pod");
            self.failures.logged.insert(ended.uid, text);
        }
    }
}

/// The remains of one pod.
#[derive(Default)]
struct PodSweep {
    observed: Option<Arc<ObservedPod>>,
    has_folder: bool,
    logs: Vec<LogFolder>,
    reduced_cgroups: Vec<String>,
    cgroups: Vec<String>,
}

fn by_pod(order: SweepOrder) -> HashMap<PodUid, PodSweep> {
    let mut pods: HashMap<PodUid, PodSweep> = HashMap::new();
    for pod in order.runtime_pods {
        let uid = pod.uid.clone();
        pods.entry(uid).or_default().observed = Some(pod);
    }
    for uid in order.pod_folders {
        pods.entry(uid).or_default().has_folder = true;
    }
    for folder in order.log_folders {
        pods.entry(folder.uid.clone()).or_default().logs.push(folder);
    }
    for PodCgroup { uid, path } in order.reduced_cgroups {
        pods.entry(uid).or_default().reduced_cgroups.push(path);
    }
    for PodCgroup { uid, path } in order.pod_cgroups {
        pods.entry(uid).or_default().cgroups.push(path);
    }
    pods
}

impl PodSweep {
    /// Returns the result of the removal of the pod's folder.
    async fn run(self, deps: &SweeperDeps, uid: &PodUid) -> Option<Result<(), String>> {
        if let Some(pod) = &self.observed {
            remove_from_runtime(deps, pod).await;
        }
        let mut folder = None;
        if self.has_folder
            && let Some(_claim) = deps.claim_unwanted(uid)
        {
            folder = Some(remove_folder(deps, uid).await);
        }
        self.remove_logs(deps).await;
        self.remove_cgroups(deps, uid).await;
        folder
    }

    async fn remove_logs(&self, deps: &SweeperDeps) {
        for folder in &self.logs {
            let Some(_claim) = deps.claim_over(&folder.uid) else { continue };
            if let Err(error) = deps.logs.remove_log_folder(folder).await {
                tracing::warn!(%error, source = %error.source, "failed to remove the logs of a removed pod");
            }
        }
        if !self.logs.is_empty()
            && let Err(error) = deps.logs.remove_dead_log_links().await
        {
            tracing::warn!(%error, source = %error.source, "failed to remove dead log links");
        }
    }

    async fn remove_cgroups(&self, deps: &SweeperDeps, uid: &PodUid) {
        for path in &self.reduced_cgroups {
            let Some(_claim) = deps.claim_unwanted(uid) else { continue };
            if let Err(error) = deps.cgroups.set(path, &orphan_cgroup_limits()).await {
                tracing::debug!(cgroup = path, %error, source = %error.source, "failed to lower the CPU of an orphaned cgroup");
            }
        }
        for path in &self.cgroups {
            let Some(_claim) = deps.claim_unwanted(uid) else { continue };
            tracing::info!(cgroup = path, "removing orphaned cgroup");
            let killed = deps.cgroups.kill_processes(path).await;
            if let Err(error) = killed.and(deps.cgroups.remove(path).await) {
                tracing::warn!(cgroup = path, %error, source = %error.source, "failed to remove orphaned cgroup");
            }
        }
    }
}

async fn remove_from_runtime(deps: &SweeperDeps, pod: &ObservedPod) {
    let Some(_claim) = deps.claim_over(&pod.uid) else { return };
    match tokio::time::timeout(RUNTIME_TIMEOUT, remove_pod(&*deps.runtime, pod)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(pod = %pod.full_name, %error, "failed to remove dead pod from the runtime");
        }
        Err(_) => {
            tracing::warn!(pod = %pod.full_name, "failed to remove dead pod from the runtime within {RUNTIME_TIMEOUT:?}, trying again later");
        }
    }
    // A pod that is added again must not plan on removed containers.
    let seen = deps.observer.after(&pod.uid, &pod.full_name, deps.observer.moments().next());
    if tokio::time::timeout(OBSERVE_TIMEOUT, seen).await.is_err() {
        tracing::warn!(pod = %pod.full_name, "failed to observe a removed pod in time");
    }
}

/// Also tears the volumes down: an agent that was killed between dropping a pod and cleaning it up leaves mounted volumes.
async fn remove_folder(deps: &SweeperDeps, uid: &PodUid) -> Result<(), String> {
    deps.volumes.tear_down(uid).await.map_err(|error| error.text())?;
    deps.folders.remove_pod_folder(uid).await.map_err(|error| error.text())
}

async fn remove_pod(runtime: &dyn Runtime, pod: &ObservedPod) -> Result<(), RuntimeError> {
    for container in &pod.containers {
        runtime.remove_container(&container.id).await?;
    }
    for sandbox in &pod.sandboxes {
        runtime.stop_sandbox(&sandbox.id).await?;
        runtime.remove_sandbox(&sandbox.id).await?;
    }
    Ok(())
}
