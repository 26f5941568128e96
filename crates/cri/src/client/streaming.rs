use async_trait::async_trait;
use model::{ContainerId, SandboxId, StreamChoice};
use ports::runtime::{RuntimeError, Streaming};

use super::CriClient;
use super::call::{Deadline, protocol_violation, request};
use crate::v1::{AttachRequest, ExecRequest, PortForwardRequest};

#[async_trait]
impl Streaming for CriClient {
    async fn exec_url(
        &self,
        id: &ContainerId,
        command: &[String],
        streams: StreamChoice,
    ) -> Result<String, RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = ExecRequest {
            container_id: id.to_string(),
            cmd: command.to_vec(),
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        let call = async { self.runtime().exec(request(message, deadline)).await };
        url("exec", self.execute("exec", deadline, call).await?.url)
    }

    async fn attach_url(&self, id: &ContainerId, streams: StreamChoice) -> Result<String, RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = AttachRequest {
            container_id: id.to_string(),
            stdin: streams.stdin,
            tty: streams.tty,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        let call = async { self.runtime().attach(request(message, deadline)).await };
        url("attach", self.execute("attach", deadline, call).await?.url)
    }

    async fn port_forward_url(&self, id: &SandboxId, ports: &[u16]) -> Result<String, RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let port = ports.iter().copied().map(i32::from).collect();
        let message = PortForwardRequest { pod_sandbox_id: id.to_string(), port };
        let call = async { self.runtime().port_forward(request(message, deadline)).await };
        url("port_forward", self.execute("port_forward", deadline, call).await?.url)
    }
}

fn url(operation: &'static str, url: String) -> Result<String, RuntimeError> {
    if url.is_empty() { Err(protocol_violation(operation, "no URL")) } else { Ok(url) }
}
