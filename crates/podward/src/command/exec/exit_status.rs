//! The exit code of a command, from the status that the agent sends last.

use std::process::ExitCode;

use anyhow::{Context, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause};

/// The exit code of the command. An error means that it could not be run.
pub(super) fn exit_code(status: &[u8]) -> anyhow::Result<ExitCode> {
    let status: Status = serde_json::from_slice(status).context("parse the exit status of the command")?;
    if status.status.as_deref() == Some("Success") {
        return Ok(ExitCode::SUCCESS);
    }
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    match causes.iter().find_map(code) {
        // An exit code has eight bits.
        Some(code) => Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))),
        None => bail!("{}", status.message.as_deref().unwrap_or("failed to run the command")),
    }
}

fn code(cause: &StatusCause) -> Option<i32> {
    let is_exit_code = cause.reason.as_deref() == Some("ExitCode");
    cause.message.as_ref().filter(|_| is_exit_code)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_exit_code_or_error_message() {
        assert_eq!(exit_code(br#"{"status":"Success"}"#).unwrap(), ExitCode::SUCCESS);
        let exited = br#"{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with non-zero exit code",
            "details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#;
        assert_eq!(exit_code(exited).unwrap(), ExitCode::from(7));
        let failed = br#"{"status":"Failure","message":"no such file"}"#;
        assert_eq!(exit_code(failed).unwrap_err().to_string(), "no such file");
        assert!(exit_code(b"nonsense").is_err());
    }
}
