//! Replaces invalid `:authority` headers in the HTTP/2 frames of a client.
//!
//! Header blocks are compressed with a table that both ends maintain, so a block cannot be edited in place: every block is
//! decoded and encoded again, with separate tables for client and server. All other frames pass unchanged.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use fluke_hpack::{Decoder, Encoder};
use http::uri::Authority;

const PREFACE_LENGTH: usize = 24;
const FRAME_HEADER_LENGTH: usize = 9;
/// The default of SETTINGS_MAX_FRAME_SIZE, which tonic's server does not raise.
const MAX_FRAME: usize = 16 * 1024;
/// Limit of a compressed header block, and of its decoded names and values.
const MAX_HEADERS: usize = 16 * 1024;

const PADDED: u8 = 0x8;
const END_HEADERS: u8 = 0x4;
const END_STREAM: u8 = 0x1;
const PRIORITY: u8 = 0x20;
const TYPE_HEADERS: u8 = 0x1;
const TYPE_CONTINUATION: u8 = 0x9;

/// A connection that the filter cannot continue; the server would end it as well.
#[derive(Debug, PartialEq, Eq)]
pub enum FilterError {
    FrameTooLarge(usize),
    HeadersTooLarge,
    BadPadding,
    /// Another frame within a header block, or a continuation without one.
    BadContinuation,
    BadHeaderBlock,
}

impl fmt::Display for FilterError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrameTooLarge(size) => write!(formatter, "HTTP/2 frame of {size} bytes exceeds the limit"),
            Self::HeadersTooLarge => write!(formatter, "HTTP/2 headers exceed {MAX_HEADERS} bytes"),
            Self::BadPadding => formatter.write_str("HTTP/2 frame with invalid padding"),
            Self::BadContinuation => formatter.write_str("HTTP/2 header block is interrupted"),
            Self::BadHeaderBlock => formatter.write_str("HTTP/2 header block cannot be decoded"),
        }
    }
}

impl std::error::Error for FilterError {}

pub struct AuthorityFilter {
    /// Bytes of the connection preface that have not passed yet.
    preface_left: usize,
    /// Bytes of incomplete frames.
    input: BytesMut,
    /// The header block whose frames are still arriving.
    block: Option<HeaderBlock>,
    decoder: Decoder<'static>,
    encoder: Encoder<'static>,
}

struct HeaderBlock {
    stream: u32,
    /// END_STREAM and PRIORITY of the first frame.
    flags: u8,
    priority: Bytes,
    fragments: BytesMut,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Bytes,
}

impl Default for AuthorityFilter {
    fn default() -> Self {
        Self {
            preface_left: PREFACE_LENGTH,
            input: BytesMut::new(),
            block: None,
            decoder: Decoder::new(),
            encoder: Encoder::new(),
        }
    }
}

impl fmt::Debug for AuthorityFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AuthorityFilter").finish_non_exhaustive()
    }
}

impl AuthorityFilter {
    /// Filters the next bytes of a client, in pieces of any size.
    ///
    /// # Errors
    /// If the bytes are not valid HTTP/2 or exceed a limit. The connection cannot continue then.
    pub fn push(&mut self, mut bytes: &[u8], output: &mut BytesMut) -> Result<(), FilterError> {
        let preface = bytes.split_off(..self.preface_left.min(bytes.len())).unwrap_or_default();
        self.preface_left -= preface.len();
        output.extend_from_slice(preface);
        self.input.extend_from_slice(bytes);
        while let Some(frame) = self.next_frame()? {
            self.filter_frame(&frame, output)?;
        }
        Ok(())
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, FilterError> {
        let mut header = &self.input[..];
        if header.len() < FRAME_HEADER_LENGTH {
            return Ok(None);
        }
        let length = usize::try_from(header.get_uint(3)).unwrap_or(usize::MAX);
        if length > MAX_FRAME {
            return Err(FilterError::FrameTooLarge(length));
        }
        let (kind, flags, stream) = (header.get_u8(), header.get_u8(), header.get_u32());
        if header.len() < length {
            return Ok(None);
        }
        self.input.advance(FRAME_HEADER_LENGTH);
        Ok(Some(Frame { kind, flags, stream, payload: self.input.split_to(length).freeze() }))
    }

    fn filter_frame(&mut self, frame: &Frame, output: &mut BytesMut) -> Result<(), FilterError> {
        let block = match (frame.kind, self.block.take()) {
            (TYPE_HEADERS, None) => HeaderBlock::begin(frame)?,
            (TYPE_CONTINUATION, Some(mut block)) if block.stream == frame.stream => {
                if block.fragments.len() + frame.payload.len() > MAX_HEADERS {
                    return Err(FilterError::HeadersTooLarge);
                }
                block.fragments.extend_from_slice(&frame.payload);
                block
            }
            (TYPE_CONTINUATION, _) | (_, Some(_)) => return Err(FilterError::BadContinuation),
            (_, None) => {
                put_frame(output, frame);
                return Ok(());
            }
        };
        if frame.flags & END_HEADERS == 0 {
            self.block = Some(block);
            return Ok(());
        }
        self.filter_block(block, output)
    }

    fn filter_block(&mut self, block: HeaderBlock, output: &mut BytesMut) -> Result<(), FilterError> {
        let mut headers: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut size = 0;
        let decoded = self.decoder.decode_with_cb(&block.fragments, |name, value| {
            size += name.len() + value.len();
            if size <= MAX_HEADERS {
                let valid = &*name != b":authority" || Authority::try_from(&*value).is_ok();
                let value = if valid { value.into_owned() } else { b"localhost".to_vec() };
                headers.push((name.into_owned(), value));
            }
        });
        decoded.map_err(|_| FilterError::BadHeaderBlock)?;
        if size > MAX_HEADERS {
            return Err(FilterError::HeadersTooLarge);
        }
        let encoded = self.encoder.encode(headers.iter().map(|(name, value)| (&name[..], &value[..])));
        block.put_frames(&encoded, output);
        Ok(())
    }
}

impl HeaderBlock {
    /// Starts a block with its HEADERS frame, without the padding.
    fn begin(frame: &Frame) -> Result<Self, FilterError> {
        let mut payload = frame.payload.clone();
        if frame.flags & PADDED != 0 {
            let padding = usize::from(payload.try_get_u8().map_err(|_| FilterError::BadPadding)?);
            let length = payload.len().checked_sub(padding).ok_or(FilterError::BadPadding)?;
            payload.truncate(length);
        }
        let priority = if frame.flags & PRIORITY == 0 { 0 } else { 5 };
        if payload.len() < priority {
            return Err(FilterError::BadPadding);
        }
        let priority = payload.split_to(priority);
        let flags = frame.flags & (END_STREAM | PRIORITY);
        Ok(Self { stream: frame.stream, flags, priority, fragments: BytesMut::from(&payload[..]) })
    }

    /// Writes an encoded block as one HEADERS frame and as many CONTINUATION frames as it needs.
    fn put_frames(self, encoded: &[u8], output: &mut BytesMut) {
        let first_length = encoded.len().min(MAX_FRAME - self.priority.len());
        let (first, rest) = encoded.split_at(first_length);
        let payload = [&self.priority[..], first].concat();
        let mut frames = vec![(TYPE_HEADERS, self.flags, payload)];
        frames.extend(rest.chunks(MAX_FRAME).map(|chunk| (TYPE_CONTINUATION, 0, chunk.to_vec())));
        let last = frames.len() - 1;
        for (index, (kind, flags, payload)) in frames.into_iter().enumerate() {
            let flags = if index == last { flags | END_HEADERS } else { flags };
            put_frame(output, &Frame { kind, flags, stream: self.stream, payload: payload.into() });
        }
    }
}

fn put_frame(output: &mut BytesMut, frame: &Frame) {
    output.put_uint(frame.payload.len() as u64, 3);
    output.put_u8(frame.kind);
    output.put_u8(frame.flags);
    output.put_u32(frame.stream);
    output.put_slice(&frame.payload);
}

#[cfg(test)]
mod tests;
