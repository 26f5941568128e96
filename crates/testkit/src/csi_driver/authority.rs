//! Accepts connections from grpc-go clients on a Unix socket.
//!
//! grpc-go sends the socket's path as `:authority`. That is not a valid authority, and the HTTP/2 server under tonic
//! resets every such stream. Real drivers are Go programs and do not check it. So this wrapper overwrites the value in
//! the first header block with a valid one of the same length.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

/// The first headers of a connection are within this many bytes.
const SEARCHED: usize = 1024;
/// `:authority` by table index, literal value with incremental indexing (RFC 7541, 6.2.1).
const AUTHORITY: u8 = 0x41;
/// Flag of a Huffman-coded value.
const COMPRESSED: u8 = 0x80;
/// Host names in tests are shorter than any socket path.
const SHORTEST_PATH: usize = 20;

/// A connection whose first `:authority` is made valid.
pub(crate) struct ValidAuthority {
    stream: UnixStream,
    left: usize,
}

impl ValidAuthority {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, left: SEARCHED }
    }
}

/// Overwrites the value; returns whether there was one.
fn overwrite_authority(bytes: &mut [u8]) -> bool {
    let found = (0..bytes.len()).find_map(|at| {
        let [AUTHORITY, length, ..] = bytes.get(at..)? else { return None };
        let long = usize::from(length & !COMPRESSED);
        let value = at + 2..at + 2 + long;
        let is_path = length & COMPRESSED != 0 && (SHORTEST_PATH..127).contains(&long);
        (is_path && value.end <= bytes.len()).then_some(value)
    });
    let Some(value) = found else { return false };
    if let Some(length) = bytes.get_mut(value.start - 1) {
        *length &= !COMPRESSED;
    }
    if let Some(value) = bytes.get_mut(value) {
        value.fill(b'a');
    }
    true
}

impl AsyncRead for ValidAuthority {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(new) = buffer.filled_mut().get_mut(before..).filter(|_| self.left > 0) {
            self.left = if overwrite_authority(new) { 0 } else { self.left.saturating_sub(new.len()) };
        }
        read
    }
}

impl AsyncWrite for ValidAuthority {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Connected for ValidAuthority {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwrites_path_but_not_host_name() {
        let mut path = vec![0x83, AUTHORITY, COMPRESSED | 30];
        path.extend([0xee; 30]);
        path.push(0x44);
        assert!(overwrite_authority(&mut path));
        assert_eq!(path[..3], [0x83, AUTHORITY, 30]);
        assert_eq!(path[3..33], [b'a'; 30]);
        assert_eq!(path[33], 0x44);
        let mut name = vec![AUTHORITY, COMPRESSED | 6, 1, 2, 3, 4, 5, 6];
        assert!(!overwrite_authority(&mut name));
    }
}
