//! Netlink: requests to the kernel, and their answers.
//!
//! Only what pod networks need, with bounded reads and without unsafe decoding. `docs/adr/0013` has the reason for not using
//! a crate.

mod attributes;
mod message;
mod socket;

#[cfg(test)]
use attributes::Attributes;
pub(super) use attributes::find;
pub(super) use message::Message;
pub(super) use socket::{NetlinkError, NetlinkProtocol, NetlinkSocket, Received};
