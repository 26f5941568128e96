//! Frames on a connection.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::SpdyError;
use crate::frame::{Decoder, Encoder, Frame};

/// What is read at once.
const PIECE: usize = 32 * 1024;

/// The reading half.
pub struct FrameReader<R> {
    half: R,
    decoder: Decoder,
    arrived: BytesMut,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads from a connection that was just upgraded.
    pub fn new(half: R) -> Self {
        Self { half, decoder: Decoder::default(), arrived: BytesMut::with_capacity(PIECE) }
    }

    /// The next frame, or piece of one; `None` when the peer has closed the connection. May be dropped while it waits.
    ///
    /// # Errors
    /// When the connection fails or the peer breaks the protocol.
    pub async fn next(&mut self) -> Result<Option<Frame>, SpdyError> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.arrived)? {
                return Ok(Some(frame));
            }
            self.arrived.reserve(PIECE);
            if self.half.read_buf(&mut self.arrived).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// The writing half.
pub struct FrameWriter<W> {
    half: W,
    encoder: Encoder,
    waiting: BytesMut,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    /// Writes to a connection that was just upgraded.
    pub fn new(half: W) -> Self {
        Self { half, encoder: Encoder::default(), waiting: BytesMut::new() }
    }

    /// Writes a frame out. Not to be dropped while it waits, or the connection is of no use any more.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn send(&mut self, frame: &Frame) -> Result<(), SpdyError> {
        self.encoder.encode(frame, &mut self.waiting)?;
        self.half.write_all_buf(&mut self.waiting).await?;
        Ok(self.half.flush().await?)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[tokio::test]
    async fn frames_cross_a_connection_in_order() {
        let (ours, theirs) = tokio::io::duplex(16);
        let (mut writer, mut reader) = (FrameWriter::new(ours), FrameReader::new(theirs));
        let frames = [
            Frame::SynStream { stream: 1, headers: vec![("streamtype".into(), "error".into())], fin: false },
            Frame::Ping(1),
        ];
        let sent = async {
            for frame in &frames {
                writer.send(frame).await.unwrap();
            }
            drop(writer);
        };
        let received = async {
            let mut all = Vec::new();
            while let Some(frame) = reader.next().await.unwrap() {
                all.push(frame);
            }
            all
        };
        let ((), received) = tokio::join!(sent, received);
        assert_eq!(received, frames);
    }

    #[tokio::test]
    async fn a_large_frame_does_not_become_a_large_buffer() {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (mut writer, mut reader) = (FrameWriter::new(ours), FrameReader::new(theirs));
        let frame = Frame::Data { stream: 1, bytes: Bytes::from(vec![7; 4 << 20]), fin: true };
        let sent = async {
            writer.send(&frame).await.unwrap();
            drop(writer);
        };
        let received = async {
            let mut total = 0;
            while let Some(Frame::Data { bytes, .. }) = reader.next().await.unwrap() {
                total += bytes.len();
                assert!(reader.arrived.capacity() <= 4 * PIECE, "{}", reader.arrived.capacity());
            }
            total
        };
        assert_eq!(tokio::join!(sent, received).1, 4 << 20);
    }
}
