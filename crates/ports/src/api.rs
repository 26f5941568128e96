//! The API server, one file per kind of object.
//!
//! A watch never ends: the adapter reconnects, resumes and relists. Calls are tried once; the caller decides by
//! [`ApiErrorKind`] whether and when to retry.

pub mod access_reviews;
pub mod csi_nodes;
pub mod events;
pub mod leases;
pub mod nodes;
pub mod objects;
pub mod pod_certificates;
pub mod pods;
pub mod resource_claims;
pub mod runtime_classes;
pub mod service_accounts;
pub mod services;
pub mod token_reviews;
pub mod tokens;
pub mod trust_bundles;
pub mod volumes;

use std::time::Duration;

use futures::stream::BoxStream;

/// An item of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum Feed<T> {
    /// The complete set, at the start and after every relist.
    Listed(Vec<T>),
    /// An object is new or changed.
    Applied(T),
    /// An object was deleted; its last state.
    Deleted(T),
    /// A list or watch failed; the watch retries with backoff.
    Failed(ApiError),
}

/// The items of a watch. It never ends.
pub type FeedStream<T> = BoxStream<'static, Feed<T>>;

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// How the caller should treat it.
    pub kind: ApiErrorKind,
    /// The server's message, or the connection error.
    pub message: String,
    /// The server's `Retry-After`.
    pub retry_after: Option<Duration>,
}

/// Kinds of failure that callers treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiErrorKind {
    /// The object does not exist.
    NotFound,
    /// The object already exists.
    AlreadyExists,
    /// The object changed since it was read, or a precondition does not hold.
    Conflict,
    /// The server knows the client, but does not allow the request.
    Forbidden,
    /// The server does not know the client.
    Unauthorized,
    /// The server rejects the content of the request; a retry is pointless.
    Invalid,
    /// The requested version is too old; relist.
    Gone,
    /// Too many requests.
    Throttled,
    /// The server failed (5xx).
    Server,
    /// The server could not be reached, or the connection broke.
    Unreachable,
}

impl ApiError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ApiErrorKind::Throttled
            | ApiErrorKind::Server
            | ApiErrorKind::Unreachable
            | ApiErrorKind::Unauthorized => true,
            ApiErrorKind::NotFound
            | ApiErrorKind::AlreadyExists
            | ApiErrorKind::Conflict
            | ApiErrorKind::Forbidden
            | ApiErrorKind::Invalid
            | ApiErrorKind::Gone => false,
        }
    }
}
