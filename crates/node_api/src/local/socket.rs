//! The socket that the commands ask: HTTP for root and the agent's own user, below the root folder.

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

/// The longest path of a socket that Linux takes.
const LONGEST_PATH: usize = 107;
/// Wait after an accept that failed, mostly for want of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(500);

/// Why there is no local socket.
#[derive(Debug, thiserror::Error)]
pub enum LocalSocketError {
    /// Somebody listens on it.
    #[error("another agent listens on {}; stop it first, or choose another --root-dir", .0.display())]
    InUse(PathBuf),
    /// Linux takes no such path.
    #[error("the path {} is longer than the {LONGEST_PATH} bytes a socket may have; choose a shorter --root-dir", .0.display())]
    TooLong(PathBuf),
    /// Something else lies there.
    #[error("{} is not a socket; move it away", .0.display())]
    NotASocket(PathBuf),
    /// It cannot be made.
    #[error("cannot listen on {}: {source}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A socket that is bound, and removed when it is dropped.
#[derive(Debug)]
pub struct LocalSocket {
    listener: OwnPeers,
    _file: SocketFile,
}

impl LocalSocket {
    /// Binds the socket, for its owner alone, in a folder for its owner alone. A socket that nobody listens on any more
    /// is replaced.
    ///
    /// # Errors
    /// When another agent has it, or it cannot be made.
    pub async fn bind(path: &Path) -> Result<Self, LocalSocketError> {
        let failed = |source| LocalSocketError::Listen { path: path.to_owned(), source };
        if path.as_os_str().len() > LONGEST_PATH {
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
        Ok(Self { listener: OwnPeers { listener, owner }, _file: file })
    }

    /// Serves whatever router is the current one; never ends.
    pub async fn serve(self, current: watch::Receiver<Router>) {
        let router = Router::new().fallback(async move |request: Request| {
            let router = current.borrow().clone();
            match router.oneshot(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            }
        });
        if let Err(error) = axum::serve(self.listener, router).await {
            tracing::error!(%error, "the local socket failed");
        }
        std::future::pending::<()>().await;
    }
}

/// The router while the agent is not ready to answer; `why` is told.
pub fn starting_router(why: String) -> Router {
    Router::new().fallback(async move || (StatusCode::SERVICE_UNAVAILABLE, why).into_response())
}

/// Removes the file of a socket at last.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Connections of root and of the socket's owner; others are closed at once, whatever the file's mode says.
#[derive(Debug)]
struct OwnPeers {
    listener: UnixListener,
    owner: u32,
}

impl Listener for OwnPeers {
    type Io = UnixStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => match stream.peer_cred() {
                    Ok(peer) if is_allowed(peer.uid(), self.owner) => return (stream, address),
                    Ok(peer) => tracing::warn!(uid = peer.uid(), "the local socket is for root alone"),
                    Err(error) => tracing::warn!(%error, "who connects to the local socket is not known"),
                },
                Err(error) => {
                    tracing::warn!(%error, "a connection to the local socket was lost");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
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
