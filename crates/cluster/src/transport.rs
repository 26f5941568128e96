//! HTTP transport of the API clients.
//!
//! `request_service` is the tower service below each client: rate limit (`priority_rate_limiter`, `rate_limit`),
//! timeouts and `Retry-After`. `connections` pools the connections, `dial` opens them, and `response_body` limits the
//! duration and size of responses.

mod connections;
mod dial;
mod priority_rate_limiter;
mod rate_limit;
mod request_service;
mod response_body;

pub(crate) use connections::Connections;
pub(crate) use dial::{DialError, Dialer, ServerOverrides};
pub(crate) use priority_rate_limiter::{Priority, PriorityRateLimiter};
pub use rate_limit::RateLimit;
pub(crate) use request_service::{RequestService, RequestTimeouts};

#[cfg(test)]
mod tests;
