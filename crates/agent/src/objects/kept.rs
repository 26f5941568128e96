//! The objects on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use model::{ConfigObject, ObjectKey, PodSource};
use ports::checkpoints::Checkpoints;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::LocalObjects;
use crate::save_retry::SaveRetry;

const CHECKPOINT: &str = "objects";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    sources: BTreeMap<PodSource, Vec<SavedObject>>,
}

/// The written form of a ConfigMap or Secret.
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

/// Restores what an earlier agent kept, then keeps every change, trying again when the disk refuses. Runs until cancelled.
pub async fn keep(objects: Arc<LocalObjects>, checkpoints: Arc<dyn Checkpoints>, cancel: CancellationToken) {
    let mut versions = objects.version.subscribe();
    restore(&objects, &*checkpoints).await;
    if *versions.borrow() > 0 {
        // A source may have spoken before this began.
        versions.mark_changed();
    }
    let mut retry = SaveRetry::default();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = versions.changed() => if changed.is_err() { return },
            () = retry.due() => {}
        }
        let saved = Saved { version: VERSION, sources: written(objects.sets()) };
        let content = match serde_json::to_vec(&saved) {
            Ok(content) => content,
            Err(error) => {
                tracing::error!(%error, "the node's objects could not be written as JSON");
                retry.succeeded();
                continue;
            }
        };
        match checkpoints.save(CHECKPOINT, content).await {
            Ok(()) => retry.succeeded(),
            Err(error) => {
                if retry.failed() {
                    tracing::error!(%error, source = %error.source, "the node's ConfigMaps and Secrets could not be kept; a start without their sources will not know them; trying again");
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
            tracing::error!(%error, source = %error.source, "the kept ConfigMaps and Secrets could not be read; waiting for the sources");
            return;
        }
    };
    match serde_json::from_slice::<Saved>(&content) {
        Ok(saved) if saved.version == VERSION => {
            for (source, kept) in saved.sources {
                objects.restore(
                    source,
                    kept.into_iter().map(|object| Arc::new(ConfigObject::from(object))).collect(),
                );
            }
        }
        Ok(saved) => {
            tracing::warn!(version = saved.version, "the kept ConfigMaps and Secrets are of another version");
        }
        // The error's text may quote a secret.
        Err(error) => tracing::error!(
            line = error.line(),
            column = error.column(),
            "the kept ConfigMaps and Secrets could not be understood; waiting for the sources"
        ),
    }
}

fn written(sets: BTreeMap<PodSource, Vec<Arc<ConfigObject>>>) -> BTreeMap<PodSource, Vec<SavedObject>> {
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
