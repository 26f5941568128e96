//! The streaming server: exec, attach and port-forward over WebSocket and SPDY/3.1.
//!
//! ```text
//!  CRI Exec, Attach, PortForward ─► one-time URL ─► client ─► upgrade ─┬─ SPDY/3.1 ───┐
//!                                                                      └─ WebSocket ──┴─► session ◄─► StreamBackend
//! ```
//!
//! Input: requests that the CRI layer has checked, and connections of clients. Output: processes and connections of the
//! [`StreamBackend`], whose descriptors the server copies.
//!
//! Invariants: a URL works once and for one minute. A session buffers a few chunks of data: if one side does not read, the other side
//! waits. A client that leaves ends the process that it has executed, with everything that this process started.

mod backend;
mod channels;
mod client;
mod copying;
mod descriptors;
mod dial;
mod dispatch;
mod handshake;
mod port_forward;
mod resize;
mod server;
mod session;
mod spdy_connection;
mod spdy_process;
mod status;
mod stream_pairs;
mod tokens;
mod tunnel;
mod websocket;

pub use backend::{AttachedProcess, ExecProcess, ProcessStreams, StreamBackend, StreamError, StreamOptions};
pub use descriptors::{ConsoleSocket, attach_pipes, exec_pipes};
pub use dial::connect_in_namespace;
pub use server::{StreamTimeouts, StreamingServer};
pub use tokens::{AttachRequest, ExecRequest, PortForwardRequest, TooManyRequests};
