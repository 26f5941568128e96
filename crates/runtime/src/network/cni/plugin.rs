//! Executes plugins: bounded in time and output.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Deserialize;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::attachments::AttachmentRecord;
use super::config::{NetworkConfig, Plugin};
use super::result::InvalidResult;
use crate::network::errors::NetworkFailure;

/// Address management by DHCP may take half of it.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;
/// How long to read after the plugin has ended: a process that it started may keep the pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The plugin does not know the container, so there is nothing to delete.
const CODE_UNKNOWN_CONTAINER: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Add,
    Delete,
    Check,
    Gc,
    Status,
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Delete => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
        }
    }
}

#[derive(Debug, Error)]
pub(super) enum PluginError {
    #[error("no program in {0:?}")]
    Missing(Vec<PathBuf>),
    #[error("start {program:?}: {source}")]
    Start { program: PathBuf, source: std::io::Error },
    #[error("communicate: {0}")]
    Pipe(#[from] std::io::Error),
    #[error("killed after {0:?}")]
    Timeout(Duration),
    #[error("killed because of more than {MAX_OUTPUT_BYTES} bytes of output")]
    TooMuchOutput,
    #[error("{message} (code {code})")]
    Failed { code: u64, message: String },
    #[error("{status}: {message}")]
    Exit { status: ExitStatus, message: String },
    #[error(transparent)]
    Result(InvalidResult),
}

impl PluginError {
    pub(super) fn of(self, network: &NetworkConfig, plugin: &Plugin) -> NetworkFailure {
        let (network, plugin) = (network.name.clone(), plugin.kind.clone());
        NetworkFailure::Plugin { network, plugin, reason: self.to_string() }
    }

    /// Whether an error of a deletion says that there is nothing to delete, as containerd decides.
    pub(super) fn means_deleted(&self, record: &AttachmentRecord) -> bool {
        let Self::Failed { code, message } = self else { return false };
        let is_without_namespace = record.netns.as_os_str().is_empty();
        *code == CODE_UNKNOWN_CONTAINER
            || message.contains("not found")
            || (is_without_namespace && message.contains("no such file or directory"))
    }
}

/// The plugin's own description of an error, on its standard output.
#[derive(Debug, Default, Deserialize)]
struct ErrorOutput {
    #[serde(default)]
    code: u64,
    #[serde(default)]
    msg: String,
    #[serde(default)]
    details: String,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Invocation<'a> {
    pub(super) program: &'a Path,
    pub(super) command: Command,
    pub(super) attachment: Option<&'a AttachmentRecord>,
    pub(super) folders: &'a [PathBuf],
}

/// The program of a plugin, in the first folder that has it.
pub(super) fn find(folders: &[PathBuf], kind: &str) -> Result<PathBuf, PluginError> {
    let candidates = folders.iter().map(|folder| folder.join(kind));
    candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| PluginError::Missing(folders.to_vec()))
}

/// Runs a plugin to its end. If it takes too long, writes too much or the caller stops waiting, the plugin and the processes
/// that it has started are killed.
pub(super) async fn execute(
    invocation: &Invocation<'_>,
    input: &[u8],
    limit: Duration,
) -> Result<Vec<u8>, PluginError> {
    let program = invocation.program;
    let mut child = tokio::process::Command::new(program)
        .envs(environment(invocation))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| PluginError::Start { program: program.to_owned(), source })?;
    let tree = ProcessTree { root: Mutex::new(child.id().and_then(pid_of)) };
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let status = {
        let streams = async {
            let feed = async {
                if let Some(mut stdin) = stdin {
                    // A plugin that does not read its input has another error.
                    let _ = stdin.write_all(input).await;
                }
            };
            let ((), output, errors) =
                tokio::join!(feed, read(stdout, &mut output), read(stderr, &mut errors));
            output.and(errors)
        };
        let run = async {
            tokio::pin!(streams);
            tokio::select! {
                result = &mut streams => {
                    result?;
                    let status = child.wait().await?;
                    *tree.root.lock() = None;
                    Ok(status)
                }
                status = child.wait() => {
                    let status = status?;
                    *tree.root.lock() = None;
                    timeout(DRAIN_TIMEOUT, streams).await.unwrap_or(Ok(()))?;
                    Ok(status)
                }
            }
        };
        timeout(limit, run).await.unwrap_or(Err(PluginError::Timeout(limit)))?
    };
    if status.success() { Ok(output) } else { Err(failure(status, &output, &errors)) }
}

async fn read(stream: Option<impl AsyncRead + Unpin>, to: &mut Vec<u8>) -> Result<(), PluginError> {
    let Some(stream) = stream else { return Ok(()) };
    stream.take(MAX_OUTPUT_BYTES + 1).read_to_end(to).await?;
    if to.len() as u64 > MAX_OUTPUT_BYTES { Err(PluginError::TooMuchOutput) } else { Ok(()) }
}

fn failure(status: ExitStatus, output: &[u8], errors: &[u8]) -> PluginError {
    const MAX_MESSAGE: usize = 4096;
    let text = |bytes: &[u8]| {
        let bytes = bytes.get(..MAX_MESSAGE).unwrap_or(bytes);
        String::from_utf8_lossy(bytes).trim().to_owned()
    };
    let described: Option<ErrorOutput> = serde_json::from_slice(output).ok();
    match described {
        Some(ErrorOutput { code, msg, details }) if !msg.is_empty() => {
            let details = if details.is_empty() { String::new() } else { format!("; {details}") };
            PluginError::Failed { code, message: text(format!("{msg}{details}").as_bytes()) }
        }
        _ => {
            let message = if errors.is_empty() { text(output) } else { text(errors) };
            PluginError::Exit { status, message }
        }
    }
}

fn environment(invocation: &Invocation<'_>) -> Vec<(&'static str, OsString)> {
    let path =
        invocation.folders.iter().map(|folder| folder.as_os_str()).collect::<Vec<_>>().join(":".as_ref());
    let mut environment = vec![("CNI_COMMAND", invocation.command.name().into()), ("CNI_PATH", path)];
    if let Some(attachment) = invocation.attachment {
        let arguments: Vec<String> =
            attachment.cni_args.iter().map(|(name, value)| format!("{name}={value}")).collect();
        environment.extend([
            ("CNI_CONTAINERID", attachment.container_id.clone().into()),
            ("CNI_NETNS", attachment.netns.clone().into()),
            ("CNI_IFNAME", attachment.if_name.clone().into()),
            ("CNI_ARGS", arguments.join(";").into()),
        ]);
    }
    environment
}

/// A plugin and its descendants; killed when dropped, unless the plugin has ended.
struct ProcessTree {
    root: Mutex<Option<Pid>>,
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        let Some(root) = *self.root.lock() else { return };
        // Before their parents end: descendants in other process groups are found through them.
        let mut descendants = Vec::new();
        collect_descendants(root, &mut descendants, 0);
        // The plugin was not waited for yet, so that its number still belongs to its group.
        let _ = rustix::process::kill_process_group(root, Signal::KILL);
        for process in descendants {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

fn collect_descendants(process: Pid, found: &mut Vec<OwnedFd>, depth: usize) {
    const MAX_DEPTH: usize = 32;
    let pid = process.as_raw_nonzero();
    let children = std::fs::read_to_string(Path::new("/proc").join(format!("{pid}/task/{pid}/children")));
    for child in children.unwrap_or_default().split_whitespace() {
        let Some(child) = child.parse().ok().and_then(pid_of) else { continue };
        found.extend(pidfd_open(child, PidfdFlags::empty()));
        if depth < MAX_DEPTH {
            collect_descendants(child, found, depth + 1);
        }
    }
}

fn pid_of(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}
