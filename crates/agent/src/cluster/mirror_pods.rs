//! Maintains a mirror pod at the API server for each static pod.
//!
//! A mirror pod is created with its static pod, replaced when the static pod changes and the old version has stopped, and
//! deleted after the static pod was removed and has stopped. Deleting a mirror pod never stops the static pod; the mirror
//! pod is created again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use decide::pipeline::mirror_pods::{
    MirrorAction, MirrorOwner, mirror_action, mirror_object, waits_for_old_version,
};
use model::{Pod, PodFullName, PodUid, WorkerPhase, WorkerView};
use ports::api::pods::ApiPods;
use ports::api::{ApiError, ApiErrorKind};
use timing::{Backoff, BackoffPolicy, KeyReceiver, random};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::api_pods::{ApiPodChange, ApiPodsReader};
use crate::cluster::api_timeout::with_timeout;
use crate::node::node_view::NodeView;
use crate::pipeline::tables::Reader;

const RECONCILE_PERIOD: Duration = Duration::from_secs(10);
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How long the watch may take to report a write before the write is repeated.
const WATCH_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Jitter prevents all nodes from retrying at the same time after an outage.
const BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(30)).with_jitter(0.5);

pub struct MirrorPodsDeps {
    /// Pods that were added, changed, stopped or removed.
    pub changes: KeyReceiver<PodUid>,
    pub api_pod_changes: KeyReceiver<ApiPodChange>,
    /// Until every source has delivered, a mirror pod without a static pod is not deleted.
    pub sources_ready: watch::Receiver<bool>,
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
    pub api_pods: ApiPodsReader,
    /// The Node object, which owns the mirror pods.
    pub node: watch::Receiver<NodeView>,
    pub pods: Arc<dyn ApiPods>,
}

/// Runs until cancelled.
pub async fn run(deps: MirrorPodsDeps, cancel: CancellationToken) {
    cancel.run_until_cancelled(reconcile_on_changes(deps)).await;
}

async fn reconcile_on_changes(mut deps: MirrorPodsDeps) {
    let mut pending = PendingWrites::new();
    let mut backoff = Backoff::new(BACKOFF);
    let mut delay = Duration::ZERO;
    loop {
        tokio::select! {
            () = tokio::time::sleep(RECONCILE_PERIOD) => {}
            Some(_) = deps.changes.recv() => {}
            // The watch reports a newer state than the pending write.
            Some(change) = deps.api_pod_changes.recv() => drop(pending.remove(&change.full_name)),
            Ok(()) = deps.sources_ready.changed() => {}
            Ok(()) = deps.node.changed() => {}
        }
        tokio::time::sleep(delay.max(DEBOUNCE)).await;
        while deps.changes.try_recv().is_some() {}
        while let Some(change) = deps.api_pod_changes.try_recv() {
            pending.remove(&change.full_name);
        }
        delay = match deps.reconcile(&mut pending).await {
            Ok(()) => {
                backoff.reset();
                Duration::ZERO
            }
            Err(error) => {
                let delay = backoff.next(random());
                if backoff.failures() == 1 {
                    tracing::warn!(%error, "failed to reconcile mirror pods, retrying");
                }
                error.retry_after.unwrap_or(delay)
            }
        };
    }
}

/// Writes that the watch has not reported yet.
type PendingWrites = HashMap<PodFullName, (MirrorAction, Instant)>;

impl MirrorPodsDeps {
    /// Reconciles all mirror pods; stops at the first transient error.
    async fn reconcile(&self, pending: &mut PendingWrites) -> Result<(), ApiError> {
        let Some(owner) = self.owner() else { return Ok(()) };
        if !self.api_pods.has_listed() {
            return Ok(());
        }
        for (name, action) in self.actions() {
            let now = Instant::now();
            let is_pending = pending
                .get(&name)
                .is_some_and(|(last, at)| *last == action && now.duration_since(*at) < WATCH_TIMEOUT);
            if action == MirrorAction::Nothing {
                pending.remove(&name);
            }
            if action == MirrorAction::Nothing || is_pending {
                continue;
            }
            self.write(&name, &action, &owner).await?;
            pending.insert(name, (action, now));
        }
        Ok(())
    }

    fn actions(&self) -> BTreeMap<PodFullName, MirrorAction> {
        let pods: BTreeMap<PodFullName, Arc<Pod>> = self
            .desired
            .all()
            .into_iter()
            .filter(|pod| pod.is_static())
            .map(|pod| (pod.full_name.clone(), pod))
            .collect();
        let workers = self.workers.all();
        let mut actions: BTreeMap<PodFullName, MirrorAction> = pods
            .iter()
            .filter(|(_, pod)| !waits_for_old_version(pod, &workers))
            .map(|(name, pod)| {
                (name.clone(), mirror_action(Some(pod.as_ref()), self.api_pods.mirror(name).as_deref()))
            })
            .collect();
        let ready = *self.sources_ready.borrow();
        for mirror in self.api_pods.mirrors() {
            let name = &mirror.full_name;
            if ready && !pods.contains_key(name) && !self.is_running(name) {
                actions.insert(name.clone(), mirror_action(None, Some(mirror.as_ref())));
            }
        }
        actions
    }

    /// Whether a pod of that name, desired or not, has not stopped yet.
    fn is_running(&self, name: &PodFullName) -> bool {
        let mut workers = self.workers.all().into_iter();
        workers.any(|worker| worker.full_name == *name && worker.phase < WorkerPhase::Terminated)
    }

    /// `None` while the Node object is unknown or being deleted.
    fn owner(&self) -> Option<MirrorOwner> {
        let view = self.node.borrow();
        let metadata = &view.node()?.metadata;
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        Some(MirrorOwner { name: metadata.name.clone()?, uid: metadata.uid.clone()? })
    }

    async fn write(
        &self,
        name: &PodFullName,
        action: &MirrorAction,
        owner: &MirrorOwner,
    ) -> Result<(), ApiError> {
        match action {
            MirrorAction::Nothing => {}
            MirrorAction::Create => {
                let pod =
                    self.desired.all().into_iter().find(|pod| pod.is_static() && pod.full_name == *name);
                let Some(pod) = pod else { return Ok(()) };
                match with_timeout(REQUEST_TIMEOUT, self.pods.create(&mirror_object(&pod, owner))).await {
                    Ok(_) => tracing::info!(pod = %name, "created mirror pod"),
                    // The watch will report the existing pod. If it belongs to another pod, nothing can be done.
                    Err(error) if error.kind == ApiErrorKind::AlreadyExists => {}
                    Err(error) if error.is_transient() => return Err(error),
                    Err(error) => tracing::warn!(pod = %name, %error, "API server rejected mirror pod"),
                }
            }
            MirrorAction::Delete(uid) => {
                match with_timeout(REQUEST_TIMEOUT, self.pods.delete(name, uid, 0)).await {
                    Ok(()) => tracing::info!(pod = %name, %uid, "deleted mirror pod"),
                    Err(error) if matches!(error.kind, ApiErrorKind::NotFound | ApiErrorKind::Conflict) => {}
                    Err(error) if error.is_transient() => return Err(error),
                    Err(error) => {
                        tracing::warn!(pod = %name, %error, "API server rejected deletion of mirror pod");
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
