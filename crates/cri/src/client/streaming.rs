use async_trait::async_trait;
use model::{ContainerId, SandboxId, StreamChoice};
use ports::runtime::{RuntimeError, Streaming};

use super::call::protocol_violation;
use super::{CriClient, Runtime};
use crate::v1::{AttachRequest, ExecRequest, PortForwardRequest};

#[async_trait]
impl Streaming for CriClient {
    async fn exec_url(
        &self,
        id: &ContainerId,
        command: &[String],
        streams: StreamChoice,
    ) -> Result<String, RuntimeError> {
        let message = ExecRequest {
            container_id: id.to_string(),
            cmd: command.to_vec(),
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        url("exec", self.call("exec", message, Runtime::exec).await?.url)
    }

    async fn attach_url(&self, id: &ContainerId, streams: StreamChoice) -> Result<String, RuntimeError> {
        let message = AttachRequest {
            container_id: id.to_string(),
            stdin: streams.stdin,
            tty: streams.tty,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        url("attach", self.call("attach", message, Runtime::attach).await?.url)
    }

    async fn port_forward_url(&self, id: &SandboxId, ports: &[u16]) -> Result<String, RuntimeError> {
        let port = ports.iter().copied().map(i32::from).collect();
        let message = PortForwardRequest { pod_sandbox_id: id.to_string(), port };
        url("port_forward", self.call("port_forward", message, Runtime::port_forward).await?.url)
    }
}

fn url(operation: &'static str, url: String) -> Result<String, RuntimeError> {
    if url.is_empty() { Err(protocol_violation(operation, "no URL")) } else { Ok(url) }
}
