//! Creates a socket and accepts connections.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use tokio::net::{UnixListener, UnixStream};

use crate::FilteredStream;

/// A listening unix socket; a stream of connections.
#[derive(Debug)]
pub struct GrpcListener {
    listener: UnixListener,
}

impl GrpcListener {
    /// Creates the socket under a temporary name and renames it, which atomically replaces the socket of an earlier run.
    /// Creates the folder with mode 0750 if it is missing.
    ///
    /// # Errors
    /// If the folder or the socket cannot be created.
    pub fn bind(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        if let Some(folder) = path.parent()
            && !folder.exists()
        {
            std::fs::DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
        }
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        match std::fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&temporary)?;
        std::fs::rename(&temporary, path)?;
        Ok(Self { listener })
    }
}

impl Stream for GrpcListener {
    type Item = io::Result<FilteredStream<UnixStream>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let accepted = std::task::ready!(self.listener.poll_accept(context));
        Poll::Ready(Some(accepted.map(|(stream, _)| FilteredStream::new(stream))))
    }
}
