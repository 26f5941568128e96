//! Options of `/exec`, `/attach` and `/portForward`, and the messages of their WebSockets.

mod channels;
mod options;
mod upgrade;

pub use channels::{Channel, ChannelMessage, to_client};
pub use options::{forwarded_ports, requested_streams};
pub use upgrade::{STREAM_CLOSE_PROTOCOL, TUNNEL_PREFIX, Upgrade};
