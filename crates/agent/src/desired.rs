//! Merges the sources into one desired state and tells the sync loop what changed.
//!
//! Each source sends whole snapshots; the merge itself is `decide::merge`. The last desired set is kept on disk
//! and comes back as RESTORE at the next start.

use std::collections::BTreeMap;
use std::sync::Arc;

use decide::merge::{SourcePods, merge};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::{EventSubject, EventType, Pod, PodSource, PodUpdate, RecordedEvent, Snapshot, SnapshotKind};
use ports::checkpoints::Checkpoints;
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::pod_folders::FileError;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::save_retry::SaveRetry;

/// Name of the checkpoint that holds the last desired set.
const CHECKPOINT: &str = "desired_pods";
const VERSION: u32 = 1;

/// What the merger needs.
pub struct Parts {
    /// Snapshots of all sources.
    pub snapshots: mpsc::Receiver<Snapshot>,
    /// Changes for the sync loop.
    pub updates: mpsc::Sender<PodUpdate>,
    /// Where the desired set is kept.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Sources that are configured; others are not restored.
    pub sources: Vec<PodSource>,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

#[derive(Deserialize)]
struct Saved {
    version: u32,
    sources: BTreeMap<PodSource, Vec<core::Pod>>,
}

/// The written form of [`Saved`], which copies no pod.
#[derive(Serialize)]
struct SavedView<'a> {
    version: u32,
    sources: BTreeMap<PodSource, Vec<PodView<'a>>>,
}

#[derive(Serialize)]
struct PodView<'a> {
    metadata: &'a ObjectMeta,
    spec: &'a core::PodSpec,
    status: &'a core::PodStatus,
}

impl<'a> PodView<'a> {
    fn of(pod: &'a Pod) -> Self {
        Self { metadata: &pod.metadata, spec: &pod.spec, status: &pod.status }
    }
}

/// Runs until cancelled.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    let mut known: BTreeMap<PodSource, SourcePods> = BTreeMap::new();
    for snapshot in restored(&parts).await {
        if !take(&mut known, snapshot, &parts).await {
            return;
        }
    }
    let (save, to_save) = watch::channel(None);
    let saving = save_changes(Arc::clone(&parts.checkpoints), to_save, cancel.clone());
    let merging = async {
        loop {
            let snapshot = tokio::select! {
                () = cancel.cancelled() => break,
                snapshot = parts.snapshots.recv() => snapshot,
            };
            let Some(snapshot) = snapshot else { break };
            if !take(&mut known, snapshot, &parts).await {
                break;
            }
            save.send_replace(Some(desired(&known)));
        }
        drop(save);
    };
    tokio::join!(saving, merging);
}

/// Merges one snapshot and delivers the changes; false when the sync loop is gone.
async fn take(known: &mut BTreeMap<PodSource, SourcePods>, snapshot: Snapshot, parts: &Parts) -> bool {
    let source = snapshot.source;
    let merged = merge(known.entry(source).or_default(), snapshot, parts.clock.now());
    for pod in merged.duplicates {
        parts.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::pod(&pod, String::new()),
            kind: EventType::Warning,
            reason: "FailedValidation".to_owned(),
            message: format!(
                "Error validating pod {}_{}({}) from {source} due to duplicate pod name {:?}, ignoring",
                pod.name(),
                pod.full_name.namespace,
                pod.uid,
                pod.name(),
            ),
            at: parts.clock.now(),
        });
    }
    for update in merged.updates {
        tracing::debug!(source = %update.source, operation = update.operation.as_str(), pods = update.pods.len(), "desired state changed");
        if parts.updates.send(update).await.is_err() {
            return false;
        }
    }
    true
}

fn desired(known: &BTreeMap<PodSource, SourcePods>) -> BTreeMap<PodSource, Vec<Arc<Pod>>> {
    let kept = known.iter().filter(|(source, _)| is_kept(**source));
    kept.map(|(source, pods)| (*source, pods.pods().cloned().collect())).collect()
}

/// Pods of the API server are not kept here: they belong to the server, and may hold what only they may see.
fn is_kept(source: PodSource) -> bool {
    source.is_static()
}

type Desired = BTreeMap<PodSource, Vec<Arc<Pod>>>;

/// Writes the newest desired set; sets that come while one is being written replace each other. One that cannot be written
/// is tried again.
async fn save_changes(
    checkpoints: Arc<dyn Checkpoints>,
    mut to_save: watch::Receiver<Option<Desired>>,
    cancel: CancellationToken,
) {
    let mut last: Option<Desired> = None;
    let mut retry = SaveRetry::default();
    loop {
        tokio::select! {
            () = cancel.cancelled() => {}
            changed = to_save.changed() => if changed.is_err() { return },
            () = retry.due() => {}
        }
        let newest = to_save.borrow_and_update().clone();
        if let Some(newest) = newest.filter(|newest| last.as_ref() != Some(newest)) {
            match save(&*checkpoints, &newest).await {
                Ok(()) => {
                    retry.succeeded();
                    last = Some(newest);
                }
                Err(error) => {
                    if retry.failed() {
                        tracing::error!(%error, source = %error.source, "the desired set could not be kept; a start without its sources will not know these pods; trying again");
                    }
                }
            }
        }
        if cancel.is_cancelled() {
            return;
        }
    }
}

async fn save(checkpoints: &dyn Checkpoints, desired: &Desired) -> Result<(), FileError> {
    let sources = desired
        .iter()
        .map(|(source, pods)| (*source, pods.iter().map(|pod| PodView::of(pod)).collect()))
        .collect();
    match serde_json::to_vec(&SavedView { version: VERSION, sources }) {
        Ok(content) => checkpoints.save_unflushed(CHECKPOINT, content).await,
        Err(error) => {
            tracing::error!(%error, "the desired set could not be written as JSON");
            Ok(())
        }
    }
}

async fn restored(parts: &Parts) -> Vec<Snapshot> {
    let content = match parts.checkpoints.load(CHECKPOINT).await {
        Ok(Some(content)) => content,
        Ok(None) => return Vec::new(),
        Err(error) => {
            tracing::error!(%error, source = %error.source, "the last desired set could not be read; waiting for the sources");
            return Vec::new();
        }
    };
    let saved: Saved = match serde_json::from_slice::<Saved>(&content) {
        Ok(saved) if saved.version == VERSION => saved,
        Ok(saved) => {
            tracing::warn!(
                version = saved.version,
                "the last desired set is of another version; waiting for the sources"
            );
            return Vec::new();
        }
        Err(error) => {
            tracing::error!(%error, "the last desired set could not be understood; waiting for the sources");
            return Vec::new();
        }
    };
    saved
        .sources
        .into_iter()
        .filter(|(source, pods)| is_kept(*source) && parts.sources.contains(source) && !pods.is_empty())
        .map(|(source, pods)| {
            let pods = pods.into_iter().filter_map(|pod| Pod::from_object(pod, source).ok()).map(Arc::new);
            Snapshot { source, kind: SnapshotKind::Restore, pods: pods.collect() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::test_checkpoints::Files;

    #[tokio::test(start_paused = true)]
    async fn a_set_that_cannot_be_written_is_tried_again() {
        let files = Arc::new(Files::default());
        files.fail(3);
        let (save, to_save) = watch::channel(None);
        let cancel = CancellationToken::new();
        let test = async {
            save.send_replace(Some(Desired::from([(PodSource::File, Vec::new())])));
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(files.read(CHECKPOINT).is_none());
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(files.read(CHECKPOINT).unwrap().0, 1, "and once it is there it is not written again");
            cancel.cancel();
        };
        tokio::join!(save_changes(files.clone(), to_save, cancel.clone()), test);
    }
}
