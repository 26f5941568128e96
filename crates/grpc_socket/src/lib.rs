//! Server side of gRPC over unix sockets.
//!
//! A [`GrpcListener`] creates the socket and yields connections for `tonic::transport::Server::serve_with_incoming`.
//!
//! Clients may name any `:authority`. gRPC libraries send the path of the socket there, often percent-encoded, which is not
//! a valid authority, and the HTTP/2 library below tonic rejects such a request. [`AuthorityFilter`] replaces invalid
//! authorities in the bytes that a client sends; the name has no meaning on a unix socket.
//!
//! Deliberately not here: authentication (the mode of the socket decides who may connect) and TLS.

mod authority;
mod filtered_stream;
mod listener;

pub use authority::{AuthorityFilter, FilterError};
pub use filtered_stream::FilteredStream;
pub use listener::GrpcListener;
