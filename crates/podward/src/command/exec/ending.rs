//! How a command ended, by the status that the agent sends last.

use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::Value;

/// The exit code of the command; what kept it from running is an error.
pub(super) fn exit_code(status: &[u8]) -> anyhow::Result<ExitCode> {
    let status: Value = serde_json::from_slice(status).context("understand how the command ended")?;
    if status["status"] == "Success" {
        return Ok(ExitCode::SUCCESS);
    }
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let code = causes
        .filter(|cause| cause["reason"] == "ExitCode")
        .find_map(|cause| cause["message"].as_str()?.parse::<i32>().ok());
    match code {
        // A shell knows eight bits.
        Some(code) => Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))),
        None => bail!("{}", status["message"].as_str().unwrap_or("the command could not be run")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_passed_on_and_failures_told() {
        assert_eq!(exit_code(br#"{"status":"Success"}"#).unwrap(), ExitCode::SUCCESS);
        let ended = br#"{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with non-zero exit code",
            "details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#;
        assert_eq!(exit_code(ended).unwrap(), ExitCode::from(7));
        let failed = br#"{"status":"Failure","message":"no such file"}"#;
        assert_eq!(exit_code(failed).unwrap_err().to_string(), "no such file");
        assert!(exit_code(b"nonsense").is_err());
    }
}
