//! Removes what the sweep found: dead pods in the runtime, pod folders, log folders, cgroups.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::housekeeping::PodCgroup;
use decide::qos_cgroups::leftover_limits;
use futures::StreamExt;
use model::{ObservedPod, PodUid};
use ports::pod_cgroups::PodCgroups;
use ports::pod_folders::PodFolders;
use ports::pod_logs::PodLogs;
use ports::pod_volumes::PodVolumes;
use ports::runtime::{Runtime, RuntimeError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::messages::SweepOrder;
use crate::metrics::Metrics;
use crate::observation::Observer;
use crate::sweeping::{Claim, Sweeping, Wanted};

/// Pods swept side by side.
const AT_ONCE: usize = 8;
/// How long a look at what is left of a pod may take.
const LONGEST_LOOK: Duration = Duration::from_secs(10);

/// What the sweeper needs.
pub struct Parts {
    /// The newest order; older ones are worthless.
    pub orders: watch::Receiver<SweepOrder>,
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Folders on disk.
    pub folders: Arc<dyn PodFolders>,
    /// Volumes of pods.
    pub volumes: Arc<dyn PodVolumes>,
    /// Logs on disk.
    pub logs: Arc<dyn PodLogs>,
    /// Cgroups of pods.
    pub cgroups: Arc<dyn PodCgroups>,
    /// Who is wanted by now.
    pub wanted: Wanted,
    /// Who is being swept.
    pub sweeping: Sweeping,
    /// Told about pods that were removed.
    pub observer: Observer,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

impl Parts {
    /// The right to remove a pod whole, unless it is wanted again since the sweep was decided.
    fn claim_unwanted(&self, uid: &PodUid) -> Option<Claim> {
        self.sweeping.claim(uid, || self.wanted.by_nobody(uid))
    }

    /// The right to remove what is left of a pod that has ended.
    fn claim_over(&self, uid: &PodUid) -> Option<Claim> {
        self.sweeping.claim(uid, || self.wanted.is_over(uid))
    }
}

/// Runs until cancelled.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    // Problems are told once per folder, not each two seconds.
    let mut told: HashMap<PodUid, String> = HashMap::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = parts.orders.changed() => if changed.is_err() { return },
        }
        let order = parts.orders.borrow_and_update().clone();
        let here = &parts;
        futures::stream::iter(order.runtime_pods.clone())
            .for_each_concurrent(AT_ONCE, |pod| async move {
                let Some(_claim) = here.claim_over(&pod.uid) else { return };
                if let Err(error) = remove_pod(&*here.runtime, &pod).await {
                    tracing::warn!(pod = %pod.full_name, %error, "a dead pod could not be removed from the runtime");
                }
                // A pod that comes back must not plan on what was removed.
                let seen = here.observer.after(&pod.uid, &pod.full_name, here.observer.moments().next());
                if tokio::time::timeout(LONGEST_LOOK, seen).await.is_err() {
                    tracing::warn!(pod = %pod.full_name, "what is left of a removed pod is not seen in time");
                }
            })
            .await;
        let removed: Vec<_> = futures::stream::iter(order.pod_folders.clone())
            .map(|uid| async move {
                let _claim = here.claim_unwanted(&uid)?;
                let result = remove_folder(here, &uid).await;
                Some((uid, result))
            })
            .buffer_unordered(AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await;
        let failed = removed.iter().filter(|(_, result)| result.is_err()).count();
        parts.metrics.pods.orphan_folders.set_count(removed.len());
        parts.metrics.pods.orphan_folder_errors.set_count(failed);
        for (uid, result) in removed {
            match result {
                Ok(()) => {
                    told.remove(&uid);
                }
                Err(text) => {
                    if told.get(&uid) != Some(&text) {
                        tracing::warn!(pod = %uid, error = %text, "the folder of a removed pod stays");
                        told.insert(uid, text);
                    }
                }
            }
        }
        for folder in &order.log_folders {
            let Some(_claim) = parts.claim_over(&folder.uid) else { continue };
            if let Err(error) = parts.logs.remove_log_folder(folder).await {
                tracing::warn!(%error, source = %error.source, "the logs of a removed pod stay");
            }
        }
        if !order.log_folders.is_empty()
            && let Err(error) = parts.logs.remove_dead_log_links().await
        {
            tracing::warn!(%error, source = %error.source, "dead log links stay");
        }
        for PodCgroup { uid, path } in &order.leftover_cgroups {
            let Some(_claim) = parts.claim_unwanted(uid) else { continue };
            if let Err(error) = parts.cgroups.set(path, &leftover_limits()).await {
                tracing::debug!(cgroup = path, %error, source = %error.source, "a cgroup keeps its CPU");
            }
        }
        for PodCgroup { uid, path } in &order.pod_cgroups {
            let Some(_claim) = parts.claim_unwanted(uid) else { continue };
            tracing::info!(cgroup = path, "removing the cgroup of a pod that is gone");
            let killed = parts.cgroups.kill_processes(path).await;
            if let Err(error) = killed.and(parts.cgroups.remove(path).await) {
                tracing::warn!(cgroup = path, %error, source = %error.source, "the cgroup of a removed pod stays");
            }
        }
    }
}

/// Nobody may have taken the volumes down: an agent that is killed between forgetting a pod and cleaning up after
/// it leaves a pod that its successor only knows from the runtime.
async fn remove_folder(parts: &Parts, uid: &PodUid) -> Result<(), String> {
    if let Err(error) = parts.volumes.tear_down(uid).await {
        return Err(error.text());
    }
    parts.folders.remove_pod_folder(uid).await.map_err(|error| format!("{error}: {}", error.source))
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
