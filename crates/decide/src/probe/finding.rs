use std::time::Duration;

use model::{EventType, ProbeKind, ProbeVerdict};

/// The most of a command's output or a page that is kept.
const LARGEST_OUTPUT: usize = 10 * 1024;

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Healthy.
    Success,
    /// Healthy, but users should know something.
    Warning(String),
    /// Not healthy.
    Failure(String),
    /// The check could not be made; it says nothing about the container.
    Error {
        /// What came out of it, in upstream's words: `unknown` or `failure`.
        result: &'static str,
        /// Why.
        message: String,
    },
}

impl Finding {
    /// What it says about the container.
    #[must_use]
    pub fn verdict(&self) -> Option<ProbeVerdict> {
        match self {
            Self::Success | Self::Warning(_) => Some(ProbeVerdict::Success),
            Self::Failure(_) => Some(ProbeVerdict::Failure),
            Self::Error { .. } => None,
        }
    }

    /// Type, reason and message of the event that tells of it.
    #[must_use]
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

/// What a page says.
#[must_use]
pub fn http_finding(status: u16, body: &[u8]) -> Finding {
    match status {
        200..300 => Finding::Success,
        // Redirects were followed as far as they may be.
        300..400 => Finding::Warning(format!("Probe terminated redirects, Response body: {}", text(body))),
        // The body is not shown: the page may belong to something that users must not see.
        _ => Finding::Failure(format!("HTTP probe failed with statuscode: {status}")),
    }
}

/// What a command that ended says.
#[must_use]
pub fn exec_finding(exit_code: i32, stdout: &[u8], stderr: &[u8]) -> Finding {
    if exit_code == 0 {
        return Finding::Success;
    }
    let output: Vec<u8> = stdout.iter().chain(stderr).take(LARGEST_OUTPUT).copied().collect();
    Finding::Failure(text(&output))
}

/// What a command says that did not end in time.
#[must_use]
pub fn exec_timeout_finding(command: &[String], timeout: Duration) -> Finding {
    let (command, timeout) = (command.join(" "), seconds(timeout));
    Finding::Failure(format!("command timed out: {command:?} timed out after {timeout}"))
}

/// Whole seconds as Go writes them: `5s`, `1m30s`, `1h0m0s`.
fn seconds(time: Duration) -> String {
    let all = time.as_secs();
    match (all / 3600, all / 60 % 60, all % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
