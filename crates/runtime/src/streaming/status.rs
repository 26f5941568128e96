//! How a session ended, in the form of upstream's streaming servers.

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    /// The process of a command ended with another exit code than zero.
    ExitCode {
        command: Vec<String>,
        code: i32,
    },
    Failure(String),
}

#[derive(Serialize)]
struct Status {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

#[derive(Serialize)]
struct Details {
    causes: Vec<Cause>,
}

#[derive(Serialize)]
struct Cause {
    reason: &'static str,
    message: String,
}

impl Outcome {
    /// For protocols since version 4.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let status = match self {
            Self::Success => {
                Status { status: "Success", message: None, reason: None, details: None, code: None }
            }
            Self::ExitCode { code, .. } => Status {
                status: "Failure",
                message: self.to_text(),
                reason: Some("NonZeroExitCode"),
                details: Some(Details {
                    causes: vec![Cause { reason: "ExitCode", message: code.to_string() }],
                }),
                code: None,
            },
            Self::Failure(_) => Status {
                status: "Failure",
                message: self.to_text(),
                reason: Some("InternalError"),
                details: None,
                code: Some(500),
            },
        };
        // The type has nothing that cannot be written.
        serde_json::to_vec(&status).unwrap_or_default()
    }

    /// For earlier protocols, which report failures only.
    pub(super) fn to_text(&self) -> Option<String> {
        match self {
            Self::Success => None,
            Self::ExitCode { command, code } => Some(format!(
                "command terminated with non-zero exit code: error executing command [{}], exit code {code}",
                command.join(" ")
            )),
            Self::Failure(message) => Some(format!("Internal error occurred: {message}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(outcome: &Outcome, expected: &str) {
        assert_eq!(String::from_utf8(outcome.to_json()).unwrap(), expected);
    }

    #[test]
    fn status_has_the_fields_and_the_order_of_upstream() {
        check(&Outcome::Success, r#"{"status":"Success"}"#);
        let command = vec!["sh".to_owned(), "-c".to_owned(), "exit 3".to_owned()];
        check(
            &Outcome::ExitCode { command, code: 3 },
            r#"{"status":"Failure","message":"command terminated with non-zero exit code: error executing command [sh -c exit 3], exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#,
        );
        check(
            &Outcome::Failure("because".to_owned()),
            r#"{"status":"Failure","message":"Internal error occurred: because","reason":"InternalError","code":500}"#,
        );
    }
}
