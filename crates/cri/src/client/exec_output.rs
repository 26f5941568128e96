//! Cuts the output of a command while the response arrives.
//!
//! A command in a container decides how much it prints, and runtimes return up to 16 MiB in one message. The agent shows
//! only the beginning, so that the rest is dropped before it is collected.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http_body::{Body, Frame};
use prost::Message;
use prost::bytes::{BufMut, Bytes, BytesMut};
use tonic::Status;
use tonic::codegen::{Service, http};
use tonic::transport::Error;

use crate::faults::Transport;
use crate::v1::ExecSyncResponse;

/// How much of each output stream is kept.
pub(crate) const MAX_OUTPUT_BYTES: usize = 10 * 1024;

/// A channel for `ExecSync` only.
pub(super) struct ExecChannel(pub(super) Transport);

impl Service<http::Request<tonic::body::Body>> for ExecChannel {
    type Response = http::Response<CutBody>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Service::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Service::call(&mut self.0, request).map_ok(|response| response.map(CutBody::new)).boxed()
    }
}

/// The body of a response with one `ExecSyncResponse`, whose outputs are cut.
pub(super) struct CutBody {
    body: tonic::body::Body,
    cutter: Cutter,
    /// The frame after the last data, with the status of the call.
    last: Option<Frame<Bytes>>,
    is_complete: bool,
}

impl CutBody {
    fn new(body: tonic::body::Body) -> Self {
        Self { body, cutter: Cutter::default(), last: None, is_complete: false }
    }
}

impl Body for CutBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        while !this.is_complete {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => Some(frame),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => None,
            };
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => {
                    if let Err(status) = this.cutter.feed(&data) {
                        return Poll::Ready(Some(Err(status)));
                    }
                }
                Some(Err(trailers)) => (this.last, this.is_complete) = (Some(trailers), true),
                None => this.is_complete = true,
            }
            if let Some(message) = this.is_complete.then(|| this.cutter.take_message()).flatten() {
                return Poll::Ready(Some(Ok(Frame::data(message))));
            }
        }
        Poll::Ready(this.last.take().map(Ok))
    }
}

/// Decodes the bytes of a gRPC message one after another.
#[derive(Default)]
struct Cutter {
    position: Position,
    message: ExecSyncResponse,
    has_message: bool,
}

#[derive(Clone, Copy)]
enum Position {
    /// In the prefix of the message: a flag and four bytes of length.
    Prefix { seen: u8 },
    /// In the number of a field.
    Key(Number),
    /// In a number that is the value of a field.
    Value { field: u64, number: Number },
    /// In the length of a field.
    Length { field: u64, number: Number },
    /// In the bytes of a field.
    Content { field: u64, left: u64 },
}

/// A number of which some bytes have arrived.
#[derive(Clone, Copy, Default)]
struct Number {
    value: u64,
    bits: u32,
}

impl Default for Position {
    fn default() -> Self {
        Self::Prefix { seen: 0 }
    }
}

const PREFIX_BYTES: u8 = 5;
const STDOUT: u64 = 1;
const STDERR: u64 = 2;
const EXIT_CODE: u64 = 3;

impl Cutter {
    fn feed(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while let Some((&byte, rest)) = data.split_first() {
            self.position = match self.position {
                Position::Content { field, left } => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
                    let (content, rest) = data.split_at(length);
                    self.keep(field, content);
                    data = rest;
                    content_position(field, left.saturating_sub(u64::try_from(length).unwrap_or(u64::MAX)))
                }
                position => {
                    data = rest;
                    self.step(position, byte)?
                }
            };
        }
        Ok(())
    }

    fn step(&mut self, position: Position, byte: u8) -> Result<Position, Status> {
        Ok(match position {
            Position::Prefix { seen: 0 } if byte != 0 => return Err(malformed()),
            Position::Prefix { seen } if seen + 1 < PREFIX_BYTES => Position::Prefix { seen: seen + 1 },
            Position::Prefix { .. } => {
                self.has_message = true;
                Position::Key(Number::default())
            }
            Position::Key(number) => match number.with(byte)? {
                Ok(key) => value_position(key)?,
                Err(number) => Position::Key(number),
            },
            Position::Value { field, number } => match number.with(byte)? {
                Ok(value) => {
                    if field == EXIT_CODE {
                        // Negative numbers are extended to 64 bits.
                        self.message.exit_code = i32::from_le_bytes(low_bytes(value));
                    }
                    Position::Key(Number::default())
                }
                Err(number) => Position::Value { field, number },
            },
            Position::Length { field, number } => match number.with(byte)? {
                Ok(length) => content_position(field, length),
                Err(number) => Position::Length { field, number },
            },
            Position::Content { .. } => return Err(malformed()),
        })
    }

    fn keep(&mut self, field: u64, content: &[u8]) {
        let output = match field {
            STDOUT => &mut self.message.stdout,
            STDERR => &mut self.message.stderr,
            _ => return,
        };
        let room = MAX_OUTPUT_BYTES.saturating_sub(output.len());
        output.extend_from_slice(content.get(..room).unwrap_or(content));
    }

    /// The message with its prefix; `None` if there was none.
    fn take_message(&mut self) -> Option<Bytes> {
        if !std::mem::take(&mut self.has_message) {
            return None;
        }
        let message = std::mem::take(&mut self.message);
        let mut bytes = BytesMut::new();
        bytes.put_u8(0);
        bytes.put_u32(u32::try_from(message.encoded_len()).ok()?);
        message.encode(&mut bytes).ok()?;
        Some(bytes.freeze())
    }
}

impl Number {
    /// Adds a byte. Returns the value after the last byte, otherwise the number so far.
    fn with(self, byte: u8) -> Result<Result<u64, Self>, Status> {
        if self.bits >= u64::BITS {
            return Err(malformed());
        }
        let value = self.value | u64::from(byte & 0x7f) << self.bits;
        Ok(if byte & 0x80 == 0 { Ok(value) } else { Err(Self { value, bits: self.bits + 7 }) })
    }
}

fn value_position(key: u64) -> Result<Position, Status> {
    let (field, number) = (key >> 3, Number::default());
    match key & 7 {
        0 => Ok(Position::Value { field, number }),
        1 => Ok(Position::Content { field: 0, left: 8 }),
        2 => Ok(Position::Length { field, number }),
        5 => Ok(Position::Content { field: 0, left: 4 }),
        _ => Err(malformed()),
    }
}

fn content_position(field: u64, left: u64) -> Position {
    if left == 0 { Position::Key(Number::default()) } else { Position::Content { field, left } }
}

fn low_bytes(value: u64) -> [u8; 4] {
    let [first, second, third, fourth, ..] = value.to_le_bytes();
    [first, second, third, fourth]
}

fn malformed() -> Status {
    Status::internal("malformed response of the runtime")
}

#[cfg(test)]
mod tests;
