//! Errors of the services, and the gRPC codes that clients read.
//!
//! Kubelets distinguish NotFound, DeadlineExceeded and Unimplemented; for everything else they show the message, and only that of
//! Unknown without a prefix.

use std::error::Error;

use thiserror::Error;
use tonic::Status;

use crate::cgroups::CgroupError;
use crate::images::StoreError;
use crate::keeper::client::KeeperClientError;
use crate::records::RecordError;

/// Why a request fails.
#[derive(Debug, Error)]
pub enum ServiceError {
    #[error("{kind} {id:?} not found")]
    NotFound { kind: &'static str, id: String },
    #[error("{kind} id {prefix:?} is ambiguous")]
    Ambiguous { kind: &'static str, prefix: String },
    #[error("the request has no {0}")]
    Missing(&'static str),
    /// A setting of the request that is wrong, or that this runtime cannot enforce.
    #[error("{field}: {problem}")]
    Setting { field: &'static str, problem: String },
    /// The object is not in the state that the request needs.
    #[error("{0}")]
    State(String),
    #[error("{kind} name {name:?} is reserved for {id:?}")]
    NameInUse { kind: &'static str, name: String, id: String },
    #[error("image {0:?} not found")]
    NoImage(String),
    #[error("{0}")]
    Timeout(String),
    #[error("{0}")]
    Unsupported(&'static str),
    #[error("{operation}")]
    Io { operation: String, source: std::io::Error },
    #[error("{operation}")]
    Network { operation: &'static str, source: Box<dyn Error + Send + Sync> },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Keeper(#[from] KeeperClientError),
    #[error(transparent)]
    Start(#[from] crate::keeper::KeeperError),
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a thread of the runtime panicked")]
    Panicked,
}

impl ServiceError {
    pub(crate) fn io(operation: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { operation: operation.into(), source: source.into() }
    }

    pub(crate) fn setting(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Setting { field, problem: problem.into() }
    }
}

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        let text = describe(&error);
        match error {
            ServiceError::NotFound { .. } => Self::not_found(text),
            ServiceError::Missing(_) => Self::invalid_argument(text),
            ServiceError::Timeout(_) => Self::deadline_exceeded(text),
            ServiceError::Unsupported(_) => Self::unimplemented(text),
            _ => Self::unknown(text),
        }
    }
}

/// The error with its causes.
pub(crate) fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn codes_are_those_that_kubelets_read() {
        let code = |error: ServiceError| Status::from(error).code();
        assert_eq!(code(ServiceError::NotFound { kind: "container", id: "a".into() }), Code::NotFound);
        assert_eq!(code(ServiceError::Ambiguous { kind: "container", prefix: "a".into() }), Code::Unknown);
        assert_eq!(code(ServiceError::Missing("metadata")), Code::InvalidArgument);
        assert_eq!(code(ServiceError::Timeout("late".into())), Code::DeadlineExceeded);
        assert_eq!(code(ServiceError::Unsupported("no")), Code::Unimplemented);
        assert_eq!(code(ServiceError::setting("seccomp", "no")), Code::Unknown);
    }

    #[test]
    fn message_contains_all_causes() {
        let error = ServiceError::io("make folder", std::io::Error::other("disk full"));
        assert_eq!(Status::from(error).message(), "make folder: disk full");
    }
}
