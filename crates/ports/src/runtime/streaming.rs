use async_trait::async_trait;
use model::{ContainerId, SandboxId, StreamChoice};

use super::RuntimeError;

/// Streams to running containers. Each call returns a URL of the runtime's streaming server that is valid for one connection
/// within a minute.
#[async_trait]
pub trait Streaming: Send + Sync {
    /// Prepares a new command in a running container.
    async fn exec_url(
        &self,
        id: &ContainerId,
        command: &[String],
        streams: StreamChoice,
    ) -> Result<String, RuntimeError>;

    /// Prepares a connection to the first process of a running container.
    async fn attach_url(&self, id: &ContainerId, streams: StreamChoice) -> Result<String, RuntimeError>;

    /// Prepares connections to ports of a sandbox. Only old clients name the ports in advance.
    async fn port_forward_url(&self, id: &SandboxId, ports: &[u16]) -> Result<String, RuntimeError>;
}
