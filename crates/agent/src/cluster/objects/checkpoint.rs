//! Checkpoint of the objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use model::{ConfigObject, ObjectKey, PodSource};
use ports::host::checkpoints::Checkpoints;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::LocalObjects;
use crate::save_retry::SaveRetry;

const CHECKPOINT: &str = "objects";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct SavedSources {
    version: u32,
    sources: BTreeMap<PodSource, Vec<SavedObject>>,
}

/// Serialized form of a ConfigMap or Secret.
#[derive(Serialize, Deserialize)]
pub struct SavedObject {
    key: ObjectKey,
    #[serde(default)]
    uid: String,
    data: BTreeMap<String, ByteString>,
    binary_data: BTreeMap<String, ByteString>,
    secret_type: String,
    immutable: bool,
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
        let saved = SavedSources { version: VERSION, sources: saved_sources(objects.sets()) };
        let content = match serde_json::to_vec(&saved) {
            Ok(content) => content,
            Err(error) => {
                tracing::error!(%error, "failed to serialize ConfigMaps and Secrets");
                retry.succeeded();
                continue;
            }
        };
        match checkpoints.save(CHECKPOINT, content).await {
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
    let content = match checkpoints.load(CHECKPOINT).await {
        Ok(Some(content)) => content,
        Ok(None) => return,
        Err(error) => {
            tracing::error!(%error, source = %error.source, "failed to read checkpoint of ConfigMaps and Secrets, waiting for the sources");
            return;
        }
    };
    match serde_json::from_slice::<SavedSources>(&content) {
        Ok(saved) if saved.version == VERSION => {
            for (source, restored) in saved.sources {
                objects.restore(
                    source,
                    restored.into_iter().map(|object| Arc::new(ConfigObject::from(object))).collect(),
                );
            }
        }
        Ok(saved) => {
            tracing::warn!(
                version = saved.version,
                "checkpoint of ConfigMaps and Secrets has an unsupported version, waiting for the sources"
            );
        }
        // Logs only the position, because the text of the error may quote a secret.
        Err(error) => tracing::error!(
            line = error.line(),
            column = error.column(),
            "failed to parse checkpoint of ConfigMaps and Secrets, waiting for the sources"
        ),
    }
}

fn saved_sources(sets: BTreeMap<PodSource, Vec<Arc<ConfigObject>>>) -> BTreeMap<PodSource, Vec<SavedObject>> {
    let saved = |object: &Arc<ConfigObject>| SavedObject::from(&**object);
    sets.into_iter().map(|(source, set)| (source, set.iter().map(saved).collect())).collect()
}

impl From<&ConfigObject> for SavedObject {
    fn from(object: &ConfigObject) -> Self {
        let bytes = |map: &BTreeMap<String, Vec<u8>>| {
            map.iter().map(|(key, value)| (key.clone(), ByteString(value.clone()))).collect()
        };
        Self {
            key: object.key.clone(),
            uid: object.uid.clone(),
            data: bytes(&object.data),
            binary_data: bytes(&object.binary_data),
            secret_type: object.secret_type.clone(),
            immutable: object.immutable,
        }
    }
}

impl From<SavedObject> for ConfigObject {
    fn from(saved: SavedObject) -> Self {
        let bytes =
            |map: BTreeMap<String, ByteString>| map.into_iter().map(|(key, value)| (key, value.0)).collect();
        Self {
            key: saved.key,
            uid: saved.uid,
            data: bytes(saved.data),
            binary_data: bytes(saved.binary_data),
            secret_type: saved.secret_type,
            immutable: saved.immutable,
        }
    }
}
