//! The end of a connection whose peer may still be sending.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How long a peer may take to see that it is over.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Says that nothing more comes, and takes what still arrives: a socket that is closed with unread bytes drops what it
/// sent last.
pub(super) async fn close(mut connection: impl AsyncRead + AsyncWrite + Unpin) {
    let drained = async {
        connection.shutdown().await?;
        let mut unread = [0; 4096];
        while connection.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Over either way.
    let _ = tokio::time::timeout(GRACE, drained).await;
}
