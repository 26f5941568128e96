//! Executes commands in running containers and returns their output.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

use super::{Container, SPEC};
use crate::errors::ServiceError;
use crate::ids::new_id;
use crate::keeper::client::{KeeperClient, KeeperClientError};
use crate::launcher::{ContainerSpec, ProcessSpec, Terminal};
use crate::records::{self, LifeState};
use crate::shared::{Shared, blocking};

/// Output beyond this is dropped.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// How long output is read after the command has ended, if a process that it left behind holds the pipe.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The kernel has killed the processes already when this begins.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct ExecOutput {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) exit_code: i32,
}

/// The command with the user, limits and filters of the container's first process.
pub(crate) async fn exec_process(
    shared: &Arc<Shared>,
    container: &Container,
    command: Vec<String>,
) -> Result<ProcessSpec, ServiceError> {
    if !matches!(container.life(), LifeState::Running { .. }) {
        return Err(ServiceError::State(format!("container {} is not running", container.record.id)));
    }
    if command.is_empty() {
        return Err(ServiceError::Missing("command"));
    }
    let path = shared.container_root(&container.record.id).join(SPEC);
    let spec = blocking(move || Ok(records::read::<ContainerSpec>(&path)?)).await?;
    let spec =
        spec.ok_or_else(|| ServiceError::State("the specification of the container is missing".into()))?;
    Ok(ProcessSpec { arguments: command, terminal: Terminal::None, ..spec.process })
}

/// Runs a command to its end. A zero timeout means none. When the time is over, the command is killed with everything it started.
pub(crate) async fn exec_sync(
    shared: &Arc<Shared>,
    container: &Arc<Container>,
    command: Vec<String>,
    limit: Duration,
) -> Result<ExecOutput, ServiceError> {
    let process = exec_process(shared, container, command).await?;
    let sandbox = shared.sandbox(&container.record.sandbox)?;
    let keeper = sandbox.keeper().ok_or(KeeperClientError::Gone)?;
    let make = |errno| ServiceError::io("make the standard streams of a command", errno);
    let null = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(make)?;
    let (stdout, stdout_writer) = output_pipe()?;
    let (stderr, stderr_writer) = output_pipe()?;
    let id = new_id().map_err(|errno| ServiceError::io("make an id", errno))?;
    let container = container.record.id.clone();
    let streams = vec![null, stdout_writer, stderr_writer];
    let started = keeper.exec(&container, id.clone(), Box::new(process), streams).await?;
    // A caller that leaves must not leave the command behind.
    let mut guard =
        KillOnDrop { keeper: Some((keeper.clone(), container.clone(), id)), shared: shared.clone() };
    let mut started = started;
    let mut output = [Vec::new(), Vec::new()];
    let exit = {
        let [out, err] = &mut output;
        let reading = async { tokio::join!(read_bounded(stdout, out), read_bounded(stderr, err)) };
        tokio::pin!(reading);
        let work = async {
            tokio::select! {
                _ = &mut reading => started.exit().await,
                exit = started.exit() => {
                    let _ = timeout(DRAIN_TIMEOUT, &mut reading).await;
                    exit
                }
            }
        };
        if limit.is_zero() { Ok(work.await) } else { timeout(limit, work).await }
    };
    match exit {
        Ok(exit) => {
            guard.keeper = None;
            let [stdout, stderr] = output;
            Ok(ExecOutput { stdout, stderr, exit_code: exit?.code })
        }
        Err(_) => {
            if let Some((keeper, container, id)) = guard.keeper.take() {
                keeper.kill_exec(&container, &id).await?;
            }
            // The command has ended when this returns.
            let _ = timeout(KILL_TIMEOUT, started.exit()).await;
            let seconds = limit.as_secs();
            Err(ServiceError::Timeout(format!("command timed out after {seconds} s")))
        }
    }
}

fn output_pipe() -> Result<(Receiver, OwnedFd), ServiceError> {
    let error =
        |source| ServiceError::Io { operation: "make a pipe for the output of a command".into(), source };
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| error(errno.into()))?;
    rustix::io::ioctl_fionbio(reader.as_fd(), true).map_err(|errno| error(errno.into()))?;
    Ok((Receiver::from_owned_fd(reader).map_err(error)?, writer))
}

/// Reads to the end; keeps no more than the limit.
async fn read_bounded(mut pipe: Receiver, output: &mut Vec<u8>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        let free = MAX_OUTPUT_BYTES.saturating_sub(output.len());
        output.extend_from_slice(buffer.get(..length.min(free)).unwrap_or_default());
    }
}

struct KillOnDrop {
    keeper: Option<(Arc<KeeperClient>, String, String)>,
    shared: Arc<Shared>,
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some((keeper, container, exec)) = self.keeper.take() {
            self.shared.spawn(async move {
                // The command may have ended meanwhile.
                let _ = keeper.kill_exec(&container, &exec).await;
            });
        }
    }
}
