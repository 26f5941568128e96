//! Starts the keeper of a pod.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use thiserror::Error;

use super::KEEPER_ARGUMENT;
use super::sealed::SealedProgram;

/// Name of the socket in the pod's folder.
pub(super) const SOCKET: &str = "keeper.sock";
/// Text that a keeper writes to its standard output when it accepts connections.
pub(super) const READY: &[u8] = b"ready\n";

#[derive(Debug, Error)]
pub enum KeeperError {
    #[error("start the keeper of pod folder {folder:?}")]
    Start { folder: PathBuf, source: io::Error },
    #[error("the keeper of pod folder {folder:?} did not become ready: {message}")]
    NotReady { folder: PathBuf, message: String },
}

/// Starts the keeper of a pod and waits until it accepts connections; returns the path of its socket. The folder is on this machine's
/// disk or memory, and only root may enter it.
///
/// The standard library starts the process without running code of this process in the child, so threads do not matter. The call
/// blocks for some milliseconds.
///
/// # Errors
/// If the keeper cannot be started.
pub fn start_keeper(program: &SealedProgram, folder: &Path) -> Result<(Child, PathBuf), KeeperError> {
    let error = |source| KeeperError::Start { folder: folder.to_owned(), source };
    let mut child = Command::new(program.path())
        .arg0(KEEPER_ARGUMENT)
        .arg(KEEPER_ARGUMENT)
        .arg(folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(error)?;
    let mut announced = [0; READY.len()];
    let ready = child.stdout.take().is_some_and(|mut output| output.read_exact(&mut announced).is_ok());
    if ready && announced == READY {
        child.stderr = None;
        return Ok((child, folder.join(SOCKET)));
    }
    let mut message = String::new();
    if let Some(errors) = child.stderr.take() {
        // Whatever it said before it ended.
        let _ = errors.take(4096).read_to_string(&mut message);
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(KeeperError::NotReady { folder: folder.to_owned(), message: message.trim().to_owned() })
}
