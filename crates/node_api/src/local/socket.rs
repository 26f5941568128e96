//! The local socket of the commands: HTTP for root and the agent's own user.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::serve::Listener;
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tower::ServiceExt;

/// In bytes; the limit of Linux.
const MAX_SOCKET_PATH: usize = 107;
/// How long to wait after a failed accept, mostly because of too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum LocalSocketError {
    #[error("another agent listens on {}; stop it first, or choose another --root-dir", .0.display())]
    InUse(PathBuf),
    #[error("the socket path {} is longer than {MAX_SOCKET_PATH} bytes; choose a shorter --root-dir", .0.display())]
    TooLong(PathBuf),
    #[error("{} is not a socket; move it away", .0.display())]
    NotASocket(PathBuf),
    #[error("cannot listen on {}: {source}", path.display())]
    Listen { path: PathBuf, source: io::Error },
}

/// A bound socket. Dropping it removes the file.
#[derive(Debug)]
pub struct LocalSocket {
    listener: TrustedPeerListener,
    _file: SocketFile,
}

impl LocalSocket {
    /// Binds the socket. Only its owner may access the socket and its folder. Replaces a stale socket on which no process
    /// listens.
    ///
    /// # Errors
    /// When another agent listens on the socket, or it cannot be created.
    pub async fn bind(path: &Path) -> Result<Self, LocalSocketError> {
        let failed = |source| LocalSocketError::Listen { path: path.to_owned(), source };
        if path.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(LocalSocketError::TooLong(path.to_owned()));
        }
        if let Some(folder) = path.parent() {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(LocalSocketError::NotASocket(path.to_owned()));
            }
            Ok(_) => {
                if UnixStream::connect(path).await.is_ok() {
                    return Err(LocalSocketError::InUse(path.to_owned()));
                }
                std::fs::remove_file(path).map_err(failed)?;
            }
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let file = SocketFile(path.to_owned());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let owner = std::fs::symlink_metadata(path).map_err(failed)?.uid();
        Ok(Self { listener: TrustedPeerListener { listener, owner }, _file: file })
    }

    /// Serves each request with the current router. Never returns.
    pub async fn serve(self, current: watch::Receiver<Router>) {
        let router = Router::new().fallback(async move |request: Request| {
            let router = current.borrow().clone();
            match router.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        });
        if let Err(error) = axum::serve(self.listener, router).await {
            tracing::error!(%error, "failed to serve the local socket");
        }
        std::future::pending::<()>().await;
    }
}

/// The router while the agent starts: it answers every request with 503 and `reason`.
pub fn starting_router(reason: String) -> Router {
    Router::new().fallback(async move || (StatusCode::SERVICE_UNAVAILABLE, reason).into_response())
}

/// Removes the file of the socket when dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Accepts connections of root and of the socket's owner, and closes others, whatever the mode of the file is.
#[derive(Debug)]
struct TrustedPeerListener {
    listener: UnixListener,
    owner: u32,
}

impl Listener for TrustedPeerListener {
    type Io = UnixStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => match stream.peer_cred() {
                    Ok(peer) if is_allowed(peer.uid(), self.owner) => return (stream, address),
                    Ok(peer) => tracing::warn!(
                        uid = peer.uid(),
                        "rejected connection to the local socket, only root may use it"
                    ),
                    Err(error) => {
                        tracing::warn!(%error, "failed to read peer credentials of the local socket, closing connection");
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "failed to accept connection to the local socket");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

fn is_allowed(peer: u32, owner: u32) -> bool {
    peer == 0 || peer == owner
}

#[cfg(test)]
mod tests;
