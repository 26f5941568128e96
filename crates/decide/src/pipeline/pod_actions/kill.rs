use model::{ContainerId, ContainerKind, ContainerStatus};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// Image or name in the spec changed.
    DefinitionChanged,
    /// The runtime does not know whether the container runs.
    UnknownState,
    /// A newer container of the same name exists.
    Superseded,
    LivenessFailed,
    StartupFailed,
    /// The resources changed, and the resize policy requires a restart.
    ResizeRestart,
    /// A ConfigMap or Secret that it uses changed, and the pod opted in to restarts.
    ObjectsChanged,
}

/// A container to stop while its pod keeps running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillContainer {
    pub id: ContainerId,
    pub name: String,
    pub kind: ContainerKind,
    pub reason: KillReason,
    /// Whether the container is started again.
    pub restart: bool,
}

impl KillContainer {
    pub(crate) fn new(
        status: &ContainerStatus,
        kind: ContainerKind,
        reason: KillReason,
        restart: bool,
    ) -> Self {
        Self { id: status.id.clone(), name: status.name.clone(), kind, reason, restart }
    }

    /// The message of the `Killing` event.
    pub fn message(&self) -> String {
        let subject = match self.kind {
            ContainerKind::Init => "Init container",
            ContainerKind::Regular | ContainerKind::Ephemeral => "Container",
        };
        let reason = match self.reason {
            KillReason::UnknownState => {
                return format!("{subject} is in \"unknown\" state, try killing it before restart");
            }
            KillReason::ResizeRestart => return format!("Container {} resize requires restart", self.name),
            KillReason::ObjectsChanged => "uses a ConfigMap or Secret that changed",
            KillReason::DefinitionChanged => "definition changed",
            KillReason::Superseded => "was replaced by a newer one",
            KillReason::LivenessFailed => "failed liveness probe",
            KillReason::StartupFailed => "failed startup probe",
        };
        // Only regular containers may stay dead, so only their message mentions the restart.
        let mentions_restart = self.restart && self.kind == ContainerKind::Regular;
        let suffix = if mentions_restart { ", will be restarted" } else { "" };
        format!("{subject} {} {reason}{suffix}", self.name)
    }
}
