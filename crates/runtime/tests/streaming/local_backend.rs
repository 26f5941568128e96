//! A server whose commands run as processes of this machine, without a container.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use runtime::launcher::TerminalSize;
use runtime::streaming::{
    AttachedProcess, ExecProcess, ExecRequest, StreamBackend, StreamError, StreamOptions, StreamTimeouts,
    StreamingServer, connect_in_namespace, exec_pipes,
};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clients::within;

struct LocalBackend;

fn failed(error: &std::io::Error) -> StreamError {
    StreamError::Failed(error.to_string())
}

#[async_trait]
impl StreamBackend for LocalBackend {
    async fn exec(
        &self,
        _container: &str,
        command: &[String],
        options: StreamOptions,
    ) -> Result<ExecProcess, StreamError> {
        let (streams, [stdin, stdout, stderr]) = exec_pipes(options).map_err(|error| failed(&error))?;
        let stdio = |descriptor: OwnedFd| Stdio::from(descriptor);
        let mut process = tokio::process::Command::new(&command[0]);
        process.args(&command[1..]).stdin(stdio(stdin)).stdout(stdio(stdout)).stderr(stdio(stderr));
        let mut child = process.process_group(0).spawn().map_err(|error| failed(&error))?;
        let group = i32::try_from(child.id().unwrap()).unwrap();
        let group = rustix::process::Pid::from_raw(group).unwrap();
        Ok(ExecProcess {
            streams,
            exit: Box::pin(async move { Ok(child.wait().await.unwrap().code().unwrap_or(137)) }),
            kill: Box::pin(async move {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }),
        })
    }

    async fn attach(&self, container: &str, _: StreamOptions) -> Result<AttachedProcess, StreamError> {
        Err(StreamError::NotFound(format!("container {container:?}")))
    }

    async fn resize(&self, _: &str, _: TerminalSize) -> Result<(), StreamError> {
        Ok(())
    }

    async fn port_forward(&self, _: &str, port: u16) -> Result<TcpStream, StreamError> {
        connect_in_namespace(None, port).await.map_err(|error| failed(&error))
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) server: Arc<StreamingServer>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with_timeouts(StreamTimeouts::default()).await
    }

    pub(crate) async fn with_timeouts(timeouts: StreamTimeouts) -> Self {
        let address = "127.0.0.1:0".parse().unwrap();
        let server = StreamingServer::bind(address, Arc::new(LocalBackend), timeouts).await.unwrap();
        let server = Arc::new(server);
        let stop = CancellationToken::new();
        let task = tokio::spawn(Arc::clone(&server).serve(stop.clone()));
        Self { server, stop, task }
    }

    /// A URL that executes a shell script.
    pub(crate) fn exec(&self, script: &str, options: StreamOptions) -> String {
        let command = ["sh", "-c", script].map(str::to_owned).into();
        self.server.exec_url(ExecRequest { container: "c".to_owned(), command, options }).unwrap()
    }

    /// Stops the server; all its sessions must end.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        within(self.task).await.unwrap();
    }
}

pub(crate) const OUTPUT: StreamOptions =
    StreamOptions { stdin: false, stdout: true, stderr: true, tty: false };
pub(crate) const ALL: StreamOptions = StreamOptions { stdin: true, stdout: true, stderr: true, tty: false };

/// Waits until a condition holds.
pub(crate) async fn eventually(condition: impl Fn() -> bool) {
    within(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
