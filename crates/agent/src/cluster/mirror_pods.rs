//! Maintains a mirror pod at the API server for each static pod.
//!
//! A mirror pod is created with its static pod, replaced when the static pod changes and the old version has stopped, and
//! deleted after the static pod was removed and has stopped. Deleting a mirror pod never stops the static pod; the mirror
//! pod is created again.

mod recent_writes;

use std::collections::BTreeMap;
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
use recent_writes::{MirrorWrite, RecentWrites, RejectionNews};

const RECONCILE_PERIOD: Duration = Duration::from_secs(10);
const DEBOUNCE: Duration = Duration::from_millis(100);
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
    let mut writes = RecentWrites::default();
    let mut backoff = Backoff::new(BACKOFF);
    let mut delay = Duration::ZERO;
    loop {
        tokio::select! {
            () = tokio::time::sleep(RECONCILE_PERIOD) => {}
            Some(_) = deps.changes.recv() => {}
            Some(change) = deps.api_pod_changes.recv() => writes.reported(&change.full_name),
            Ok(()) = deps.sources_ready.changed() => {}
            Ok(()) = deps.node.changed() => {}
        }
        tokio::time::sleep(delay.max(DEBOUNCE)).await;
        while deps.changes.try_recv().is_some() {}
        while let Some(change) = deps.api_pod_changes.try_recv() {
            writes.reported(&change.full_name);
        }
        delay = match deps.reconcile(&mut writes).await {
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

/// The next action for a mirror pod, with its static pod if that is still desired.
type PlannedAction = (MirrorAction, Option<Arc<Pod>>);

impl MirrorPodsDeps {
    /// Reconciles all mirror pods; stops at the first transient error.
    async fn reconcile(&self, writes: &mut RecentWrites) -> Result<(), ApiError> {
        let Some(owner) = self.owner() else { return Ok(()) };
        if !self.api_pods.has_listed() {
            return Ok(());
        }
        let actions = self.actions();
        writes.retain(&actions);
        for (name, (action, pod)) in actions {
            let now = Instant::now();
            let write = MirrorWrite { action, static_pod: pod.as_ref().map(|pod| pod.uid.clone()) };
            if !writes.is_due(&name, &write, now) {
                continue;
            }
            match self.write(&name, &write.action, pod.as_deref(), &owner).await {
                Ok(()) => writes.accepted(name, write, now),
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => {
                    let news = writes.rejected(name.clone(), write, &error.message, (now, random()));
                    report_rejection(&name, &error, news);
                }
            }
        }
        Ok(())
    }

    /// The mirror pods that must be written.
    fn actions(&self) -> BTreeMap<PodFullName, PlannedAction> {
        let pods: BTreeMap<PodFullName, Arc<Pod>> = self
            .desired
            .all()
            .into_iter()
            .filter(|pod| pod.is_static())
            .map(|pod| (pod.full_name.clone(), pod))
            .collect();
        let workers = self.workers.all();
        let mut actions: BTreeMap<PodFullName, PlannedAction> = pods
            .iter()
            .filter(|(_, pod)| !waits_for_old_version(pod, &workers))
            .map(|(name, pod)| {
                let action = mirror_action(Some(pod.as_ref()), self.api_pods.mirror(name).as_deref());
                (name.clone(), (action, Some(Arc::clone(pod))))
            })
            .collect();
        let ready = *self.sources_ready.borrow();
        for mirror in self.api_pods.mirrors() {
            let name = &mirror.full_name;
            if ready && !pods.contains_key(name) && !self.is_running(name) {
                actions.insert(name.clone(), (mirror_action(None, Some(mirror.as_ref())), None));
            }
        }
        actions.retain(|_, (action, _)| *action != MirrorAction::Nothing);
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
        pod: Option<&Pod>,
        owner: &MirrorOwner,
    ) -> Result<(), ApiError> {
        match (action, pod) {
            (MirrorAction::Create, Some(pod)) => {
                match with_timeout(REQUEST_TIMEOUT, self.pods.create(&mirror_object(pod, owner))).await {
                    Ok(_) => tracing::info!(pod = %name, "created mirror pod"),
                    // The watch will report the existing pod. If it belongs to another pod, nothing can be done.
                    Err(error) if error.kind == ApiErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
            (MirrorAction::Delete(uid), _) => {
                match with_timeout(REQUEST_TIMEOUT, self.pods.delete(name, uid, 0)).await {
                    Ok(()) => tracing::info!(pod = %name, %uid, "deleted mirror pod"),
                    Err(error) if matches!(error.kind, ApiErrorKind::NotFound | ApiErrorKind::Conflict) => {}
                    Err(error) => return Err(error),
                }
            }
            (MirrorAction::Nothing, _) | (MirrorAction::Create, None) => {}
        }
        Ok(())
    }
}

fn report_rejection(name: &PodFullName, error: &ApiError, news: RejectionNews) {
    match news {
        RejectionNews::New => {
            tracing::warn!(pod = %name, %error, "API server rejected write of mirror pod, retrying with backoff");
        }
        RejectionNews::Repeated => {
            tracing::debug!(pod = %name, %error, "API server rejected write of mirror pod again");
        }
    }
}

#[cfg(test)]
mod tests;
