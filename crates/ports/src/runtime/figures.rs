use async_trait::async_trait;
use model::usage::WritableLayer;
use model::{ContainerId, SandboxId};

use super::RuntimeError;

/// What only the runtime knows of the use of a node.
#[async_trait]
pub trait RuntimeFigures: Send + Sync {
    /// What the own files of each running container take, as far as the runtime tells.
    async fn writable_layers(&self) -> Result<Vec<(ContainerId, WritableLayer)>, RuntimeError>;

    /// The image of the sandbox's own process, where the runtime's verbose status names it.
    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError>;
}
