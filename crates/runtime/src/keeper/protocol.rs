//! Messages between the runtime and the keeper of a pod: length-prefixed JSON on a Unix socket.
//!
//! ```text
//! 4 bytes: length of the text, big-endian    text: one Request (to the keeper) or one Message (from it)
//! ```
//!
//! The first request of a connection is [`Request::Hello`]. Requests are answered in order; exits are reported in between.
//! A keeper keeps running across upgrades of the agent, so each release understands the previous version.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::launcher::{ContainerSpec, PodNamespaces, ProcessSpec, Terminal, TerminalSize};

/// The version of this release.
pub const VERSION: u32 = 1;
/// Far more than the largest container needs.
pub const MAX_FRAME_BYTES: usize = 4 << 20;
const PREFIX_BYTES: usize = 4;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Hello {
        version: u32,
    },
    /// Makes namespaces of the pod and pins each to a file. Only the keeper can make those of a user namespace.
    MakeNamespaces(PodNamespaces),
    /// Sets up a container. Its output goes to the log file, or nowhere, and to attached clients.
    Create {
        container: Box<ContainerSpec>,
        stdin: Stdin,
        log: Option<PathBuf>,
        /// A file with a line `oom_kill N`: `memory.events`, or `memory.oom_control` of cgroup v1.
        oom_counter: Option<PathBuf>,
    },
    Start {
        container: String,
    },
    /// Executes a further process. Its standard streams are the three descriptors that come with the message. For a process with a
    /// terminal, the message comes with one descriptor: a Unix stream socket, on which the keeper sends the master side of the
    /// terminal with one byte before it answers.
    Exec {
        container: String,
        exec: String,
        process: Box<ProcessSpec>,
    },
    /// Sends a signal to the first process.
    Signal {
        container: String,
        signal: i32,
    },
    /// Kills an executed process and everything that it started.
    KillExec {
        container: String,
        exec: String,
    },
    /// Copies data between a container and the descriptors that come with the message: a pipe for each of the chosen streams, in
    /// the order of the fields. There is no answer other than [`Response::Done`]; the client detaches by closing its ends of the
    /// pipes. A client that does not read is detached when a bounded buffer is full.
    Attach {
        container: String,
        streams: AttachedStreams,
    },
    /// Sets the size of a container's terminal.
    Resize {
        container: String,
        size: TerminalSize,
    },
    ReopenLog {
        container: String,
    },
    List,
    /// Forgets a container that has ended or was never started.
    Remove {
        container: String,
    },
    /// Ends the keeper, which must have no running container.
    Shutdown,
}

impl Request {
    /// The number of descriptors that come with the request.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        match self {
            Self::Exec { process, .. } => match process.terminal {
                Terminal::None => 3,
                Terminal::New => 1,
            },
            Self::Attach { streams, .. } => streams.count(),
            Self::Hello { .. }
            | Self::MakeNamespaces(_)
            | Self::Create { .. }
            | Self::Start { .. }
            | Self::Signal { .. }
            | Self::KillExec { .. }
            | Self::Resize { .. }
            | Self::ReopenLog { .. }
            | Self::List
            | Self::Remove { .. }
            | Self::Shutdown => 0,
        }
    }
}

/// Standard input of a container without a terminal. With a terminal, input always reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// It is at its end from the start.
    Closed,
    /// It stays open without a client, and takes the data of all clients one after the other.
    Open,
    /// It ends together with the input of the first client that attaches to it.
    Once,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachedStreams {
    pub stdin: bool,
    pub stdout: bool,
    /// A container with a terminal has only standard output.
    pub stderr: bool,
}

impl AttachedStreams {
    /// The number of descriptors that come with the request.
    #[must_use]
    pub fn count(self) -> usize {
        [self.stdin, self.stdout, self.stderr].into_iter().filter(|chosen| *chosen).count()
    }
}

/// What a keeper sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Response(Response),
    ContainerExited { container: String, exit: ExitRecord },
    ExecExited { container: String, exec: String, exit: ExitRecord },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    Hello { version: u32 },
    Done,
    Started { pid: u32 },
    Containers(Vec<ContainerState>),
    Failed { kind: FailureKind, message: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    NotFound,
    WrongState,
    /// The set-up or `execve` failed.
    Launch,
    BadRequest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerState {
    pub container: String,
    pub stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    Created,
    Running { pid: u32, started_at: i64 },
    Exited(ExitRecord),
}

/// How a process ended. It is on disk before it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The exit code, or 128 and the number of the signal.
    pub code: i32,
    pub signal: Option<i32>,
    pub oom_killed: bool,
    /// Nanoseconds since 1970. Zero if the process never ran.
    pub started_at: i64,
    pub finished_at: i64,
    /// Why the program could not be executed.
    pub start_error: Option<String>,
}

/// Why a connection ends.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProtocolError {
    #[error("frame of {0} bytes, at most {MAX_FRAME_BYTES} are allowed")]
    TooLong(usize),
    #[error("frame is not a valid message: {0}")]
    Invalid(String),
}

/// A message as it is sent.
///
/// # Errors
/// If it is too long.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, ProtocolError> {
    let text = serde_json::to_vec(message).map_err(|error| ProtocolError::Invalid(error.to_string()))?;
    let length = u32::try_from(text.len()).ok().filter(|_| text.len() <= MAX_FRAME_BYTES);
    let length = length.ok_or(ProtocolError::TooLong(text.len()))?;
    Ok([length.to_be_bytes().as_slice(), &text].concat())
}

/// Received bytes that are not decoded yet.
#[derive(Debug, Default)]
pub struct FrameBuffer(Vec<u8>);

impl FrameBuffer {
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next complete message.
    ///
    /// # Errors
    /// If the bytes are no message. The connection cannot be used further.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ProtocolError> {
        let Some((prefix, rest)) = self.0.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
        if length > MAX_FRAME_BYTES {
            return Err(ProtocolError::TooLong(length));
        }
        let Some(text) = rest.get(..length) else { return Ok(None) };
        let message =
            serde_json::from_slice(text).map_err(|error| ProtocolError::Invalid(error.to_string()))?;
        self.0.drain(..PREFIX_BYTES + length);
        if self.0.is_empty() {
            // An idle keeper keeps no buffer.
            self.0 = Vec::new();
        }
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_survives_any_split_of_its_bytes() {
        let request = Request::Signal { container: "c".into(), signal: 15 };
        let bytes = encode(&request).unwrap();
        for cut in 0..bytes.len() {
            let mut buffer = FrameBuffer::default();
            buffer.extend(&bytes[..cut]);
            assert_eq!(buffer.next_message::<Request>(), Ok(None));
            buffer.extend(&bytes[cut..]);
            assert_eq!(buffer.next_message::<Request>(), Ok(Some(request.clone())));
            assert_eq!(buffer.next_message::<Request>(), Ok(None));
        }
    }

    #[test]
    fn several_messages_in_one_read_are_all_decoded() {
        let mut buffer = FrameBuffer::default();
        buffer.extend(&[encode(&Request::List).unwrap(), encode(&Request::Shutdown).unwrap()].concat());
        assert_eq!(buffer.next_message::<Request>(), Ok(Some(Request::List)));
        assert_eq!(buffer.next_message::<Request>(), Ok(Some(Request::Shutdown)));
    }

    #[test]
    fn oversized_frame_is_refused_before_it_is_received() {
        let mut buffer = FrameBuffer::default();
        buffer.extend(&u32::MAX.to_be_bytes());
        assert!(matches!(buffer.next_message::<Request>(), Err(ProtocolError::TooLong(_))));
    }

    #[test]
    fn unknown_request_is_refused() {
        let mut buffer = FrameBuffer::default();
        buffer.extend(&encode(&"Reboot").unwrap());
        assert!(matches!(buffer.next_message::<Request>(), Err(ProtocolError::Invalid(_))));
    }
}
