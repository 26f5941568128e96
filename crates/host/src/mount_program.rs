//! The host's `mount`, which knows the helpers of file systems that have some.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use ports::pod_volumes::VolumeError;

use crate::helper;

/// Runs it to its end; the failure has the words that users know.
pub(crate) fn run(program: &OsStr, arguments: &[OsString], deadline: Duration) -> Result<(), VolumeError> {
    let ended = helper::run(program, arguments, deadline);
    let Some(failure) = ended.failure else { return Ok(()) };
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    Err(VolumeError::Refused(format!(
        "mount failed: {failure}\nMounting command: {}\nMounting arguments: {}\nOutput: {}",
        program.to_string_lossy(),
        words.join(" "),
        ended.output
    )))
}
