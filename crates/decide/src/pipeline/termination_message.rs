//! Where a container's termination message is read from, and how it is truncated.

use std::path::{Path, PathBuf};

use model::{ContainerState, ContainerStatus, labels};

pub const MAX_MESSAGE_FILE_BYTES: u64 = 4096;
/// How much of the end of a log is read: enough for [`MAX_LOG_LINES`] lines or [`MAX_LOG_BYTES`] bytes of text.
pub const LOG_TAIL_BYTES: u64 = 64 * 1024;
/// Longest message that is taken from the log.
const MAX_LOG_BYTES: usize = 2048;
const MAX_LOG_LINES: usize = 80;
/// Limit for the messages of all containers of a pod together.
const MAX_POD_MESSAGE_BYTES: usize = 12 * 1024;

/// Files that may contain a termination message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSources {
    /// Host path of the mounted `terminationMessagePath`.
    pub file: Option<PathBuf>,
    /// The container log, read only if `file` is empty.
    pub log: Option<PathBuf>,
}

/// The files to read for an exited container; `None` for any other.
pub fn message_sources(status: &ContainerStatus) -> Option<MessageSources> {
    if status.state != ContainerState::Exited {
        return None;
    }
    let annotation = |key: &str| status.annotations.get(key).map_or("", String::as_str);
    // A container that could not be started has no log.
    let log = annotation(labels::TERMINATION_MESSAGE_POLICY) == "FallbackToLogsOnError"
        && status.exit_code != 0
        && status.reason != "ContainerCannotRun";
    let path_in_container = annotation(labels::TERMINATION_MESSAGE_PATH);
    let path_in_container = (!path_in_container.is_empty()).then(|| Path::new("/").join(path_in_container));
    let mount = |path_in_container: PathBuf| {
        status.mounts.iter().find(|(path, _)| Path::new(path) == path_in_container)
    };
    Some(MessageSources {
        file: path_in_container.and_then(mount).map(|(_, host)| PathBuf::from(host)),
        log: (log && !status.log_path.is_empty()).then(|| PathBuf::from(&status.log_path)),
    })
}

/// Joins the runtime's message and the container's.
pub fn join_messages(runtime: &str, container: &str) -> String {
    match (runtime, container) {
        (only, "") | ("", only) => only.to_owned(),
        (runtime, container) => format!("{runtime}: {container}"),
    }
}

/// Extracts the text from the end of a CRI log, whose lines are `TIME STREAM TAG TEXT`.
pub fn log_tail_text(end: &[u8]) -> String {
    let mut lines: Vec<&[u8]> = end.split_inclusive(|byte| *byte == b'\n').collect();
    lines = lines.split_off(lines.len().saturating_sub(MAX_LOG_LINES));
    let mut text = Vec::new();
    for line in lines {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (Some(_), Some(b"stdout" | b"stderr"), Some(tag), Some(content)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        // A long line is split into partial entries; only the last entry ends the line.
        let partial = tag.split(|byte| *byte == b':').next() == Some(b"P");
        text.extend_from_slice(match (partial, content.strip_suffix(b"\n")) {
            (true, Some(content)) => content,
            _ => content,
        });
    }
    let tail = text.split_off(text.len().saturating_sub(MAX_LOG_BYTES));
    String::from_utf8_lossy(&tail).into_owned()
}

/// Truncates a message to its container's share of the limit per pod.
pub fn truncate_to_share(message: &str, containers: usize) -> String {
    let share = MAX_POD_MESSAGE_BYTES / containers.max(1);
    match message.as_bytes().get(..share) {
        Some(cut) if message.len() > share => String::from_utf8_lossy(cut).into_owned(),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::container;

    fn exited(path: &str, policy: &str, code: i32) -> ContainerStatus {
        let mut status = container("c", "main", 0, ContainerState::Exited);
        status.exit_code = code;
        status.log_path = "/logs/0.log".to_owned();
        status.mounts = vec![("/dev/log".to_owned(), "/pods/u/containers/main/1".to_owned())];
        status.annotations.insert(labels::TERMINATION_MESSAGE_PATH.to_owned(), path.to_owned());
        status.annotations.insert(labels::TERMINATION_MESSAGE_POLICY.to_owned(), policy.to_owned());
        status
    }

    #[test]
    fn reads_message_from_mounted_file() {
        let sources = message_sources(&exited("/dev/log", "File", 1)).unwrap();
        assert_eq!(sources, MessageSources { file: Some("/pods/u/containers/main/1".into()), log: None });
        assert_eq!(message_sources(&exited("dev/log", "File", 1)).unwrap(), sources);
        assert_eq!(message_sources(&exited("/other", "File", 1)).unwrap().file, None);
        assert_eq!(message_sources(&exited("", "File", 1)).unwrap().file, None);
        assert_eq!(message_sources(&container("c", "main", 0, ContainerState::Running)), None);
    }

    #[test]
    fn falls_back_to_logs_only_on_error() {
        let log = |policy: &str, code| message_sources(&exited("", policy, code)).unwrap().log;
        assert_eq!(log("FallbackToLogsOnError", 1), Some("/logs/0.log".into()));
        assert_eq!(log("FallbackToLogsOnError", 0), None);
        assert_eq!(log("File", 1), None);
    }

    #[test]
    fn log_tail_is_limited_to_80_lines_and_2_kib() {
        let lines = |count: usize, text: &str| -> String {
            (0..count).map(|at| format!("2026-01-01T00:00:00Z stdout F {text}{at}\n")).collect()
        };
        let text = log_tail_text(lines(100, "l").as_bytes());
        assert_eq!(text.lines().count(), 80);
        assert!(text.starts_with("l20\n") && text.ends_with("l99\n"));
        assert_eq!(log_tail_text(lines(60, &"x".repeat(100)).as_bytes()).len(), 2048);
        let parts = b"cut off\nT stderr P half \nT stderr F whole\n";
        assert_eq!(log_tail_text(parts), "half whole\n");
    }

    #[test]
    fn containers_share_the_message_limit_of_the_pod() {
        assert_eq!(truncate_to_share(&"x".repeat(5000), 3).len(), 4096);
        assert_eq!(truncate_to_share("short", 1), "short");
        assert_eq!(truncate_to_share("anything", 0), "anything");
    }
}
