//! How requests reach the API server: in lanes that do not wait for each other more than they must.
//!
//! `lane` is the service under each client: its turn at the rate limit (`turnstile`, `token_bucket`), a deadline, and
//! the server's wish to be asked later. `connections` holds the connections below, `dial` makes them, `answer` is the
//! body that comes back.

mod answer;
mod connections;
mod dial;
mod lane;
mod token_bucket;
mod turnstile;

pub(crate) use connections::Connections;
pub(crate) use dial::{DialError, Dialer, Names};
pub(crate) use lane::{Lane, Patience};
pub use token_bucket::Rate;
pub(crate) use turnstile::{Priority, Turnstile};

#[cfg(test)]
mod tests;
