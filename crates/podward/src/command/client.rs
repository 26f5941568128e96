//! The client of the agent: HTTP over its local socket, or its read-only port.

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

const DEFAULT_ROOT_DIR: &str = "/var/lib/kubelet";
/// The environment variable with the path of the socket.
const SOCKET_VARIABLE: &str = "PODWARD_SOCKET";
/// For complete responses. Streams have no timeout.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Converts JSON to a type by way of text. The binary contains the code that reads pods from text anyway; the code that
/// reads them from [`Value`] would add a megabyte to it.
pub(super) fn typed<T: DeserializeOwned>(object: &Value) -> serde_json::Result<T> {
    serde_json::from_slice(&serde_json::to_vec(object)?)
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Client {
    LocalSocket(PathBuf),
    ReadOnlyPort(String),
}

/// A response whose body has not been read.
pub(super) struct ResponseBody {
    body: Incoming,
    /// Drives the connection while the body is read.
    _connection: JoinSet<()>,
}

impl Client {
    pub(super) fn from_flags(connection: &Connection) -> Self {
        if let Some(server) = &connection.server {
            return Self::ReadOnlyPort(server.clone());
        }
        Self::LocalSocket(socket_path(connection, std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from)))
    }

    /// Reads a JSON document.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let request = async {
            let body = self.open(path).await?.body.collect().await.context("read the agent's response")?;
            serde_json::from_slice(&body.to_bytes()).context("parse the agent's response")
        };
        match tokio::time::timeout(RESPONSE_TIMEOUT, request).await {
            Ok(document) => document,
            Err(_) => bail!("the agent did not answer within {} s", RESPONSE_TIMEOUT.as_secs()),
        }
    }

    /// Sends a request whose response is read as a stream.
    pub(super) async fn open(&self, path: &str) -> anyhow::Result<ResponseBody> {
        let stream = self.connect().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.context("connect to the agent")?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // An error also appears as the error of the response.
            let _ = connection.await;
        });
        let request = Request::get(path)
            .header(http::header::HOST, "podward")
            .body(Empty::<Bytes>::new())
            .with_context(|| format!("request {path}"))?;
        let response = sender.send_request(request).await.context("send the request to the agent")?;
        let response = self.check_status(response).await?;
        Ok(ResponseBody { body: response.into_body(), _connection: driver })
    }

    async fn check_status(&self, response: Response<Incoming>) -> anyhow::Result<Response<Incoming>> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body =
            response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(&body).trim().to_owned();
        match (status, self) {
            (StatusCode::NOT_FOUND, Self::ReadOnlyPort(_)) if text.is_empty() => {
                bail!("the read-only port does not serve this; use the local socket, without --server")
            }
            (_, _) if text.is_empty() => bail!("the agent answered {status}"),
            (_, _) => bail!("{text}"),
        }
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Box<dyn Stream>> {
        match self {
            Self::LocalSocket(path) => match UnixStream::connect(path).await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(error) => bail!(connect_error(path, &error)),
            },
            Self::ReadOnlyPort(server) => {
                let stream = TcpStream::connect(server.as_str()).await.with_context(|| {
                    format!("no agent answers at {server}; is it running, with readOnlyPort set?")
                })?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// Flags win over the environment variable, which wins over the default.
fn socket_path(connection: &Connection, variable: Option<PathBuf>) -> PathBuf {
    let below = |root: &Path| root.join("podward").join(SOCKET);
    match (&connection.socket, &connection.root_dir, variable) {
        (Some(socket), _, _) => socket.clone(),
        (None, Some(root), _) => below(root),
        (None, None, Some(variable)) if !variable.as_os_str().is_empty() => variable,
        (None, None, _) => below(Path::new(DEFAULT_ROOT_DIR)),
    }
}

fn connect_error(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("only root may use the agent's socket {path}; try again with sudo")
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => format!(
            "no agent runs here: the socket {path} does not exist\n\
             Start an agent with `podward agent`, or use --root-dir to name the root folder of another one."
        ),
        io::ErrorKind::ConnectionRefused => {
            format!("no agent listens on {path}; is it running?")
        }
        _ => format!("failed to connect to the agent at {path}: {error}"),
    }
}

impl ResponseBody {
    /// The next chunk; `None` at the end.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    let frame = frame.context("lost the connection to the agent")?;
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    pub(super) fn json_lines(self) -> JsonLines {
        JsonLines { body: self, unread: BytesMut::new() }
    }
}

/// A response with one JSON document per line.
pub(super) struct JsonLines {
    body: ResponseBody,
    unread: BytesMut,
}

impl JsonLines {
    /// The next document; `None` when the agent has stopped.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line = self.unread.split_to(end + 1);
                return serde_json::from_slice(&line).map(Some).context("parse the agent's response");
            }
            match self.body.next().await? {
                Some(chunk) => self.unread.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_path_prefers_flags_over_environment() {
        let path = |connection: &Connection, variable: Option<&str>| {
            socket_path(connection, variable.map(PathBuf::from)).display().to_string()
        };
        let none = Connection::default();
        assert_eq!(path(&none, None), "/var/lib/kubelet/podward/agent.sock");
        assert_eq!(path(&none, Some("/v")), "/v");
        let root = Connection { root_dir: Some("/r".into()), ..Connection::default() };
        assert_eq!(path(&root, Some("/v")), "/r/podward/agent.sock");
        let named = Connection { socket: Some("/s".into()), ..Connection::default() };
        assert_eq!(path(&named, Some("/v")), "/s");
    }

    #[test]
    fn connect_errors_suggest_a_remedy() {
        let text = |kind| connect_error(Path::new("/r/agent.sock"), &io::Error::from(kind));
        assert!(text(io::ErrorKind::NotFound).contains("podward agent"));
        assert!(text(io::ErrorKind::PermissionDenied).contains("sudo"));
        assert!(text(io::ErrorKind::ConnectionRefused).contains("is it running?"));
    }
}
