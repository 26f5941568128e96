//! `/exec`, `/attach`, `/portForward`: what a request asks for, and the messages of its WebSocket.
//!
//! Comes in: decoded queries, headers of an upgrade, messages. Goes out: choices and what a message means.

mod channels;
mod options;
mod upgrade;

pub use channels::{Channel, ChannelMessage, to_client};
pub use options::{forwarded_ports, wanted_streams};
pub use upgrade::{STREAM_CLOSE_PROTOCOL, TUNNEL_PREFIX, Upgrade};
