//! Errors of registries, with texts for the events of a pod.

use super::super::store::StoreError;
use super::{HostsError, InvalidCredentials};

type Source = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("{image}: not found")]
    NotFound { image: String },
    #[error(
        "pull access denied for {image}, repository does not exist or may require authorization: authorization failed: {message}"
    )]
    Denied { image: String, message: String },
    /// Kubelets recognise the first word.
    #[error("RegistryUnavailable: failed to reach {url}")]
    Unreachable { url: String, source: Source },
    #[error("RegistryUnavailable: {url} returned {status}: {message}")]
    ServerError { url: String, status: u16, message: String },
    #[error("{url} returned {status}: {message}")]
    Status { url: String, status: u16, message: String },
    #[error("{url} made no progress for {seconds} s")]
    Stalled { url: String, seconds: u64 },
    #[error("invalid response of {url}: {problem}")]
    Protocol { url: String, problem: String },
    #[error("no registry or mirror of {image} may be used for this request")]
    NoEndpoint { image: String },
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error(transparent)]
    Credentials(#[from] InvalidCredentials),
    #[error("failed to set up TLS for {base}: {problem}")]
    Tls { base: String, problem: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RegistryError {
    /// The error to report of several endpoints: the most telling has the highest rank.
    pub(super) fn rank(&self) -> u32 {
        match self {
            Self::Store(_) | Self::Credentials(_) | Self::Hosts(_) | Self::Tls { .. } => 6,
            Self::Protocol { .. } => 5,
            Self::Denied { .. } | Self::Status { .. } | Self::ServerError { .. } => 4,
            Self::NotFound { .. } => 3,
            Self::Stalled { .. } => 2,
            Self::Unreachable { .. } => 1,
            Self::NoEndpoint { .. } => 0,
        }
    }

    /// Whether the same request may succeed a moment later.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Stalled { .. } | Self::ServerError { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429),
            Self::NotFound { .. }
            | Self::Denied { .. }
            | Self::Protocol { .. }
            | Self::NoEndpoint { .. }
            | Self::Hosts(_)
            | Self::Credentials(_)
            | Self::Tls { .. }
            | Self::Store(_) => false,
        }
    }
}
