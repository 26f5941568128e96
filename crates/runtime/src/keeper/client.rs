//! The runtime's connection to the keeper of a pod.
//!
//! Input: requests, and reports of the keeper. Output: one response per request, in order; exits of executed processes go to the
//! caller that waits for them, exits of containers to the receiver that [`KeeperClient::connect`] returns. When the keeper has ended,
//! all requests fail and the receiver ends.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::protocol::{
    AttachedStreams, ContainerState, ExitRecord, FailureKind, FrameBuffer, Message, ProtocolError, Request,
    Response, Stdin, VERSION, encode,
};
use super::start::SOCKET;
use crate::launcher::{ContainerSpec, PodNamespaces, ProcessSpec, TerminalSize};

/// The keeper gives up a set-up after 60 s; one that takes longer hangs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);
const READ_BYTES: usize = 16 * 1024;
const MAX_DESCRIPTORS: usize = 3;

#[derive(Debug, Error)]
pub enum KeeperClientError {
    #[error("connect to the keeper of the pod")]
    Connect { source: io::Error },
    #[error("send a request to the keeper of the pod")]
    Send { source: io::Error },
    #[error("the keeper of the pod has ended")]
    Gone,
    #[error("the keeper of the pod does not answer")]
    Timeout,
    #[error("message for the keeper of the pod")]
    Protocol { source: ProtocolError },
    #[error("{message}")]
    Refused { kind: FailureKind, message: String },
    #[error("the keeper of the pod sent an unexpected response: {0}")]
    Unexpected(String),
}

/// A container has ended.
#[derive(Debug)]
pub struct ContainerExit {
    pub container: String,
    pub exit: ExitRecord,
}

/// The connection. Requests may be made at the same time.
#[derive(Debug)]
pub struct KeeperClient {
    socket: Arc<UnixStream>,
    /// Held while a request is sent, so that requests and `pending` have the same order.
    sending: tokio::sync::Mutex<()>,
    waiting: Arc<Mutex<Waiting>>,
    reader: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    responses: VecDeque<oneshot::Sender<Response>>,
    execs: BTreeMap<String, oneshot::Sender<ExitRecord>>,
    gone: bool,
}

/// An executed process. Dropping it does not end the process.
#[derive(Debug)]
pub struct RunningExec {
    pub id: String,
    pub pid: u32,
    exit: oneshot::Receiver<ExitRecord>,
}

impl RunningExec {
    /// Waits until the process has ended.
    ///
    /// # Errors
    /// If the keeper has ended.
    pub async fn exit(&mut self) -> Result<ExitRecord, KeeperClientError> {
        (&mut self.exit).await.map_err(|_| KeeperClientError::Gone)
    }
}

impl KeeperClient {
    /// Connects to the keeper in a pod's folder and compares the versions.
    ///
    /// # Errors
    /// If there is no keeper, or if its protocol has another version.
    pub async fn connect(
        folder: &Path,
    ) -> Result<(Self, mpsc::UnboundedReceiver<ContainerExit>), KeeperClientError> {
        let socket = UnixStream::connect(folder.join(SOCKET)).await;
        let socket = Arc::new(socket.map_err(|source| KeeperClientError::Connect { source })?);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (exits, receiver) = mpsc::unbounded_channel();
        let reader = tokio::spawn(read_messages(socket.clone(), waiting.clone(), exits));
        let client = Self { socket, sending: tokio::sync::Mutex::new(()), waiting, reader };
        match client.request(&Request::Hello { version: VERSION }, &[]).await? {
            Response::Hello { version: VERSION } => Ok((client, receiver)),
            other => Err(KeeperClientError::Unexpected(format!("{other:?}"))),
        }
    }

    /// The keeper's process.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.socket.peer_cred().ok()?.pid()
    }

    /// Sets up a container.
    ///
    /// # Errors
    /// Every error of the set-up.
    pub async fn create(
        &self,
        container: Box<ContainerSpec>,
        stdin: Stdin,
        log: Option<std::path::PathBuf>,
        oom_counter: Option<std::path::PathBuf>,
    ) -> Result<(), KeeperClientError> {
        self.done(&Request::Create { container, stdin, log, oom_counter }).await
    }

    /// Starts a container; returns the number of its first process.
    ///
    /// # Errors
    /// If the program cannot be executed.
    pub async fn start(&self, container: &str) -> Result<u32, KeeperClientError> {
        match self.request(&Request::Start { container: container.to_owned() }, &[]).await? {
            Response::Started { pid } => Ok(pid),
            other => Err(KeeperClientError::Unexpected(format!("{other:?}"))),
        }
    }

    /// Executes a further process in a container. `stdio` are its standard streams, or the socket that receives its terminal.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub async fn exec(
        &self,
        container: &str,
        id: String,
        process: Box<ProcessSpec>,
        stdio: Vec<OwnedFd>,
    ) -> Result<RunningExec, KeeperClientError> {
        let (sender, exit) = oneshot::channel();
        self.waiting.lock().execs.insert(id.clone(), sender);
        let request = Request::Exec { container: container.to_owned(), exec: id.clone(), process };
        let response = self.request(&request, &stdio).await;
        drop(stdio);
        match response {
            Ok(Response::Started { pid }) => Ok(RunningExec { id, pid, exit }),
            Ok(other) => Err(KeeperClientError::Unexpected(format!("{other:?}"))),
            Err(error) => {
                self.waiting.lock().execs.remove(&id);
                Err(error)
            }
        }
    }

    /// Connects pipes to the first process of a container.
    ///
    /// # Errors
    /// If the container does not run.
    pub async fn attach(
        &self,
        container: &str,
        streams: AttachedStreams,
        pipes: Vec<OwnedFd>,
    ) -> Result<(), KeeperClientError> {
        let request = Request::Attach { container: container.to_owned(), streams };
        match self.request(&request, &pipes).await? {
            Response::Done => Ok(()),
            other => Err(KeeperClientError::Unexpected(format!("{other:?}"))),
        }
    }

    /// Sets the size of a container's terminal.
    ///
    /// # Errors
    /// If it has none.
    pub async fn resize(&self, container: &str, size: TerminalSize) -> Result<(), KeeperClientError> {
        self.done(&Request::Resize { container: container.to_owned(), size }).await
    }

    /// Makes namespaces of the pod that belong to a user namespace.
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub async fn make_namespaces(&self, namespaces: PodNamespaces) -> Result<(), KeeperClientError> {
        self.done(&Request::MakeNamespaces(namespaces)).await
    }

    /// Kills an executed process with everything that it started.
    ///
    /// # Errors
    /// If the container is unknown or the keeper has ended.
    pub async fn kill_exec(&self, container: &str, exec: &str) -> Result<(), KeeperClientError> {
        let request = Request::KillExec { container: container.to_owned(), exec: exec.to_owned() };
        self.done(&request).await
    }

    /// Sends a signal to the first process of a container.
    ///
    /// # Errors
    /// If the container is not running. One that has ended is no error.
    pub async fn signal(&self, container: &str, signal: i32) -> Result<(), KeeperClientError> {
        self.done(&Request::Signal { container: container.to_owned(), signal }).await
    }

    /// Continues the log in a new file.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub async fn reopen_log(&self, container: &str) -> Result<(), KeeperClientError> {
        self.done(&Request::ReopenLog { container: container.to_owned() }).await
    }

    /// Makes and pins namespaces of the pod.
    ///
    /// # Errors
    /// If a namespace cannot be made or pinned.
    pub async fn make_pod_namespaces(&self, namespaces: PodNamespaces) -> Result<(), KeeperClientError> {
        self.done(&Request::MakeNamespaces(namespaces)).await
    }

    /// All containers with their stages.
    ///
    /// # Errors
    /// If the keeper has ended.
    pub async fn list(&self) -> Result<Vec<ContainerState>, KeeperClientError> {
        match self.request(&Request::List, &[]).await? {
            Response::Containers(containers) => Ok(containers),
            other => Err(KeeperClientError::Unexpected(format!("{other:?}"))),
        }
    }

    /// Forgets a container that does not run. An unknown one is no error.
    ///
    /// # Errors
    /// If the container runs or the keeper has ended.
    pub async fn remove(&self, container: &str) -> Result<(), KeeperClientError> {
        match self.done(&Request::Remove { container: container.to_owned() }).await {
            Err(KeeperClientError::Refused { kind: FailureKind::NotFound, .. }) => Ok(()),
            result => result,
        }
    }

    /// Forgets a container that was killed, as soon as it has ended.
    ///
    /// # Errors
    /// If it does not end or the keeper has ended.
    pub async fn wait_until_removed(&self, container: &str) -> Result<(), KeeperClientError> {
        const PAUSE: Duration = Duration::from_millis(2);
        timeout(REQUEST_TIMEOUT, async {
            loop {
                match self.remove(container).await {
                    Err(KeeperClientError::Refused { kind: FailureKind::WrongState, .. }) => {
                        tokio::time::sleep(PAUSE).await;
                    }
                    result => return result,
                }
            }
        })
        .await
        .map_err(|_| KeeperClientError::Timeout)?
    }

    /// Ends the keeper.
    ///
    /// # Errors
    /// If it has containers.
    pub async fn shut_down(&self) -> Result<(), KeeperClientError> {
        self.done(&Request::Shutdown).await
    }

    async fn done(&self, request: &Request) -> Result<(), KeeperClientError> {
        match self.request(request, &[]).await? {
            Response::Done => Ok(()),
            other => Err(KeeperClientError::Unexpected(format!("{other:?}"))),
        }
    }

    async fn request(
        &self,
        request: &Request,
        descriptors: &[OwnedFd],
    ) -> Result<Response, KeeperClientError> {
        let bytes = encode(request).map_err(|source| KeeperClientError::Protocol { source })?;
        let (sender, response) = oneshot::channel();
        let sent = Self::send(self, sender, &bytes, descriptors);
        let response = timeout(REQUEST_TIMEOUT, async {
            sent.await?;
            response.await.map_err(|_| KeeperClientError::Gone)
        });
        match response.await.map_err(|_| KeeperClientError::Timeout)?? {
            Response::Failed { kind, message } => Err(KeeperClientError::Refused { kind, message }),
            response => Ok(response),
        }
    }

    async fn send(
        &self,
        response: oneshot::Sender<Response>,
        bytes: &[u8],
        descriptors: &[OwnedFd],
    ) -> Result<(), KeeperClientError> {
        let guard = SendGuard { _order: self.sending.lock().await, client: self, complete: false };
        {
            let mut waiting = self.waiting.lock();
            if waiting.gone {
                return guard.finish(Err(KeeperClientError::Gone));
            }
            waiting.responses.push_back(response);
        }
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            // The descriptors go with the first byte.
            let descriptors = if sent == 0 { descriptors } else { &[] };
            let result = self
                .socket
                .async_io(Interest::WRITABLE, || send_some(self.socket.as_fd(), rest, descriptors))
                .await;
            match result {
                Ok(count) => sent += count,
                Err(source) => return guard.finish(Err(KeeperClientError::Send { source })),
            }
        }
        guard.finish(Ok(()))
    }
}

impl Drop for KeeperClient {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A request that was sent in part makes the connection useless: the keeper would take the next one as the rest of it.
struct SendGuard<'a> {
    _order: tokio::sync::MutexGuard<'a, ()>,
    client: &'a KeeperClient,
    complete: bool,
}

impl SendGuard<'_> {
    fn finish(mut self, result: Result<(), KeeperClientError>) -> Result<(), KeeperClientError> {
        self.complete = result.is_ok();
        result
    }
}

impl Drop for SendGuard<'_> {
    fn drop(&mut self) {
        if !self.complete {
            self.client.reader.abort();
            self.client.waiting.lock().end();
        }
    }
}

impl Waiting {
    /// Fails everything that waits, now and later.
    fn end(&mut self) {
        self.gone = true;
        self.responses.clear();
        self.execs.clear();
    }
}

fn send_some(socket: rustix::fd::BorrowedFd<'_>, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<usize> {
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)?)
}

/// Reads until the keeper closes the connection or breaks the protocol.
async fn read_messages(
    socket: Arc<UnixStream>,
    waiting: Arc<Mutex<Waiting>>,
    exits: mpsc::UnboundedSender<ContainerExit>,
) {
    let mut received = FrameBuffer::default();
    let mut buffer = vec![0; READ_BYTES];
    'connection: loop {
        if socket.readable().await.is_err() {
            break;
        }
        match socket.try_read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Ok(0) | Err(_) => break,
            Ok(length) => received.extend(buffer.get(..length).unwrap_or_default()),
        }
        loop {
            match received.next_message() {
                Ok(Some(message)) => deliver(message, &waiting, &exits),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(%error, "closing the connection to a keeper that broke the protocol");
                    break 'connection;
                }
            }
        }
    }
    waiting.lock().end();
}

/// A dropped receiver needs no report.
fn deliver(message: Message, waiting: &Mutex<Waiting>, exits: &mpsc::UnboundedSender<ContainerExit>) {
    match message {
        Message::Response(response) => {
            let waiter = waiting.lock().responses.pop_front();
            if let Some(waiter) = waiter {
                let _ = waiter.send(response);
            }
        }
        Message::ContainerExited { container, exit } => {
            let _ = exits.send(ContainerExit { container, exit });
        }
        Message::ExecExited { exec, exit, .. } => {
            let waiter = waiting.lock().execs.remove(&exec);
            if let Some(waiter) = waiter {
                let _ = waiter.send(exit);
            }
        }
    }
}
