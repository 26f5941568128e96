//! Removes orphans: dead pods in the runtime, pod folders, log folders and cgroups.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::cgroups::qos_cgroups::orphan_cgroup_limits;
use decide::pipeline::housekeeping::PodCgroup;
use futures::StreamExt;
use model::{ObservedPod, PodUid};
use ports::host::pod_cgroups::PodCgroups;
use ports::host::pod_folders::PodFolders;
use ports::host::pod_volumes::PodVolumes;
use ports::runtime::{Runtime, RuntimeError};
use ports::served::pod_logs::PodLogs;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::pipeline::messages::SweepOrder;
use crate::pipeline::observation::Observer;
use crate::upkeep::sweep_claims::{SweepClaim, SweepClaims, SweepGuard};

/// Pods that are swept at the same time.
const MAX_CONCURRENT_SWEEPS: usize = 8;
const OBSERVE_TIMEOUT: Duration = Duration::from_secs(10);

pub struct SweeperDeps {
    /// Only the newest order counts.
    pub orders: watch::Receiver<SweepOrder>,
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

/// Runs until cancelled.
pub async fn run(mut deps: SweeperDeps, cancel: CancellationToken) {
    // Failures are logged once per folder, not every two seconds.
    let mut logged: HashMap<PodUid, String> = HashMap::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = deps.orders.changed() => if changed.is_err() { return },
        }
        let order = deps.orders.borrow_and_update().clone();
        let here = &deps;
        futures::stream::iter(order.runtime_pods.clone())
            .for_each_concurrent(MAX_CONCURRENT_SWEEPS, |pod| async move {
                let Some(_claim) = here.claim_over(&pod.uid) else { return };
                if let Err(error) = remove_pod(&*here.runtime, &pod).await {
                    tracing::warn!(pod = %pod.full_name, %error, "failed to remove dead pod from the runtime");
                }
                // A pod that is added again must not plan on removed containers.
                let seen = here.observer.after(&pod.uid, &pod.full_name, here.observer.moments().next());
                if tokio::time::timeout(OBSERVE_TIMEOUT, seen).await.is_err() {
                    tracing::warn!(pod = %pod.full_name, "failed to observe a removed pod in time");
                }
            })
            .await;
        let removed: Vec<_> = futures::stream::iter(order.pod_folders.clone())
            .map(|uid| async move {
                let _claim = here.claim_unwanted(&uid)?;
                let result = remove_folder(here, &uid).await;
                Some((uid, result))
            })
            .buffer_unordered(MAX_CONCURRENT_SWEEPS)
            .filter_map(std::future::ready)
            .collect()
            .await;
        let failed = removed.iter().filter(|(_, result)| result.is_err()).count();
        deps.metrics.pods.orphan_folders.set_count(removed.len());
        deps.metrics.pods.orphan_folder_errors.set_count(failed);
        for (uid, result) in removed {
            match result {
                Ok(()) => {
                    logged.remove(&uid);
                }
                Err(text) => {
                    if logged.get(&uid) != Some(&text) {
                        tracing::warn!(pod = %uid, error = %text, "failed to remove the folder of a removed pod");
                        logged.insert(uid, text);
                    }
                }
            }
        }
        for folder in &order.log_folders {
            let Some(_claim) = deps.claim_over(&folder.uid) else { continue };
            if let Err(error) = deps.logs.remove_log_folder(folder).await {
                tracing::warn!(%error, source = %error.source, "failed to remove the logs of a removed pod");
            }
        }
        if !order.log_folders.is_empty()
            && let Err(error) = deps.logs.remove_dead_log_links().await
        {
            tracing::warn!(%error, source = %error.source, "failed to remove dead log links");
        }
        for PodCgroup { uid, path } in &order.reduced_cgroups {
            let Some(_claim) = deps.claim_unwanted(uid) else { continue };
            if let Err(error) = deps.cgroups.set(path, &orphan_cgroup_limits()).await {
                tracing::debug!(cgroup = path, %error, source = %error.source, "failed to lower the CPU of an orphaned cgroup");
            }
        }
        for PodCgroup { uid, path } in &order.pod_cgroups {
            let Some(_claim) = deps.claim_unwanted(uid) else { continue };
            tracing::info!(cgroup = path, "removing orphaned cgroup");
            let killed = deps.cgroups.kill_processes(path).await;
            if let Err(error) = killed.and(deps.cgroups.remove(path).await) {
                tracing::warn!(cgroup = path, %error, source = %error.source, "failed to remove orphaned cgroup");
            }
        }
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
