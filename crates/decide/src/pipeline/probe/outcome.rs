use std::time::Duration;

use model::{EventType, ProbeKind, ProbeResult};
use values::duration::GoDuration;

/// Output beyond this is cut off.
const MAX_OUTPUT_BYTES: usize = 10 * 1024;

/// The outcome of one check, before thresholds are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    Success,
    /// Success with a message for the user.
    Warning(String),
    Failure(String),
    /// The check could not be made. The outcome neither counts as a success nor as a failure.
    Error {
        /// Upstream's name of the outcome: `unknown` or `failure`.
        result: &'static str,
        message: String,
    },
}

impl CheckOutcome {
    /// The result that this outcome counts towards.
    pub fn result(&self) -> Option<ProbeResult> {
        match self {
            Self::Success | Self::Warning(_) => Some(ProbeResult::Success),
            Self::Failure(_) => Some(ProbeResult::Failure),
            Self::Error { .. } => None,
        }
    }

    /// Type, reason and message of the event.
    pub fn event(&self, kind: ProbeKind) -> Option<(EventType, &'static str, String)> {
        let kind = kind.as_str();
        let (reason, message) = match self {
            Self::Success => return None,
            Self::Warning(output) => ("ProbeWarning", format!("{kind} probe warning: {output}")),
            Self::Failure(output) => ("Unhealthy", format!("{kind} probe failed: {output}")),
            Self::Error { result, message } => {
                ("Unhealthy", format!("{kind} probe errored and resulted in {result} state: {message}"))
            }
        };
        Some((EventType::Warning, reason, message))
    }
}

/// The outcome of an HTTP response.
pub fn http_outcome(status: u16, body: &[u8]) -> CheckOutcome {
    match status {
        200..300 => CheckOutcome::Success,
        // Redirects have been followed as far as allowed.
        300..400 => {
            CheckOutcome::Warning(format!("Probe terminated redirects, Response body: {}", text(body)))
        }
        // The body is left out: the user may not be allowed to read it.
        _ => CheckOutcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
    }
}

/// The outcome of a command that exited.
pub fn exec_outcome(exit_code: i32, stdout: &[u8], stderr: &[u8]) -> CheckOutcome {
    if exit_code == 0 {
        return CheckOutcome::Success;
    }
    let output: Vec<u8> = stdout.iter().chain(stderr).take(MAX_OUTPUT_BYTES).copied().collect();
    CheckOutcome::Failure(text(&output))
}

/// The outcome of a command that timed out.
pub fn exec_timeout_outcome(command: &[String], timeout: Duration) -> CheckOutcome {
    let (command, timeout) = (command.join(" "), GoDuration::from(Duration::from_secs(timeout.as_secs())));
    CheckOutcome::Failure(format!("command timed out: {command:?} timed out after {timeout}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
