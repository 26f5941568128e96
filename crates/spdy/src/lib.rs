//! SPDY/3.1 as the streaming servers of container runtimes speak it.
//!
//! Comes in: the bytes of an upgraded connection. Goes out: frames ([`Frame`]) with their header blocks unpacked, and
//! the other way round. [`FrameReader`] and [`FrameWriter`] put them on a connection.
//!
//! Invariants: every buffer has a limit (a control frame, an unpacked header block), and the data of a frame is handed
//! on in the pieces it arrives in, so that memory does not depend on what the peer sends.
//!
//! It deliberately has no flow control: the streaming servers have none, and the connection's own holds both sides.

mod connection;
mod dictionary;
mod frame;
mod header_block;

pub use connection::{FrameReader, FrameWriter};
pub use frame::{Decoder, Encoder, Frame, StreamId};
pub use header_block::Headers;

/// What a peer did wrong.
#[derive(Debug, thiserror::Error)]
pub enum SpdyError {
    /// The connection failed.
    #[error("SPDY connection")]
    Connection(#[from] std::io::Error),
    /// A control frame is larger than any that is needed.
    #[error("SPDY control frame of {0} bytes")]
    FrameTooLarge(usize),
    /// A control frame of another version.
    #[error("SPDY version {0}, not 3")]
    Version(u16),
    /// A control frame without the fields of its type.
    #[error("SPDY control frame of type {0} is too short")]
    ShortFrame(u16),
    /// A header block that cannot be unpacked.
    #[error("SPDY header block: {0}")]
    HeaderBlock(&'static str),
}
