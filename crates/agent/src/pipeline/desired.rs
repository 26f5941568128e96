//! Merges the snapshots of all sources into the desired pods and sends the changes to the sync loop.
//!
//! Each source sends complete snapshots; the merge itself is `decide::pipeline::merge`. The desired pods are
//! checkpointed and sent as RESTORE at the next start.

use std::collections::BTreeMap;
use std::sync::Arc;

use decide::pipeline::merge::{SourcePods, merge};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::{EventSubject, EventType, Pod, PodSource, PodUpdate, RecordedEvent, Snapshot, SnapshotKind};
use ports::clock::Clock;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use ports::served::event_recorder::EventRecorder;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::save_retry::SaveRetry;
use crate::state_format::DESIRED_PODS;

pub struct DesiredDeps {
    pub snapshots: mpsc::Receiver<Snapshot>,
    pub updates: mpsc::Sender<PodUpdate>,
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Configured sources; pods of others are not restored.
    pub sources: Vec<PodSource>,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
}

#[derive(Deserialize)]
struct Checkpoint {
    sources: BTreeMap<PodSource, Vec<core::Pod>>,
}

/// Serializes a [`Checkpoint`] without copying its pods.
#[derive(Serialize)]
struct CheckpointView<'a> {
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
pub async fn run(mut deps: DesiredDeps, cancel: CancellationToken) {
    let mut source_pods: BTreeMap<PodSource, SourcePods> = BTreeMap::new();
    for snapshot in load_checkpoint(&deps).await {
        if !merge_snapshot(&mut source_pods, snapshot, &deps).await {
            return;
        }
    }
    let (save, to_save) = watch::channel(None);
    let saving = save_changes(Arc::clone(&deps.checkpoints), to_save, cancel.clone());
    let merging = async {
        while let Some(Some(snapshot)) = cancel.run_until_cancelled(deps.snapshots.recv()).await {
            if !merge_snapshot(&mut source_pods, snapshot, &deps).await {
                break;
            }
            save.send_replace(Some(checkpointed_pods(&source_pods)));
        }
        drop(save);
    };
    tokio::join!(saving, merging);
}

/// Merges one snapshot and sends the changes; returns false when the sync loop has ended.
async fn merge_snapshot(
    source_pods: &mut BTreeMap<PodSource, SourcePods>,
    snapshot: Snapshot,
    deps: &DesiredDeps,
) -> bool {
    let source = snapshot.source;
    let merged = merge(source_pods.entry(source).or_default(), snapshot, deps.clock.now());
    for pod in merged.duplicates {
        let message = format!(
            "Error validating pod {}_{}({}) from {source} due to duplicate pod name {:?}, ignoring",
            pod.name(),
            pod.full_name.namespace,
            pod.uid,
            pod.name(),
        );
        let (subject, now) = (EventSubject::pod(&pod, String::new()), deps.clock.now());
        let event = RecordedEvent::new(subject, EventType::Warning, "FailedValidation", message, now);
        deps.events.record(event);
    }
    for update in merged.updates {
        tracing::debug!(source = %update.source, operation = update.operation.as_str(), pods = update.pods.len(), "desired state changed");
        if deps.updates.send(update).await.is_err() {
            return false;
        }
    }
    true
}

/// Pods of the API server are not checkpointed here: the API source caches them.
fn checkpointed_pods(source_pods: &BTreeMap<PodSource, SourcePods>) -> DesiredSet {
    let checkpointed = source_pods.iter().filter(|(source, _)| source.is_static());
    checkpointed.map(|(source, pods)| (*source, pods.pods().cloned().collect())).collect()
}

type DesiredSet = BTreeMap<PodSource, Vec<Arc<Pod>>>;

/// Writes the newest desired set; sets that arrive during a write replace each other. Retries failed writes.
async fn save_changes(
    checkpoints: Arc<dyn Checkpoints>,
    mut to_save: watch::Receiver<Option<DesiredSet>>,
    cancel: CancellationToken,
) {
    let mut last: Option<DesiredSet> = None;
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
                        tracing::error!(%error, source = %error.source, "failed to save desired pods, retrying; until then a restart cannot restore them");
                    }
                }
            }
        }
        if cancel.is_cancelled() {
            return;
        }
    }
}

async fn save(checkpoints: &dyn Checkpoints, desired: &DesiredSet) -> Result<(), FileError> {
    let sources = desired
        .iter()
        .map(|(source, pods)| (*source, pods.iter().map(|pod| PodView::of(pod)).collect()))
        .collect();
    match serde_json::to_vec(&CheckpointView { version: DESIRED_PODS.version(), sources }) {
        Ok(content) => checkpoints.save_unflushed(DESIRED_PODS.name, content).await,
        Err(error) => {
            tracing::error!(%error, "failed to encode desired pods");
            Ok(())
        }
    }
}

async fn load_checkpoint(deps: &DesiredDeps) -> Vec<Snapshot> {
    let content = match deps.checkpoints.load(DESIRED_PODS.name).await {
        Ok(Some(content)) => content,
        Ok(None) => return Vec::new(),
        Err(error) => {
            tracing::error!(%error, source = %error.source, "failed to read the checkpoint of desired pods, waiting for the sources");
            return Vec::new();
        }
    };
    let saved: Checkpoint = match DESIRED_PODS.decode(&content) {
        Ok(saved) => saved,
        Err(error) => {
            tracing::error!(%error, "failed to parse the checkpoint of desired pods, waiting for the sources");
            return Vec::new();
        }
    };
    saved
        .sources
        .into_iter()
        .filter(|(source, pods)| source.is_static() && deps.sources.contains(source) && !pods.is_empty())
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
    async fn retries_failed_checkpoint_write() {
        let files = Arc::new(Files::default());
        files.fail_next_writes(3);
        let (save, to_save) = watch::channel(None);
        let cancel = CancellationToken::new();
        let test = async {
            save.send_replace(Some(DesiredSet::from([(PodSource::File, Vec::new())])));
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(files.read(DESIRED_PODS.name).is_none());
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(files.read(DESIRED_PODS.name).unwrap().0, 1, "an unchanged set is written once");
            cancel.cancel();
        };
        tokio::join!(save_changes(files.clone(), to_save, cancel.clone()), test);
    }
}
