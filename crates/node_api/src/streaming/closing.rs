//! Closes a connection whose peer may still be sending.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How long the peer may take to close its side.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Shuts down the sending side and discards incoming data until the peer closes: closing a socket with unread bytes
/// drops the data that was sent last.
pub(super) async fn close(mut connection: impl AsyncRead + AsyncWrite + Unpin) {
    let drained = async {
        connection.shutdown().await?;
        let mut unread = [0; 4096];
        while connection.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    // An error or a timeout closes the connection, too.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, drained).await;
}
