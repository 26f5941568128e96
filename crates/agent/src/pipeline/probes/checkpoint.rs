use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{ContainerId, ContainerStatus, ProbeKind, ProbeResult, Timestamp};
use ports::host::checkpoints::Checkpoints;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::state_format::PROBE_RESULTS;

/// Checkpoint of the probe results by container.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SavedResults {
    version: u32,
    containers: HashMap<ContainerId, SavedContainerResults>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedContainerResults {
    started_at: Timestamp,
    #[serde(flatten)]
    results: BTreeMap<ProbeKind, ProbeResult>,
}

impl SavedResults {
    /// Loads the results of the last run of the agent; empty if they cannot be read.
    pub(super) async fn load(checkpoints: &dyn Checkpoints) -> Self {
        let content = match checkpoints.load(PROBE_RESULTS.name).await {
            Ok(Some(content)) => content,
            Ok(None) => return Self::default(),
            Err(error) => {
                tracing::warn!(%error, source = %error.source, "failed to read the probe checkpoint, starting without results");
                return Self::default();
            }
        };
        match PROBE_RESULTS.decode(&content) {
            Ok(saved) => saved,
            Err(error) => {
                tracing::warn!(%error, "failed to decode the probe checkpoint, starting without results");
                Self::default()
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// The saved result of a container, if it was not restarted since.
    pub(super) fn result(&self, status: &ContainerStatus, kind: ProbeKind) -> Option<ProbeResult> {
        let saved = self.containers.get(&status.id).filter(|saved| saved.started_at == status.started_at)?;
        saved.results.get(&kind).copied()
    }

    pub(super) fn add(
        &mut self,
        id: &ContainerId,
        started_at: Timestamp,
        kind: ProbeKind,
        result: ProbeResult,
    ) {
        let empty = SavedContainerResults { started_at, results: BTreeMap::new() };
        let saved = self.containers.entry(id.clone()).or_insert_with(|| empty.clone());
        if saved.started_at != started_at {
            *saved = empty;
        }
        saved.results.insert(kind, result);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&ContainerId) -> bool) {
        self.containers.retain(|id, _| keep(id));
    }

    pub(super) fn copy(&self) -> Self {
        Self { version: PROBE_RESULTS.version(), containers: self.containers.clone() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        // Cannot fail: all map keys are strings.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Writes the newest content, one write at a time, until the sender is dropped.
pub(super) async fn write(checkpoints: Arc<dyn Checkpoints>, mut contents: watch::Receiver<Vec<u8>>) {
    while contents.changed().await.is_ok() {
        let content = contents.borrow_and_update().clone();
        // Not flushed: after a crash of the machine no container of a saved result runs.
        if let Err(error) = checkpoints.save_unflushed(PROBE_RESULTS.name, content).await {
            tracing::warn!(%error, source = %error.source, "failed to save probe results, a restarted agent starts without them");
        }
    }
}
