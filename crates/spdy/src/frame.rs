//! Frames and their bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::SpdyError;
use crate::header_block::{Headers, Packer, Unpacker};

/// A stream of a connection: odd for those that the client opened.
pub type StreamId = u32;

const VERSION: u16 = 3;
const HEAD: usize = 8;
/// The largest control frame that is read.
const LARGEST_CONTROL: usize = 64 * 1024;
/// The largest data frame that can be written.
const LARGEST_DATA: usize = (1 << 24) - 1;
const CONTROL: u32 = 1 << 31;
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// One frame, or a piece of one with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes of a stream; `fin` with the last ones.
    Data {
        /// Whose.
        stream: StreamId,
        /// The bytes.
        bytes: Bytes,
        /// Whether the sender is done with the stream.
        fin: bool,
    },
    /// Opens a stream.
    SynStream {
        /// Which.
        stream: StreamId,
        /// Its headers.
        headers: Headers,
        /// Whether the sender will send no data.
        fin: bool,
    },
    /// Accepts a stream.
    SynReply {
        /// Which.
        stream: StreamId,
        /// Its headers.
        headers: Headers,
        /// Whether the sender will send no data.
        fin: bool,
    },
    /// Ends a stream both ways.
    Reset {
        /// Which.
        stream: StreamId,
        /// Why.
        status: u32,
    },
    /// A sign of life, to be sent back.
    Ping(u32),
    /// The sender takes no more streams.
    GoAway {
        /// The last one it took.
        last: StreamId,
        /// Why.
        status: u32,
    },
    /// More headers of a stream.
    MoreHeaders {
        /// Which.
        stream: StreamId,
        /// The headers.
        headers: Headers,
        /// Whether the sender is done with the stream.
        fin: bool,
    },
    /// A control frame that changes nothing for us (settings, windows, types to come).
    Ignored(u16),
}

/// Reads the frames of one connection. Header blocks build on each other, so it must see all of them in order.
#[derive(Default)]
pub struct Decoder {
    unpacker: Unpacker,
    /// The data frame whose bytes come next.
    data: Option<OpenData>,
}

#[derive(Clone, Copy)]
struct OpenData {
    stream: StreamId,
    left: usize,
    fin: bool,
}

impl Decoder {
    /// Takes the next frame, or piece of one, from what has arrived; `None` until more does.
    ///
    /// # Errors
    /// When the peer breaks the protocol: nothing after that can be understood.
    pub fn decode(&mut self, arrived: &mut BytesMut) -> Result<Option<Frame>, SpdyError> {
        loop {
            if let Some(open) = self.data {
                return Ok(self.take_data(open, arrived));
            }
            let Some(head) = arrived.first_chunk::<HEAD>() else { return Ok(None) };
            let (mut words, mut rest) = (&head[..4], &head[4..]);
            let (first, second) = (words.get_u32(), rest.get_u32());
            let flags = u8::try_from(second >> 24).unwrap_or_default();
            let length = usize::try_from(second & 0x00ff_ffff).unwrap_or(usize::MAX);
            if first & CONTROL != 0 {
                return self.take_control(first, flags, length, arrived);
            }
            arrived.advance(HEAD);
            self.data = Some(OpenData { stream: first, left: length, fin: flags & FIN != 0 });
        }
    }

    fn take_data(&mut self, open: OpenData, arrived: &mut BytesMut) -> Option<Frame> {
        if arrived.is_empty() && open.left > 0 {
            return None;
        }
        let bytes = arrived.split_to(open.left.min(arrived.len())).freeze();
        let left = open.left - bytes.len();
        self.data = (left > 0).then_some(OpenData { left, ..open });
        Some(Frame::Data { stream: open.stream, bytes, fin: open.fin && left == 0 })
    }

    fn take_control(
        &mut self,
        first: u32,
        flags: u8,
        length: usize,
        arrived: &mut BytesMut,
    ) -> Result<Option<Frame>, SpdyError> {
        let version = u16::try_from((first & !CONTROL) >> 16).unwrap_or_default();
        let kind = u16::try_from(first & 0xffff).unwrap_or_default();
        if version != VERSION {
            return Err(SpdyError::Version(version));
        }
        if length > LARGEST_CONTROL {
            return Err(SpdyError::FrameTooLarge(length));
        }
        if arrived.len() < HEAD + length {
            return Ok(None);
        }
        arrived.advance(HEAD);
        let mut body = arrived.split_to(length).freeze();
        self.read_control(kind, flags & FIN != 0, &mut body).map(Some)
    }

    fn read_control(&mut self, kind: u16, fin: bool, body: &mut Bytes) -> Result<Frame, SpdyError> {
        let short = |_| SpdyError::ShortFrame(kind);
        let mut number = || body.try_get_u32().map_err(short);
        Ok(match kind {
            SYN_STREAM => {
                let stream = number()? & !CONTROL;
                let (_associated, _priority) = (number()?, body.try_get_u16().map_err(short)?);
                Frame::SynStream { stream, headers: self.unpacker.unpack(body)?, fin }
            }
            SYN_REPLY => {
                let stream = number()? & !CONTROL;
                Frame::SynReply { stream, headers: self.unpacker.unpack(body)?, fin }
            }
            RST_STREAM => Frame::Reset { stream: number()? & !CONTROL, status: number()? },
            PING => Frame::Ping(number()?),
            GOAWAY => Frame::GoAway { last: number()? & !CONTROL, status: number()? },
            HEADERS => {
                let stream = number()? & !CONTROL;
                Frame::MoreHeaders { stream, headers: self.unpacker.unpack(body)?, fin }
            }
            other => Frame::Ignored(other),
        })
    }
}

/// Writes the frames of one connection.
#[derive(Default)]
pub struct Encoder {
    packer: Packer,
}

impl Encoder {
    /// Appends the bytes of a frame. Data beyond the size of a frame is cut into several.
    ///
    /// # Errors
    /// When headers are too large for a frame.
    pub fn encode(&mut self, frame: &Frame, out: &mut BytesMut) -> Result<(), SpdyError> {
        match frame {
            Frame::Data { stream, bytes, fin } => encode_data(*stream, bytes, *fin, out),
            Frame::SynStream { stream, headers, fin } => {
                let mut body = BytesMut::new();
                body.put_u32(*stream);
                body.put_u32(0);
                body.put_u16(0);
                body.put_slice(&self.packer.pack(headers)?);
                return control(SYN_STREAM, *fin, &body, out);
            }
            Frame::SynReply { stream, headers, fin } => {
                return self.with_headers(SYN_REPLY, *stream, headers, *fin, out);
            }
            Frame::MoreHeaders { stream, headers, fin } => {
                return self.with_headers(HEADERS, *stream, headers, *fin, out);
            }
            Frame::Reset { stream, status } => return numbers(RST_STREAM, &[*stream, *status], out),
            Frame::Ping(id) => return numbers(PING, &[*id], out),
            Frame::GoAway { last, status } => return numbers(GOAWAY, &[*last, *status], out),
            Frame::Ignored(kind) => return control(*kind, false, &[], out),
        }
        Ok(())
    }

    fn with_headers(
        &mut self,
        kind: u16,
        stream: StreamId,
        headers: &Headers,
        fin: bool,
        out: &mut BytesMut,
    ) -> Result<(), SpdyError> {
        let mut body = BytesMut::new();
        body.put_u32(stream);
        body.put_slice(&self.packer.pack(headers)?);
        control(kind, fin, &body, out)
    }
}

fn encode_data(stream: StreamId, bytes: &[u8], fin: bool, out: &mut BytesMut) {
    let mut left = bytes;
    loop {
        let (piece, after) = left.split_at(left.len().min(LARGEST_DATA));
        left = after;
        out.put_u32(stream & !CONTROL);
        put_length(fin && left.is_empty(), piece.len(), out);
        out.put_slice(piece);
        if left.is_empty() {
            return;
        }
    }
}

fn numbers(kind: u16, numbers: &[u32], out: &mut BytesMut) -> Result<(), SpdyError> {
    let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    control(kind, false, &body, out)
}

fn control(kind: u16, fin: bool, body: &[u8], out: &mut BytesMut) -> Result<(), SpdyError> {
    if body.len() > LARGEST_CONTROL {
        return Err(SpdyError::FrameTooLarge(body.len()));
    }
    out.put_u32(CONTROL | u32::from(VERSION) << 16 | u32::from(kind));
    put_length(fin, body.len(), out);
    out.put_slice(body);
    Ok(())
}

fn put_length(fin: bool, length: usize, out: &mut BytesMut) {
    let flags = if fin { u32::from(FIN) << 24 } else { 0 };
    out.put_u32(flags | u32::try_from(length).unwrap_or_default());
}

#[cfg(test)]
mod tests;
