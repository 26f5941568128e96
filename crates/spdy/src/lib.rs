//! The part of SPDY/3.1 that the streaming servers of container runtimes use.
//!
//! [`Decoder`] and [`Encoder`] convert between bytes and [`Frame`]s with decompressed headers. [`FrameReader`] and
//! [`FrameWriter`] do that on an upgraded connection.
//!
//! Invariants: control frames and decompressed header blocks have a size limit, and the data of a frame is delivered in
//! chunks as it arrives, so that a peer cannot make the process allocate unbounded memory.
//!
//! There is deliberately no SPDY flow control: the streaming servers do not use it, and TCP provides backpressure.

mod connection;
mod dictionary;
mod frame;
mod header_block;

pub use connection::{FrameReader, FrameWriter};
pub use frame::{Decoder, Encoder, Frame, StreamId};
pub use header_block::Headers;

/// The connection failed or the peer violated the protocol.
#[derive(Debug, thiserror::Error)]
pub enum SpdyError {
    #[error("SPDY connection")]
    Connection(#[from] std::io::Error),
    #[error("SPDY control frame of {0} bytes exceeds the limit")]
    FrameTooLarge(usize),
    #[error("SPDY version {0}, not 3")]
    Version(u16),
    #[error("SPDY control frame of type {0} is too short")]
    ShortFrame(u16),
    #[error("SPDY header block: {0}")]
    HeaderBlock(&'static str),
}
