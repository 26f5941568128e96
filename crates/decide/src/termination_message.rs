//! Where a container's last words are found, and what becomes of them.

use std::path::{Path, PathBuf};

use model::{ContainerState, ContainerStatus, labels};

/// Most bytes of a message file.
pub const FILE_LIMIT: u64 = 4096;
/// Bytes of a log's end that surely hold the last [`LOG_LINES`] lines or [`LOG_LIMIT`] bytes of text.
pub const LOG_END: u64 = 64 * 1024;
/// Most bytes of a message that comes from the log.
const LOG_LIMIT: usize = 2048;
/// Most lines of the log.
const LOG_LINES: usize = 80;
/// Most bytes of all messages of a pod.
const POD_LIMIT: usize = 12 * 1024;

/// Where to look for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePlaces {
    /// The file that was mounted for it.
    pub file: Option<PathBuf>,
    /// The log, which counts only while the file says nothing.
    pub log: Option<PathBuf>,
}

/// Where the message of a container that ended is found; `None` while it lives.
#[must_use]
pub fn message_places(status: &ContainerStatus) -> Option<MessagePlaces> {
    if status.state != ContainerState::Exited {
        return None;
    }
    let annotation = |key: &str| status.annotations.get(key).map_or("", String::as_str);
    // What could not even be started has no log.
    let log = annotation(labels::TERMINATION_MESSAGE_POLICY) == "FallbackToLogsOnError"
        && status.exit_code != 0
        && status.reason != "ContainerCannotRun";
    let inside = annotation(labels::TERMINATION_MESSAGE_PATH);
    let inside = (!inside.is_empty()).then(|| Path::new("/").join(inside));
    let mount = |inside: PathBuf| status.mounts.iter().find(|(path, _)| Path::new(path) == inside);
    Some(MessagePlaces {
        file: inside.and_then(mount).map(|(_, host)| PathBuf::from(host)),
        log: (log && !status.log_path.is_empty()).then(|| PathBuf::from(&status.log_path)),
    })
}

/// The message as the runtime's own words and the container's.
#[must_use]
pub fn joined(runtime: &str, container: &str) -> String {
    match (runtime, container) {
        (only, "") | ("", only) => only.to_owned(),
        (runtime, container) => format!("{runtime}: {container}"),
    }
}

/// The text of a log's end: `TIME STREAM TAG TEXT` by line.
#[must_use]
pub fn text_of_log(end: &[u8]) -> String {
    let mut lines: Vec<&[u8]> = end.split_inclusive(|byte| *byte == b'\n').collect();
    lines = lines.split_off(lines.len().saturating_sub(LOG_LINES));
    let mut text = Vec::new();
    for line in lines {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (Some(_), Some(b"stdout" | b"stderr"), Some(tag), Some(content)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        // A long line comes in parts; only its last one ends it.
        let partial = tag.split(|byte| *byte == b':').next() == Some(b"P");
        text.extend_from_slice(match (partial, content.strip_suffix(b"\n")) {
            (true, Some(content)) => content,
            _ => content,
        });
    }
    let kept = text.split_off(text.len().saturating_sub(LOG_LIMIT));
    String::from_utf8_lossy(&kept).into_owned()
}

/// A message cut to its share of what a pod may say in all.
#[must_use]
pub fn cut_to_share(message: &str, containers: usize) -> String {
    let share = POD_LIMIT / containers.max(1);
    match message.as_bytes().get(..share) {
        Some(cut) if message.len() > share => String::from_utf8_lossy(cut).into_owned(),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::container;

    fn ended(path: &str, policy: &str, code: i32) -> ContainerStatus {
        let mut status = container("c", "main", 0, ContainerState::Exited);
        status.exit_code = code;
        status.log_path = "/logs/0.log".to_owned();
        status.mounts = vec![("/dev/log".to_owned(), "/pods/u/containers/main/1".to_owned())];
        status.annotations.insert(labels::TERMINATION_MESSAGE_PATH.to_owned(), path.to_owned());
        status.annotations.insert(labels::TERMINATION_MESSAGE_POLICY.to_owned(), policy.to_owned());
        status
    }

    #[test]
    fn the_file_is_the_one_that_was_mounted() {
        let places = message_places(&ended("/dev/log", "File", 1)).unwrap();
        assert_eq!(places, MessagePlaces { file: Some("/pods/u/containers/main/1".into()), log: None });
        assert_eq!(message_places(&ended("dev/log", "File", 1)).unwrap(), places);
        assert_eq!(message_places(&ended("/other", "File", 1)).unwrap().file, None);
        assert_eq!(message_places(&ended("", "File", 1)).unwrap().file, None);
        assert_eq!(message_places(&container("c", "main", 0, ContainerState::Running)), None);
    }

    #[test]
    fn the_log_counts_for_failures_that_ask_for_it() {
        let log = |policy: &str, code| message_places(&ended("", policy, code)).unwrap().log;
        assert_eq!(log("FallbackToLogsOnError", 1), Some("/logs/0.log".into()));
        assert_eq!(log("FallbackToLogsOnError", 0), None);
        assert_eq!(log("File", 1), None);
    }

    #[test]
    fn a_logs_end_is_text_of_at_most_eighty_lines_and_two_kilobytes() {
        let lines = |count: usize, text: &str| -> String {
            (0..count).map(|at| format!("2026-01-01T00:00:00Z stdout F {text}{at}\n")).collect()
        };
        let text = text_of_log(lines(100, "l").as_bytes());
        assert_eq!(text.lines().count(), 80);
        assert!(text.starts_with("l20\n") && text.ends_with("l99\n"));
        assert_eq!(text_of_log(lines(60, &"x".repeat(100)).as_bytes()).len(), 2048);
        let parts = b"cut off\nT stderr P half \nT stderr F whole\n";
        assert_eq!(text_of_log(parts), "half whole\n");
    }

    #[test]
    fn messages_share_what_a_pod_may_say() {
        assert_eq!(cut_to_share(&"x".repeat(5000), 3).len(), 4096);
        assert_eq!(cut_to_share("short", 1), "short");
        assert_eq!(cut_to_share("anything", 0), "anything");
    }
}
