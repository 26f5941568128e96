//! A minimal D-Bus client: method calls, replies with file descriptors, and signals.
//!
//! Hand-written because the agent makes six different calls; a library would add an executor, macros and a type
//! system.

mod address;
mod connection;
mod read;
mod write;

pub(crate) use address::socket;
pub(crate) use connection::Connection;
pub(crate) use read::{Cursor, Kind, Message, remaining_bytes};
pub(crate) use write::{Call, Writer};

pub(crate) const MAX_BYTES: usize = 1 << 20;

/// The SASL line that authenticates this process by its user ID.
pub(crate) fn auth_line() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let hex: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("\0AUTH EXTERNAL {hex}\r\n")
}
