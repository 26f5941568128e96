//! Encodes and decodes frames.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::SpdyError;
use crate::header_block::{HeaderCompressor, HeaderDecompressor, Headers};

/// Odd for streams that the client opened.
pub type StreamId = u32;

const VERSION: u16 = 3;
const HEADER_LENGTH: usize = 8;
const MAX_CONTROL_LENGTH: usize = 64 * 1024;
const MAX_DATA_LENGTH: usize = (1 << 24) - 1;
const CONTROL_BIT: u32 = 1 << 31;
const FLAG_FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// One frame, or a chunk of a data frame. `fin` means that the sender sends nothing more on the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A large data frame is delivered in chunks; only the last one has `fin`.
    Data { stream: StreamId, bytes: Bytes, fin: bool },
    /// Opens a stream.
    SynStream { stream: StreamId, headers: Headers, fin: bool },
    /// Accepts a stream.
    SynReply { stream: StreamId, headers: Headers, fin: bool },
    /// Ends a stream both ways.
    Reset { stream: StreamId, status: u32 },
    /// The receiver must send it back.
    Ping(u32),
    /// The sender accepts no more streams.
    GoAway {
        /// The last stream that it accepted.
        last_stream: StreamId,
        status: u32,
    },
    /// Additional headers of a stream.
    Headers { stream: StreamId, headers: Headers, fin: bool },
    /// A control frame of another type, such as SETTINGS or WINDOW_UPDATE.
    Ignored(u16),
}

/// Decodes the frames of one connection. All header blocks share one zlib stream, so it must process all frames in order.
#[derive(Default)]
pub struct Decoder {
    decompressor: HeaderDecompressor,
    /// The data frame that is being received.
    data: Option<OpenData>,
}

#[derive(Clone, Copy)]
struct OpenData {
    stream: StreamId,
    left: usize,
    fin: bool,
}

impl Decoder {
    /// Takes the next frame, or chunk of a data frame, from `buffer`; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the peer violates the protocol. The rest of the connection cannot be decoded then.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, SpdyError> {
        loop {
            if let Some(open) = self.data {
                return Ok(self.take_data(open, buffer));
            }
            let Some(head) = buffer.first_chunk::<HEADER_LENGTH>() else { return Ok(None) };
            let (mut first, mut second) = (&head[..4], &head[4..]);
            let (first, second) = (first.get_u32(), second.get_u32());
            let flags = u8::try_from(second >> 24).unwrap_or_default();
            let length = usize::try_from(second & 0x00ff_ffff).unwrap_or(usize::MAX);
            if first & CONTROL_BIT != 0 {
                return self.take_control(first, flags, length, buffer);
            }
            buffer.advance(HEADER_LENGTH);
            self.data = Some(OpenData { stream: first, left: length, fin: flags & FLAG_FIN != 0 });
        }
    }

    fn take_data(&mut self, open: OpenData, buffer: &mut BytesMut) -> Option<Frame> {
        if buffer.is_empty() && open.left > 0 {
            return None;
        }
        let bytes = buffer.split_to(open.left.min(buffer.len())).freeze();
        let left = open.left - bytes.len();
        self.data = (left > 0).then_some(OpenData { left, ..open });
        Some(Frame::Data { stream: open.stream, bytes, fin: open.fin && left == 0 })
    }

    fn take_control(
        &mut self,
        first: u32,
        flags: u8,
        length: usize,
        buffer: &mut BytesMut,
    ) -> Result<Option<Frame>, SpdyError> {
        let version = u16::try_from((first & !CONTROL_BIT) >> 16).unwrap_or_default();
        let kind = u16::try_from(first & 0xffff).unwrap_or_default();
        if version != VERSION {
            return Err(SpdyError::Version(version));
        }
        if length > MAX_CONTROL_LENGTH {
            return Err(SpdyError::FrameTooLarge(length));
        }
        if buffer.len() < HEADER_LENGTH + length {
            return Ok(None);
        }
        buffer.advance(HEADER_LENGTH);
        let mut body = buffer.split_to(length).freeze();
        self.decode_control(kind, flags & FLAG_FIN != 0, &mut body).map(Some)
    }

    fn decode_control(&mut self, kind: u16, fin: bool, body: &mut Bytes) -> Result<Frame, SpdyError> {
        let too_short = |_| SpdyError::ShortFrame(kind);
        let mut next_u32 = || body.try_get_u32().map_err(too_short);
        Ok(match kind {
            SYN_STREAM => {
                let stream = next_u32()? & !CONTROL_BIT;
                let (_associated, _priority) = (next_u32()?, body.try_get_u16().map_err(too_short)?);
                Frame::SynStream { stream, headers: self.decompressor.decompress(body)?, fin }
            }
            SYN_REPLY => {
                let stream = next_u32()? & !CONTROL_BIT;
                Frame::SynReply { stream, headers: self.decompressor.decompress(body)?, fin }
            }
            RST_STREAM => Frame::Reset { stream: next_u32()? & !CONTROL_BIT, status: next_u32()? },
            PING => Frame::Ping(next_u32()?),
            GOAWAY => Frame::GoAway { last_stream: next_u32()? & !CONTROL_BIT, status: next_u32()? },
            HEADERS => {
                let stream = next_u32()? & !CONTROL_BIT;
                Frame::Headers { stream, headers: self.decompressor.decompress(body)?, fin }
            }
            other => Frame::Ignored(other),
        })
    }
}

/// Encodes the frames of one connection.
#[derive(Default)]
pub struct Encoder {
    compressor: HeaderCompressor,
}

impl Encoder {
    /// Appends an encoded frame to `out`. Splits data that exceeds the maximum frame length.
    ///
    /// # Errors
    /// If the headers exceed the maximum length of a control frame.
    pub fn encode(&mut self, frame: &Frame, out: &mut BytesMut) -> Result<(), SpdyError> {
        match frame {
            Frame::Data { stream, bytes, fin } => {
                encode_data(*stream, bytes, *fin, out);
                Ok(())
            }
            Frame::SynStream { stream, headers, fin } => {
                // No associated stream, and the highest priority.
                let head = [&stream.to_be_bytes()[..], &[0; 6]].concat();
                self.encode_headers(SYN_STREAM, head, headers, *fin, out)
            }
            Frame::SynReply { stream, headers, fin } => {
                self.encode_headers(SYN_REPLY, stream.to_be_bytes().into(), headers, *fin, out)
            }
            Frame::Headers { stream, headers, fin } => {
                self.encode_headers(HEADERS, stream.to_be_bytes().into(), headers, *fin, out)
            }
            Frame::Reset { stream, status } => encode_numbers(RST_STREAM, &[*stream, *status], out),
            Frame::Ping(id) => encode_numbers(PING, &[*id], out),
            Frame::GoAway { last_stream, status } => encode_numbers(GOAWAY, &[*last_stream, *status], out),
            Frame::Ignored(kind) => encode_control(*kind, false, &[], out),
        }
    }

    /// Encodes a control frame that consists of `body` and compressed headers.
    fn encode_headers(
        &mut self,
        kind: u16,
        mut body: Vec<u8>,
        headers: &Headers,
        fin: bool,
        out: &mut BytesMut,
    ) -> Result<(), SpdyError> {
        body.extend(self.compressor.compress(headers)?);
        encode_control(kind, fin, &body, out)
    }
}

fn encode_data(stream: StreamId, bytes: &[u8], fin: bool, out: &mut BytesMut) {
    let mut left = bytes;
    loop {
        let (chunk, after) = left.split_at(left.len().min(MAX_DATA_LENGTH));
        left = after;
        out.put_u32(stream & !CONTROL_BIT);
        put_flags_and_length(fin && left.is_empty(), chunk.len(), out);
        out.put_slice(chunk);
        if left.is_empty() {
            return;
        }
    }
}

fn encode_numbers(kind: u16, numbers: &[u32], out: &mut BytesMut) -> Result<(), SpdyError> {
    let body: Vec<u8> = numbers.iter().flat_map(|next_u32| next_u32.to_be_bytes()).collect();
    encode_control(kind, false, &body, out)
}

fn encode_control(kind: u16, fin: bool, body: &[u8], out: &mut BytesMut) -> Result<(), SpdyError> {
    if body.len() > MAX_CONTROL_LENGTH {
        return Err(SpdyError::FrameTooLarge(body.len()));
    }
    out.put_u32(CONTROL_BIT | u32::from(VERSION) << 16 | u32::from(kind));
    put_flags_and_length(fin, body.len(), out);
    out.put_slice(body);
    Ok(())
}

fn put_flags_and_length(fin: bool, length: usize, out: &mut BytesMut) {
    let flags = if fin { u32::from(FLAG_FIN) << 24 } else { 0 };
    out.put_u32(flags | u32::try_from(length).unwrap_or_default());
}

#[cfg(test)]
mod tests;
