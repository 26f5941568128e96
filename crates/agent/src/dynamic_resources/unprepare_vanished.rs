//! Unprepares the claims of pods that ended while the agent was away.

use std::sync::Arc;
use std::time::Duration;

use model::{Pod, PodUid, WorkerPhase, WorkerView};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::resource_claims::ResourceClaims;
use crate::pipeline::tables::Reader;

/// Same as upstream.
const PERIOD: Duration = Duration::from_secs(60);

pub struct UnprepareVanishedDeps {
    pub claims: Arc<ResourceClaims>,
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
    /// Before all sources have delivered, a pod that is not desired may still be wanted.
    pub sources_ready: watch::Receiver<bool>,
}

/// Runs until cancelled.
pub async fn run(mut deps: UnprepareVanishedDeps, cancel: CancellationToken) {
    let work = async {
        if deps.sources_ready.wait_for(|ready| *ready).await.is_err() {
            return;
        }
        loop {
            tokio::time::sleep(PERIOD).await;
            unprepare(&deps).await;
        }
    };
    cancel.run_until_cancelled(work).await;
    cancel.cancelled().await;
}

async fn unprepare(deps: &UnprepareVanishedDeps) {
    for uid in deps.claims.pods() {
        if is_active(deps, &uid) {
            continue;
        }
        match deps.claims.unprepare(&uid).await {
            Ok(()) => tracing::info!(%uid, "unprepared claims of a pod that no longer exists"),
            Err(error) => {
                tracing::warn!(%uid, %error, "failed to unprepare claims of a pod that no longer exists, retrying");
            }
        }
    }
}

/// A worker unprepares the claims of its pod before it terminates.
fn is_active(deps: &UnprepareVanishedDeps, uid: &PodUid) -> bool {
    match deps.workers.get(uid) {
        Some(view) => view.phase < WorkerPhase::Terminated,
        None => deps.desired.get(uid).is_some(),
    }
}
