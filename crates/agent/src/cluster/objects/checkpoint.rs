//! Checkpoint of the objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{ConfigObject, PodSource};
use ports::host::checkpoints::Checkpoints;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::LocalObjects;
use crate::save_retry::SaveRetry;
use crate::state_format::OBJECTS;

/// Objects are borrowed to be saved, and owned when they are loaded.
#[derive(Serialize, Deserialize)]
struct SavedSources<O> {
    version: u32,
    sources: BTreeMap<PodSource, Vec<O>>,
}

/// Restores the checkpoint, then saves every change and retries failed writes. Runs until cancelled.
pub async fn persist(
    objects: Arc<LocalObjects>,
    checkpoints: Arc<dyn Checkpoints>,
    cancel: CancellationToken,
) {
    let mut versions = objects.version.subscribe();
    restore(&objects, &*checkpoints).await;
    if *versions.borrow() > 0 {
        // A source may have delivered before the subscription.
        versions.mark_changed();
    }
    let mut retry = SaveRetry::default();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = versions.changed() => if changed.is_err() { return },
            () = retry.due() => {}
        }
        let sets = objects.sets();
        let sources = sets.iter().map(|(source, set)| (*source, set.iter().map(AsRef::as_ref).collect()));
        let saved = SavedSources::<&ConfigObject> { version: OBJECTS.version(), sources: sources.collect() };
        let content = match serde_json::to_vec(&saved) {
            Ok(content) => content,
            Err(error) => {
                tracing::error!(%error, "failed to serialize ConfigMaps and Secrets");
                retry.succeeded();
                continue;
            }
        };
        match checkpoints.save(OBJECTS.name, content).await {
            Ok(()) => retry.succeeded(),
            Err(error) => {
                if retry.failed() {
                    tracing::error!(%error, source = %error.source, "failed to save ConfigMaps and Secrets, retrying; until then a restart without the sources loses them");
                }
            }
        }
    }
}

async fn restore(objects: &LocalObjects, checkpoints: &dyn Checkpoints) {
    let content = match checkpoints.load(OBJECTS.name).await {
        Ok(Some(content)) => content,
        Ok(None) => return,
        Err(error) => {
            tracing::error!(%error, source = %error.source, "failed to read checkpoint of ConfigMaps and Secrets, waiting for the sources");
            return;
        }
    };
    match OBJECTS.decode::<SavedSources<ConfigObject>>(&content) {
        Ok(saved) => {
            for (source, restored) in saved.sources {
                objects.restore(source, restored.into_iter().map(Arc::new).collect());
            }
        }
        Err(error) => {
            tracing::error!(%error, "failed to decode checkpoint of ConfigMaps and Secrets, waiting for the sources");
        }
    }
}
