//! `/containerLogs`: options of a request, the container whose log is shown, and the conversion of its log file.
//!
//! The conversion works on pieces of the file and buffers no line, so that its memory does not depend on the log.

mod choice;
mod options;
mod transcript;

pub use choice::choose_container;
pub use options::{LogOptions, LogQueryError, LogStreams};
pub use transcript::{Flow, Transcript};
