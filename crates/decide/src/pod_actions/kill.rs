use model::{ContainerId, ContainerKind};

/// Why a container is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// Image or name in the spec changed.
    DefinitionChanged,
    /// The runtime cannot say whether it runs.
    UnknownState,
    /// A newer container of the same name exists.
    Superseded,
    /// Its liveness probe failed.
    LivenessFailed,
    /// Its startup probe failed.
    StartupFailed,
    /// Its resources changed, and its resize policy asks for a restart.
    ResizeRestart,
    /// A ConfigMap or Secret it uses changed, and its pod asks for a restart then.
    ObjectsChanged,
}

/// A container to be stopped while its pod lives on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillContainer {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// The list it stands in.
    pub kind: ContainerKind,
    /// Why.
    pub reason: KillReason,
    /// Whether another one is started in its place.
    pub restart: bool,
}

impl KillContainer {
    /// What users are told.
    #[must_use]
    pub fn message(&self) -> String {
        let who = match self.kind {
            ContainerKind::Init => "Init container",
            ContainerKind::Regular | ContainerKind::Ephemeral => "Container",
        };
        let why = match self.reason {
            KillReason::UnknownState => {
                return format!("{who} is in \"unknown\" state, try killing it before restart");
            }
            KillReason::ResizeRestart => return format!("Container {} resize requires restart", self.name),
            KillReason::ObjectsChanged => "uses a ConfigMap or Secret that changed",
            KillReason::DefinitionChanged => "definition changed",
            KillReason::Superseded => "was replaced by a newer one",
            KillReason::LivenessFailed => "failed liveness probe",
            KillReason::StartupFailed => "failed startup probe",
        };
        // Only regular containers may stay dead, so only for them it is said that they come back.
        let announced = self.restart && self.kind == ContainerKind::Regular;
        let then = if announced { ", will be restarted" } else { "" };
        format!("{who} {} {why}{then}", self.name)
    }
}
