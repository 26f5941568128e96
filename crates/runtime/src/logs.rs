//! Log files of containers in the CRI format: `<time> <stream> <P or F> <content>`.

mod file;
mod lines;

pub use file::{LogError, LogFile, Stream};
pub use lines::{LineSplitter, MAX_LINE_BYTES, Piece};
