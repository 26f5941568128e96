//! Processes and connections for the streaming server.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::net::TcpStream;

use crate::containers::exec_process;
use crate::errors::{ServiceError, describe};
use crate::ids::new_id;
use crate::keeper::client::{KeeperClient, KeeperClientError};
use crate::launcher::{Terminal, TerminalSize};
use crate::records::LifeState;
use crate::shared::Shared;
use crate::streaming::{
    AttachedProcess, ConsoleSocket, ExecProcess, ProcessStreams, StreamBackend, StreamError, StreamOptions,
    attach_pipes, connect_in_namespace, exec_pipes,
};

pub(super) struct Streams(pub(super) Arc<Shared>);

impl From<ServiceError> for StreamError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::NotFound { kind, id } => Self::NotFound(format!("{kind} {id:?}")),
            other => Self::Failed(describe(&other)),
        }
    }
}

fn failed(error: &dyn std::error::Error) -> StreamError {
    StreamError::Failed(describe(error))
}

impl Streams {
    fn keeper_of(&self, container: &str) -> Result<(String, Arc<KeeperClient>), ServiceError> {
        let container = self.0.container(container)?;
        let keeper = self.0.sandbox(&container.record.sandbox)?.keeper();
        Ok((container.record.id.clone(), keeper.ok_or(KeeperClientError::Gone)?))
    }
}

#[async_trait]
impl StreamBackend for Streams {
    async fn exec(
        &self,
        container: &str,
        command: &[String],
        options: StreamOptions,
    ) -> Result<ExecProcess, StreamError> {
        let object = self.0.container(container)?;
        let mut process = exec_process(&self.0, &object, command.to_vec()).await?;
        let (container, keeper) = self.keeper_of(container)?;
        let id = new_id().map_err(|errno| failed(&errno))?;
        let (streams, mut running) = if options.tty {
            process.terminal = Terminal::New;
            if !process.environment.iter().any(|entry| entry.starts_with("TERM=")) {
                process.environment.push("TERM=xterm".to_owned());
            }
            let (console, theirs) = ConsoleSocket::pair().map_err(|error| failed(&error))?;
            let running = keeper.exec(&container, id.clone(), Box::new(process), vec![theirs]).await;
            let running = running.map_err(|error| failed(&error))?;
            let master = console.receive().await.map_err(|error| failed(&error))?;
            (ProcessStreams::Terminal(master), running)
        } else {
            let (streams, theirs) = exec_pipes(options).map_err(|error| failed(&error))?;
            let running = keeper.exec(&container, id.clone(), Box::new(process), theirs.into()).await;
            (streams, running.map_err(|error| failed(&error))?)
        };
        let exit = async move { running.exit().await.map(|exit| exit.code).map_err(|error| failed(&error)) };
        let kill = async move {
            // The process may have ended meanwhile.
            let _ = keeper.kill_exec(&container, &id).await;
        };
        Ok(ExecProcess { streams, exit: Box::pin(exit), kill: Box::pin(kill) })
    }

    async fn attach(&self, container: &str, options: StreamOptions) -> Result<AttachedProcess, StreamError> {
        let object = self.0.container(container)?;
        let (id, keeper) = self.keeper_of(container)?;
        let (streams, chosen, theirs) = attach_pipes(options).map_err(|error| failed(&error))?;
        keeper.attach(&id, chosen, theirs).await.map_err(|error| failed(&error))?;
        let mut life = object.watch();
        let ended = async move {
            // The sender lives as long as the container.
            let _ = life.wait_for(|life| matches!(life, LifeState::Exited(_))).await;
        };
        Ok(AttachedProcess { streams, ended: Box::pin(ended) })
    }

    async fn resize(&self, container: &str, size: TerminalSize) -> Result<(), StreamError> {
        let (id, keeper) = self.keeper_of(container)?;
        keeper.resize(&id, size).await.map_err(|error| failed(&error))
    }

    async fn port_forward(&self, sandbox: &str, port: u16) -> Result<TcpStream, StreamError> {
        let sandbox = self.0.sandbox(sandbox)?;
        let namespace = (!sandbox.uses_host_network()).then(|| sandbox.namespaces().network());
        connect_in_namespace(namespace.as_deref(), port).await.map_err(|error| failed(&error))
    }
}
