use std::path::Path;

use decide::termination_message::{FILE_LIMIT, LOG_END, joined, message_places, text_of_log};
use model::{ContainerStatus, PodUid};
use ports::pod_folders::FileError;
use ports::termination_messages::TerminationMessages;

/// Adds what a container that ended left in its message file or its log. Called once for each end.
pub(super) async fn add_last_words(
    messages: &dyn TerminationMessages,
    uid: &PodUid,
    status: &mut ContainerStatus,
) {
    let Some(places) = message_places(status) else { return };
    let from_file = match &places.file {
        Some(path) => file_text(messages.message_file(uid, path, FILE_LIMIT).await, path),
        None => String::new(),
    };
    let text = match (&places.log, from_file.is_empty()) {
        (Some(path), true) => log_text(messages.log_end(path, LOG_END).await),
        _ => from_file,
    };
    status.message = joined(&status.message, &text);
}

fn file_text(read: Result<Option<Vec<u8>>, FileError>, path: &Path) -> String {
    match read {
        Ok(bytes) => String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned(),
        Err(error) => format!("Error on reading termination log {}: {}", path.display(), error.source),
    }
}

fn log_text(read: Result<Option<Vec<u8>>, FileError>) -> String {
    match read {
        Ok(bytes) => text_of_log(&bytes.unwrap_or_default()),
        Err(error) => format!("Error on reading termination message from logs: {}", error.source),
    }
}
