use async_trait::async_trait;
use model::{ContainerId, SandboxId, StreamChoice};

use super::RuntimeError;

/// Streams to and from what runs. Each call gives the URL of a server of the runtime that serves one connection, once,
/// within a minute.
#[async_trait]
pub trait Streaming: Send + Sync {
    /// Where a new command in a running container can be reached.
    async fn exec_url(
        &self,
        id: &ContainerId,
        command: &[String],
        streams: StreamChoice,
    ) -> Result<String, RuntimeError>;

    /// Where the first process of a running container can be reached.
    async fn attach_url(&self, id: &ContainerId, streams: StreamChoice) -> Result<String, RuntimeError>;

    /// Where ports of a sandbox can be reached; only old clients name them beforehand.
    async fn port_forward_url(&self, id: &SandboxId, ports: &[u16]) -> Result<String, RuntimeError>;
}
