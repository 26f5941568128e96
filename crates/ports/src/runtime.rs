//! The container runtime, cut into small traits; the CRI client implements all of them.

mod containers;
mod images;
mod lists;
mod sandboxes;
mod service;
mod statistics;
mod streaming;

pub use containers::Containers;
pub use images::Images;
pub use lists::Lists;
pub use sandboxes::Sandboxes;
pub use service::{RuntimeEvents, RuntimeService};
pub use statistics::RuntimeStatisticsSource;
pub use streaming::Streaming;

/// A runtime call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {kind}: {message}")]
pub struct RuntimeError {
    /// Operation as named by the `kubelet_runtime_operations_total` metric, such as `run_podsandbox`.
    pub operation: &'static str,
    /// How the caller should treat it.
    pub kind: RuntimeErrorKind,
    /// The runtime's message.
    pub message: String,
}

/// Kinds of failure that callers treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeErrorKind {
    /// The object does not exist.
    #[error("not found")]
    NotFound,
    /// The runtime cannot be reached: retry later.
    #[error("runtime unavailable")]
    Unavailable,
    /// The deadline passed; the call may still take effect.
    #[error("deadline exceeded")]
    DeadlineExceeded,
    /// The runtime does not implement the call.
    #[error("unimplemented")]
    Unimplemented,
    /// An object of that name exists already.
    #[error("already exists")]
    AlreadyExists,
    /// An earlier call for the same object is still running, for instance one of a killed agent: retry soon.
    #[error("busy")]
    Busy,
    /// The runtime is overloaded: retry later.
    #[error("exhausted")]
    Exhausted,
    /// Everything else: retry with backoff.
    #[error("failed")]
    Failed,
}

impl RuntimeError {
    /// Whether the object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == RuntimeErrorKind::NotFound
    }

    /// The failure as Go's gRPC client prints it, for messages that must match upstream's.
    #[must_use]
    pub fn grpc_text(&self) -> String {
        let code = match self.kind {
            RuntimeErrorKind::NotFound => "NotFound",
            RuntimeErrorKind::Unavailable => "Unavailable",
            RuntimeErrorKind::DeadlineExceeded => "DeadlineExceeded",
            RuntimeErrorKind::Unimplemented => "Unimplemented",
            RuntimeErrorKind::AlreadyExists => "AlreadyExists",
            RuntimeErrorKind::Exhausted => "ResourceExhausted",
            RuntimeErrorKind::Busy | RuntimeErrorKind::Failed => "Unknown",
        };
        format!("rpc error: code = {code} desc = {}", self.message)
    }
}

/// Treats "not found" as success, for removals.
///
/// # Errors
/// Every other failure.
pub fn ignore_not_found(result: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

/// All runtime traits together.
pub trait Runtime:
    Sandboxes + Containers + Lists + Images + RuntimeService + RuntimeStatisticsSource + Streaming
{
}

impl<T: Sandboxes + Containers + Lists + Images + RuntimeService + RuntimeStatisticsSource + Streaming>
    Runtime for T
{
}
