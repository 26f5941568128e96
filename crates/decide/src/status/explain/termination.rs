//! Describes how a container terminated.

use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated};

/// Characters of the termination message that are shown.
const MAX_MESSAGE_CHARS: usize = 300;

/// Describes a termination as the end of a sentence that starts with the container name.
pub fn describe_termination(container: Option<&Container>, end: &ContainerStateTerminated) -> String {
    let code = end.exit_code;
    let description = match end.reason.as_deref() {
        Some("OOMKilled") => {
            let limits = container.and_then(|found| found.resources.as_ref()?.limits.as_ref());
            let limit = limits.and_then(|limits| limits.get("memory")).map(|limit| limit.0.as_str());
            match limit {
                Some(limit) => {
                    format!("was killed because it used more memory than its limit of {limit} (OOMKilled)")
                }
                None => "was killed because memory ran out (OOMKilled)".to_owned(),
            }
        }
        Some("StartError" | "ContainerCannotRun") => "could not be started".to_owned(),
        Some("DeadlineExceeded") => "exceeded its deadline".to_owned(),
        Some("ContainerStatusUnknown") => {
            "is unknown to the runtime, so its exit code is not known".to_owned()
        }
        _ => match signal(code) {
            Some(name) => format!("was killed by {name} (exit code {code})"),
            None => format!("ended with exit code {code}"),
        },
    };
    match end.message.as_deref().map(str::trim).filter(|message| !message.is_empty()) {
        Some(message) => format!("{description}, saying: {}", shorten(message)),
        None => description,
    }
}

/// The signal behind an exit code of the form 128 + signal.
fn signal(code: i32) -> Option<&'static str> {
    Some(match code {
        129 => "SIGHUP",
        130 => "SIGINT",
        131 => "SIGQUIT",
        132 => "SIGILL",
        134 => "SIGABRT",
        135 => "SIGBUS",
        136 => "SIGFPE",
        137 => "SIGKILL",
        139 => "SIGSEGV",
        141 => "SIGPIPE",
        142 => "SIGALRM",
        143 => "SIGTERM",
        _ => return None,
    })
}

fn shorten(message: &str) -> String {
    let flat = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match flat.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((at, _)) => format!("{}…", flat.get(..at).unwrap_or_default()),
        None => flat,
    }
}
