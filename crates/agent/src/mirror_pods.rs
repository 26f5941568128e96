//! Keeps an API object for each static pod, so that the cluster sees it.
//!
//! A mirror is made when its pod is there, replaced when the pod is another version and the one before has stopped, and
//! deleted once the pod is gone and has stopped. Deleting a mirror never stops the pod: it is made again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use decide::mirror_pods::{MirrorStep, Owner, mirror_object, mirror_step, waits_its_turn};
use model::{Pod, PodFullName, PodUid, WorkerPhase, WorkerView};
use ports::api::pods::ApiPods;
use ports::api::{ApiError, ApiErrorKind};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api_pods::{ApiPodChange, ApiPodsReader};
use crate::node_view::NodeView;
use crate::published::Reader;

/// Time between two comparisons of everything.
const PERIOD: Duration = Duration::from_secs(10);
/// Changes that come together are looked at together.
const BREATH: Duration = Duration::from_millis(100);
/// How long a write may take to be shown by the watch before it is made again.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(10);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What the stage needs.
pub struct Parts {
    /// UIDs of pods that came, changed, stopped or went.
    pub changes: mpsc::UnboundedReceiver<PodUid>,
    /// What changed at the API server.
    pub shown_changes: mpsc::UnboundedReceiver<ApiPodChange>,
    /// Whether every source has spoken: until then a mirror without a pod may only be early.
    pub sources_ready: watch::Receiver<bool>,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// How far workers are.
    pub workers: Reader<WorkerView>,
    /// What the API server shows.
    pub shown: ApiPodsReader,
    /// The Node object, which mirrors belong to.
    pub node: watch::Receiver<NodeView>,
    /// The API server.
    pub pods: Arc<dyn ApiPods>,
}

/// Runs until cancelled.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    let mut asked = Asked::new();
    let mut failures = 0u32;
    let mut wait = Duration::ZERO;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
            Some(_) = parts.changes.recv() => {}
            // What is shown of a mirror is newer than what was asked for.
            Some(change) = parts.shown_changes.recv() => drop(asked.remove(&change.full_name)),
            Ok(()) = parts.sources_ready.changed() => {}
            Ok(()) = parts.node.changed() => {}
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait.max(BREATH)) => {}
        }
        while parts.changes.try_recv().is_ok() {}
        while let Ok(change) = parts.shown_changes.try_recv() {
            asked.remove(&change.full_name);
        }
        let passed = tokio::select! {
            () = cancel.cancelled() => return,
            passed = parts.pass(&mut asked) => passed,
        };
        wait = match passed {
            Ok(()) => {
                failures = 0;
                Duration::ZERO
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                if failures == 1 {
                    tracing::warn!(%error, "mirror pods cannot be brought in line; trying again");
                }
                let own = FIRST_WAIT.saturating_mul(1 << (failures - 1).min(8)).min(LONGEST_WAIT);
                error.retry_after.unwrap_or(own)
            }
        };
    }
}

/// What was asked for and is not shown yet.
type Asked = HashMap<PodFullName, (MirrorStep, Instant)>;

impl Parts {
    /// Brings all mirrors in line; ends at the first request that failed.
    async fn pass(&self, asked: &mut Asked) -> Result<(), ApiError> {
        let Some(owner) = self.owner() else { return Ok(()) };
        if !self.shown.has_listed() {
            return Ok(());
        }
        for (name, step) in self.steps() {
            let now = Instant::now();
            let pending = asked
                .get(&name)
                .is_some_and(|(last, at)| *last == step && now.duration_since(*at) < SHOWN_WITHIN);
            if step == MirrorStep::Nothing {
                asked.remove(&name);
            }
            if step == MirrorStep::Nothing || pending {
                continue;
            }
            self.make(&name, &step, &owner).await?;
            asked.insert(name, (step, now));
        }
        Ok(())
    }

    fn steps(&self) -> BTreeMap<PodFullName, MirrorStep> {
        let pods: BTreeMap<PodFullName, Arc<Pod>> = self
            .desired
            .all()
            .into_iter()
            .filter(|pod| pod.is_static())
            .map(|pod| (pod.full_name.clone(), pod))
            .collect();
        let workers = self.workers.all();
        let mut steps: BTreeMap<PodFullName, MirrorStep> = pods
            .iter()
            .filter(|(_, pod)| !waits_its_turn(pod, &workers))
            .map(|(name, pod)| {
                (name.clone(), mirror_step(Some(pod.as_ref()), self.shown.mirror(name).as_deref()))
            })
            .collect();
        let ready = *self.sources_ready.borrow();
        for mirror in self.shown.mirrors() {
            let name = &mirror.full_name;
            if ready && !pods.contains_key(name) && !self.still_runs(name) {
                steps.insert(name.clone(), mirror_step(None, Some(mirror.as_ref())));
            }
        }
        steps
    }

    /// Whether a pod of that name, wanted or not, has not stopped yet.
    fn still_runs(&self, name: &PodFullName) -> bool {
        let mut workers = self.workers.all().into_iter();
        workers.any(|worker| worker.full_name == *name && worker.phase < WorkerPhase::Terminated)
    }

    /// The Node object; none while it is unknown or on its way out.
    fn owner(&self) -> Option<Owner> {
        let view = self.node.borrow();
        let metadata = &view.node()?.metadata;
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        Some(Owner { name: metadata.name.clone()?, uid: metadata.uid.clone()? })
    }

    async fn make(&self, name: &PodFullName, step: &MirrorStep, owner: &Owner) -> Result<(), ApiError> {
        match step {
            MirrorStep::Nothing => Ok(()),
            MirrorStep::Create => {
                let pod =
                    self.desired.all().into_iter().find(|pod| pod.is_static() && pod.full_name == *name);
                let Some(pod) = pod else { return Ok(()) };
                match timed(self.pods.create(&mirror_object(&pod, owner))).await {
                    Ok(_) => {
                        tracing::info!(pod = %name, "mirror pod made");
                        Ok(())
                    }
                    // The watch will show it; if it is another pod's, there is nothing to be done about it.
                    Err(error) if error.kind == ApiErrorKind::AlreadyExists => Ok(()),
                    Err(error) if error.is_transient() => Err(error),
                    Err(error) => {
                        tracing::warn!(pod = %name, %error, "the API server refuses a mirror pod");
                        Ok(())
                    }
                }
            }
            MirrorStep::Delete(uid) => match timed(self.pods.delete(name, uid, 0)).await {
                Ok(()) => {
                    tracing::info!(pod = %name, %uid, "mirror pod deleted");
                    Ok(())
                }
                Err(error) if matches!(error.kind, ApiErrorKind::NotFound | ApiErrorKind::Conflict) => Ok(()),
                Err(error) if error.is_transient() => Err(error),
                Err(error) => {
                    tracing::warn!(pod = %name, %error, "the API server keeps a mirror pod");
                    Ok(())
                }
            },
        }
    }
}

async fn timed<T>(request: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    tokio::time::timeout(DEADLINE, request).await.unwrap_or_else(|_| {
        Err(ApiError {
            kind: ApiErrorKind::Unreachable,
            message: format!("no answer within {DEADLINE:?}"),
            retry_after: None,
        })
    })
}

#[cfg(test)]
mod tests;
