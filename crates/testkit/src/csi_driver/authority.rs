//! Connections of Go programs to a socket.
//!
//! grpc-go names the socket's path as the `:authority` of its requests. That is no authority, and the HTTP/2 server under
//! tonic resets every such stream. Drivers in the field are Go programs and do not look; this one has to look away: the
//! value in the first block of headers is written over with a good one of the same length.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

/// The first headers of a connection come within so many bytes.
const SEARCHED: usize = 1024;
/// `:authority` by its number, its value to be remembered (RFC 7541, 6.2.1).
const AUTHORITY: u8 = 0x41;
/// The value is compressed.
const COMPRESSED: u8 = 0x80;
/// No host name in a test is as long as a path.
const SHORTEST_PATH: usize = 20;

/// A connection whose first `:authority` is good.
pub(super) struct Lenient {
    stream: UnixStream,
    /// Bytes that may still be searched.
    left: usize,
}

impl Lenient {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, left: SEARCHED }
    }
}

/// Writes over the value; `true` if there was one.
fn mend(bytes: &mut [u8]) -> bool {
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

impl AsyncRead for Lenient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(new) = buffer.filled_mut().get_mut(before..).filter(|_| self.left > 0) {
            self.left = if mend(new) { 0 } else { self.left.saturating_sub(new.len()) };
        }
        read
    }
}

impl AsyncWrite for Lenient {
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

impl Connected for Lenient {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_over_and_a_name_is_not() {
        let mut path = vec![0x83, AUTHORITY, COMPRESSED | 30];
        path.extend([0xee; 30]);
        path.push(0x44);
        assert!(mend(&mut path));
        assert_eq!(path[..3], [0x83, AUTHORITY, 30]);
        assert_eq!(path[3..33], [b'a'; 30]);
        assert_eq!(path[33], 0x44);
        let mut name = vec![AUTHORITY, COMPRESSED | 6, 1, 2, 3, 4, 5, 6];
        assert!(!mend(&mut name));
    }
}
