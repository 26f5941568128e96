use std::collections::HashMap;
use std::sync::Arc;

use model::{ContainerId, ContainerStatus, ProbeKind, ProbeVerdict, Timestamp};
use ports::checkpoints::Checkpoints;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

const NAME: &str = "probes";
const VERSION: u32 = 1;

/// Verdicts that outlive the agent, by container.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Saved {
    version: u32,
    containers: HashMap<ContainerId, SavedVerdicts>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedVerdicts {
    started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    startup: Option<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    readiness: Option<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    liveness: Option<Word>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Success,
    Failure,
}

impl Saved {
    /// What the agent before this one left; nothing if that cannot be read.
    pub(super) async fn load(checkpoints: &dyn Checkpoints) -> Self {
        let content = match checkpoints.load(NAME).await {
            Ok(Some(content)) => content,
            Ok(None) => return Self::default(),
            Err(error) => {
                tracing::warn!(%error, source = %error.source, "the verdicts of probes cannot be read; they are made anew");
                return Self::default();
            }
        };
        match serde_json::from_slice::<Self>(&content) {
            Ok(saved) if saved.version == VERSION => saved,
            Ok(other) => {
                tracing::warn!(
                    version = other.version,
                    "the verdicts of probes are of another version; they are made anew"
                );
                Self::default()
            }
            Err(error) => {
                tracing::warn!(%error, "the verdicts of probes cannot be read; they are made anew");
                Self::default()
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// The verdict on this very run of a container.
    pub(super) fn verdict(&self, status: &ContainerStatus, kind: ProbeKind) -> Option<ProbeVerdict> {
        let saved = self.containers.get(&status.id).filter(|saved| saved.started_at == status.started_at)?;
        let word = match kind {
            ProbeKind::Startup => saved.startup,
            ProbeKind::Readiness => saved.readiness,
            ProbeKind::Liveness => saved.liveness,
        };
        word.map(|word| match word {
            Word::Success => ProbeVerdict::Success,
            Word::Failure => ProbeVerdict::Failure,
        })
    }

    /// Adds or replaces one verdict.
    pub(super) fn add(
        &mut self,
        id: &ContainerId,
        started_at: Timestamp,
        kind: ProbeKind,
        verdict: ProbeVerdict,
    ) {
        let empty = SavedVerdicts { started_at, startup: None, readiness: None, liveness: None };
        let saved = self.containers.entry(id.clone()).or_insert_with(|| empty.clone());
        if saved.started_at != started_at {
            *saved = empty;
        }
        let word = Some(match verdict {
            ProbeVerdict::Success => Word::Success,
            ProbeVerdict::Failure => Word::Failure,
        });
        match kind {
            ProbeKind::Startup => saved.startup = word,
            ProbeKind::Readiness => saved.readiness = word,
            ProbeKind::Liveness => saved.liveness = word,
        }
    }

    /// Keeps only containers that may still be asked about.
    pub(super) fn retain(&mut self, keep: impl Fn(&ContainerId) -> bool) {
        self.containers.retain(|id, _| keep(id));
    }

    /// A copy to add to.
    pub(super) fn copy(&self) -> Self {
        Self { version: VERSION, containers: self.containers.clone() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        // Maps of strings always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Writes the newest content, one write at a time, until nobody sends any more.
pub(super) async fn write(checkpoints: Arc<dyn Checkpoints>, mut contents: watch::Receiver<Vec<u8>>) {
    while contents.changed().await.is_ok() {
        let content = contents.borrow_and_update().clone();
        // After a crash of the machine no container runs that a verdict could be about.
        if let Err(error) = checkpoints.save_unflushed(NAME, content).await {
            tracing::warn!(%error, source = %error.source, "the verdicts of probes cannot be kept; a restarted agent will make them anew");
        }
    }
}
