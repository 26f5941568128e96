//! The container runtime, cut into small traits; the CRI client implements all of them.

mod containers;
mod figures;
mod images;
mod lists;
mod sandboxes;
mod service;
mod streaming;

pub use containers::Containers;
pub use figures::RuntimeFigures;
pub use images::Images;
pub use lists::Lists;
pub use sandboxes::Sandboxes;
pub use service::{RuntimeEvents, RuntimeService};
pub use streaming::Streaming;

/// A runtime call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {kind}: {message}")]
pub struct RuntimeError {
    /// Operation in the words of the `kubelet_runtime_operations_total` metric, such as `run_podsandbox`.
    pub operation: &'static str,
    /// What kind of failure it is.
    pub kind: RuntimeErrorKind,
    /// The runtime's words.
    pub message: String,
}

/// Kinds of failure that callers treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeErrorKind {
    /// The object does not exist (any more).
    #[error("not found")]
    NotFound,
    /// The runtime cannot be reached: retry when it is back.
    #[error("runtime unavailable")]
    Unavailable,
    /// The deadline passed; the call may still take effect.
    #[error("deadline exceeded")]
    DeadlineExceeded,
    /// The runtime does not know the call.
    #[error("unimplemented")]
    Unimplemented,
    /// An object of that name exists already.
    #[error("already exists")]
    AlreadyExists,
    /// The runtime is still at work on an earlier call about the same object, such as one that a killed agent
    /// left behind: retry soon.
    #[error("busy")]
    Busy,
    /// The runtime has too much to do: retry later.
    #[error("exhausted")]
    Exhausted,
    /// Everything else: retry with back-off.
    #[error("failed")]
    Failed,
}

impl RuntimeError {
    /// Whether the object is gone.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == RuntimeErrorKind::NotFound
    }

    /// The failure as a gRPC client in Go writes it, for texts that users and programs know so.
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

/// Turns "not found" into success: removing what is gone already has happened.
///
/// # Errors
/// Every other failure is passed on.
pub fn ignore_not_found(result: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

/// The whole runtime, for those who need more than one part of it.
pub trait Runtime:
    Sandboxes + Containers + Lists + Images + RuntimeService + RuntimeFigures + Streaming
{
}

impl<T: Sandboxes + Containers + Lists + Images + RuntimeService + RuntimeFigures + Streaming> Runtime for T {}
