//! `/containerLogs`: what a request asks for, which container's log answers it, and what of the log is shown.
//!
//! Comes in: the query of a request, a pod's status, the bytes of a log file in pieces. Goes out: the options, a
//! container id, the bytes of the answer. The transcript holds no line: its memory does not depend on the log.

mod choice;
mod options;
mod transcript;

pub use choice::choose_container;
pub use options::{LogOptions, LogQueryError, LogStreams};
pub use transcript::{Flow, Transcript};
