//! Reads and writes frames on a connection.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::SpdyError;
use crate::frame::{Decoder, Encoder, Frame};

const READ_CHUNK: usize = 32 * 1024;

pub struct FrameReader<R> {
    reader: R,
    decoder: Decoder,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// `reader` must be at the first byte after the HTTP upgrade.
    pub fn new(reader: R) -> Self {
        Self { reader, decoder: Decoder::default(), buffer: BytesMut::with_capacity(READ_CHUNK) }
    }

    /// Returns the next frame or chunk of a data frame; `None` when the peer has closed the connection. Cancel safe.
    ///
    /// # Errors
    /// If the connection fails or the peer violates the protocol.
    pub async fn next(&mut self) -> Result<Option<Frame>, SpdyError> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.buffer)? {
                return Ok(Some(frame));
            }
            self.buffer.reserve(READ_CHUNK);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

pub struct FrameWriter<W> {
    writer: W,
    encoder: Encoder,
    buffer: BytesMut,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    /// `writer` must be at the first byte after the HTTP upgrade.
    pub fn new(writer: W) -> Self {
        Self { writer, encoder: Encoder::default(), buffer: BytesMut::new() }
    }

    /// Writes and flushes a frame. Not cancel safe: after a cancelled call the connection is unusable.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn send(&mut self, frame: &Frame) -> Result<(), SpdyError> {
        self.encoder.encode(frame, &mut self.buffer)?;
        self.writer.write_all_buf(&mut self.buffer).await?;
        Ok(self.writer.flush().await?)
    }

    /// Ends this side's direction of the connection.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn shutdown(&mut self) -> Result<(), SpdyError> {
        Ok(self.writer.shutdown().await?)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[tokio::test]
    async fn frames_arrive_in_order() {
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
    async fn large_frame_does_not_grow_the_buffer() {
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
                assert!(reader.buffer.capacity() <= 4 * READ_CHUNK, "{}", reader.buffer.capacity());
            }
            total
        };
        assert_eq!(tokio::join!(sent, received).1, 4 << 20);
    }
}
