use async_trait::async_trait;
use model::usage::WritableLayer;
use model::{ContainerId, SandboxId};

use super::RuntimeError;

/// Statistics that only the runtime has.
#[async_trait]
pub trait RuntimeStatisticsSource: Send + Sync {
    /// Disk use of the writable layer of each running container, where the runtime reports it.
    async fn writable_layers(&self) -> Result<Vec<(ContainerId, WritableLayer)>, RuntimeError>;

    /// The image of the pause container, where the runtime's verbose status names it.
    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError>;
}
