//! The API server of the cluster, in small parts: one file per kind of object.
//!
//! A watch never ends: the adapter reconnects, resumes and lists again by itself. Calls are tried once; the caller
//! decides by [`ApiErrorKind`] whether and when to try again.

pub mod access_reviews;
pub mod csi_nodes;
pub mod events;
pub mod leases;
pub mod nodes;
pub mod objects;
pub mod pod_certificates;
pub mod pods;
pub mod runtime_classes;
pub mod service_accounts;
pub mod services;
pub mod token_reviews;
pub mod tokens;
pub mod trust_bundles;
pub mod volumes;

use std::time::Duration;

use futures::stream::BoxStream;

/// What a watch tells. Never ends, so there is no end to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Feed<T> {
    /// The whole set, at the start and whenever the watch had to begin anew.
    Listed(Vec<T>),
    /// An object is new or changed.
    Applied(T),
    /// An object is gone; its last form.
    Deleted(T),
    /// The server could not be asked or refused; the watch goes on after a pause.
    Failed(ApiError),
}

/// A watch under way.
pub type FeedStream<T> = BoxStream<'static, Feed<T>>;

/// A request that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// What it means for the caller.
    pub kind: ApiErrorKind,
    /// The server's words, or what became of the connection.
    pub message: String,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// How a failed request is to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiErrorKind {
    /// There is no such object.
    NotFound,
    /// It exists already.
    AlreadyExists,
    /// It changed meanwhile, or a precondition does not hold.
    Conflict,
    /// We are known, but may not.
    Forbidden,
    /// We are not known.
    Unauthorized,
    /// The object is refused for what it says; trying again is of no use.
    Invalid,
    /// What was asked for is too old; list again.
    Gone,
    /// Too many requests.
    Throttled,
    /// The server is in trouble.
    Server,
    /// The server was not reached, or the connection broke.
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
