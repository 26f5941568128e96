//! Runs the host's `mount`, which calls the mount helper of the file system.

use std::ffi::OsStr;
use std::time::Duration;

use ports::host::pod_volumes::VolumeError;

use crate::helper_program::{self, Arguments};

/// Runs `mount` to its end. The error has upstream's text.
pub(crate) fn run(program: &OsStr, arguments: &Arguments, timeout: Duration) -> Result<(), VolumeError> {
    let outcome = helper_program::run(program, arguments, timeout);
    let Some(failure) = outcome.failure else { return Ok(()) };
    Err(VolumeError::Refused(format!(
        "mount failed: {failure}\nMounting command: {}\nMounting arguments: {}\nOutput: {}",
        program.to_string_lossy(),
        arguments.shown(),
        outcome.output
    )))
}
