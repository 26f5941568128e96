//! Asks the agent: HTTP over its local socket, or its read-only port.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

use super::arguments::Connection;
use crate::wire::SOCKET;

/// Where the agent keeps its socket when it was not told otherwise.
const ROOT: &str = "/var/lib/kubelet";
/// The variable that names another socket.
const VARIABLE: &str = "PODWARD_SOCKET";
/// How long an answer may take; a stream has no end.
const DEADLINE: Duration = Duration::from_secs(20);

/// An object in its own type. It is written and read again: the agent has the code that reads a pod from text anyway, and
/// a second one, for values, would be a megabyte of its memory.
pub(super) fn typed<T: DeserializeOwned>(object: &Value) -> serde_json::Result<T> {
    serde_json::from_slice(&serde_json::to_vec(object)?)
}

/// Any stream of bytes to the agent.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// The local socket.
    Socket(PathBuf),
    /// A read-only port.
    Port(String),
}

/// An answer whose body is still to be read.
pub(super) struct Answer {
    body: Incoming,
    /// Drives the connection while the body is read.
    _connection: JoinSet<()>,
}

impl Client {
    /// The agent that the flags name.
    pub(super) fn of(connection: &Connection) -> Self {
        if let Some(server) = &connection.server {
            return Self::Port(server.clone());
        }
        Self::Socket(socket(connection, std::env::var_os(VARIABLE).map(PathBuf::from)))
    }

    /// A JSON answer.
    pub(super) async fn json(&self, path: &str) -> anyhow::Result<Value> {
        let asked = async {
            let body = self.open(path).await?.body.collect().await.context("read the agent's answer")?;
            serde_json::from_slice(&body.to_bytes()).context("understand the agent's answer")
        };
        match tokio::time::timeout(DEADLINE, asked).await {
            Ok(answer) => answer,
            Err(_) => bail!("the agent did not answer within {} s", DEADLINE.as_secs()),
        }
    }

    /// An answer that comes piece by piece.
    pub(super) async fn open(&self, path: &str) -> anyhow::Result<Answer> {
        let stream = self.connect().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.context("talk to the agent")?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // An error shows in the answer, too.
            let _ = connection.await;
        });
        let request = Request::get(path)
            .header(http::header::HOST, "podward")
            .body(Empty::<Bytes>::new())
            .with_context(|| format!("ask for {path}"))?;
        let answer = sender.send_request(request).await.context("ask the agent")?;
        let answer = self.accepted(answer).await?;
        Ok(Answer { body: answer.into_body(), _connection: driver })
    }

    async fn accepted(&self, answer: Response<Incoming>) -> anyhow::Result<Response<Incoming>> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body =
            answer.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(&body).trim().to_owned();
        match (status, self) {
            (StatusCode::NOT_FOUND, Self::Port(_)) if text.is_empty() => {
                bail!("the read-only port does not tell this; ask the local socket, without --server")
            }
            (_, _) if text.is_empty() => bail!("the agent answered {status}"),
            (_, _) => bail!("{text}"),
        }
    }

    /// A connection to the agent.
    pub(super) async fn connect(&self) -> anyhow::Result<Box<dyn Stream>> {
        match self {
            Self::Socket(path) => match UnixStream::connect(path).await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(error) => bail!(no_socket(path, &error)),
            },
            Self::Port(server) => {
                let stream = TcpStream::connect(server.as_str()).await.with_context(|| {
                    format!("no agent answers at {server}; is it running, with readOnlyPort set?")
                })?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// The socket that is meant: what was said here, then the environment, then the usual place.
fn socket(connection: &Connection, variable: Option<PathBuf>) -> PathBuf {
    let below = |root: &Path| root.join("podward").join(SOCKET);
    match (&connection.socket, &connection.root_dir, variable) {
        (Some(socket), _, _) => socket.clone(),
        (None, Some(root), _) => below(root),
        (None, None, Some(variable)) if !variable.as_os_str().is_empty() => variable,
        (None, None, _) => below(Path::new(ROOT)),
    }
}

fn no_socket(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("the agent's socket {shown} is for root alone; try again with sudo")
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => format!(
            "no agent runs here: there is no socket {shown}\n\
             Start one with `podward agent`, or name another agent's root folder with --root-dir."
        ),
        io::ErrorKind::ConnectionRefused => {
            format!("no agent listens on {shown} any more; is it running?")
        }
        _ => format!("cannot reach the agent at {shown}: {error}"),
    }
}

impl Answer {
    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    let frame = frame.context("the connection to the agent broke off")?;
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The answer as lines of JSON.
    pub(super) fn lines(self) -> Lines {
        Lines { answer: self, rest: BytesMut::new() }
    }
}

/// Lines of JSON, one after the other.
pub(super) struct Lines {
    answer: Answer,
    rest: BytesMut,
}

impl Lines {
    /// The next value; `None` when the agent has stopped.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(at + 1);
                return serde_json::from_slice(&line).map(Some).context("understand the agent's answer");
            }
            match self.answer.next().await? {
                Some(more) => self.rest.extend_from_slice(&more),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_found_by_the_flags() {
        let found = |connection: &Connection, variable: Option<&str>| {
            socket(connection, variable.map(PathBuf::from)).display().to_string()
        };
        let none = Connection::default();
        assert_eq!(found(&none, None), "/var/lib/kubelet/podward/agent.sock");
        assert_eq!(found(&none, Some("/v")), "/v");
        let root = Connection { root_dir: Some("/r".into()), ..Connection::default() };
        assert_eq!(found(&root, Some("/v")), "/r/podward/agent.sock");
        let named = Connection { socket: Some("/s".into()), ..Connection::default() };
        assert_eq!(found(&named, Some("/v")), "/s");
    }

    #[test]
    fn errors_say_what_to_do() {
        let text = |kind| no_socket(Path::new("/r/agent.sock"), &io::Error::from(kind));
        assert!(text(io::ErrorKind::NotFound).contains("podward agent"));
        assert!(text(io::ErrorKind::PermissionDenied).contains("sudo"));
        assert!(text(io::ErrorKind::ConnectionRefused).contains("is it running?"));
    }
}
