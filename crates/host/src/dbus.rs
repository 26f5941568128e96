//! As much of D-Bus as the agent needs: calls to systemd and logind, their answers with file descriptors, and signals.
//!
//! Written by hand because that is little: a library would bring an executor, macros and a type system for the wire, and
//! the agent makes six different calls.

mod address;
mod connection;
mod read;
mod write;

pub(crate) use address::socket;
pub(crate) use connection::Connection;
pub(crate) use read::{Kind, Message, rest_of};
pub(crate) use write::{Call, Writer};

/// The longest message that is read.
pub(crate) const MOST_BYTES: usize = 1 << 20;

/// The line by which we say who we are: the number of our user, in hexadecimal digits of its decimal ones.
pub(crate) fn greeting() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let hex: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("\0AUTH EXTERNAL {hex}\r\n")
}
