//! Processes and connections that the rest of the runtime provides for the streaming server.

use std::os::fd::OwnedFd;

use async_trait::async_trait;
use futures::future::BoxFuture;
use thiserror::Error;
use tokio::net::TcpStream;

use crate::launcher::TerminalSize;

/// The streams that a client asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    pub stdin: bool,
    pub stdout: bool,
    /// Not together with `tty`.
    pub stderr: bool,
    pub tty: bool,
}

/// Why a stream could not be opened. The client receives the text.
#[derive(Debug, Error)]
pub enum StreamError {
    #[error("{0} was not found")]
    NotFound(String),
    #[error("{0}")]
    Failed(String),
}

/// Processes and connections for the streaming server.
#[async_trait]
pub trait StreamBackend: Send + Sync + 'static {
    /// Executes a command in a running container.
    async fn exec(
        &self,
        container: &str,
        command: &[String],
        options: StreamOptions,
    ) -> Result<ExecProcess, StreamError>;

    /// Connects to the first process of a running container. Its spec decides whether it has a terminal and open input.
    async fn attach(&self, container: &str, options: StreamOptions) -> Result<AttachedProcess, StreamError>;

    /// Sets the size of the terminal of a container's first process.
    async fn resize(&self, container: &str, size: TerminalSize) -> Result<(), StreamError>;

    /// Connects to a port inside the network namespace of a pod, as [`connect_in_namespace`](super::connect_in_namespace) does.
    async fn port_forward(&self, sandbox: &str, port: u16) -> Result<TcpStream, StreamError>;
}

/// This process's ends of the streams of another process.
#[derive(Debug)]
pub enum ProcessStreams {
    /// Pipes. A stream that was not asked for is missing.
    Pipes { stdin: Option<OwnedFd>, stdout: Option<OwnedFd>, stderr: Option<OwnedFd> },
    /// The master side of the terminal.
    Terminal(OwnedFd),
}

/// A process that the backend has executed.
pub struct ExecProcess {
    pub streams: ProcessStreams,
    /// The exit code. The server awaits it for every process.
    pub exit: BoxFuture<'static, Result<i32, StreamError>>,
    /// Kills the process and everything that it started. The server awaits it if the client leaves before the process ends.
    pub kill: BoxFuture<'static, ()>,
}

/// A connection to the first process of a container.
pub struct AttachedProcess {
    /// Always pipes, which the keeper copies from and to.
    pub streams: ProcessStreams,
    /// Completes when the container has ended.
    pub ended: BoxFuture<'static, ()>,
}
