use std::path::Path;

use decide::pipeline::termination_message::{
    LOG_TAIL_BYTES, MAX_MESSAGE_FILE_BYTES, join_messages, log_tail_text, message_sources,
};
use model::{ContainerStatus, PodUid};
use ports::host::pod_folders::FileError;
use ports::host::termination_messages::TerminationMessages;

/// Adds the termination message of an exited container from its message file or its log. Called once per exit.
pub(super) async fn add_termination_message(
    messages: &dyn TerminationMessages,
    uid: &PodUid,
    status: &mut ContainerStatus,
) {
    let Some(sources) = message_sources(status) else { return };
    let from_file = match &sources.file {
        Some(path) => file_text(messages.message_file(uid, path, MAX_MESSAGE_FILE_BYTES).await, path),
        None => String::new(),
    };
    let text = match (&sources.log, from_file.is_empty()) {
        (Some(path), true) => log_text(messages.log_end(path, LOG_TAIL_BYTES).await),
        _ => from_file,
    };
    status.message = join_messages(&status.message, &text);
}

fn file_text(read: Result<Option<Vec<u8>>, FileError>, path: &Path) -> String {
    match read {
        Ok(bytes) => String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned(),
        Err(error) => format!("Error on reading termination log {}: {}", path.display(), error.source),
    }
}

fn log_text(read: Result<Option<Vec<u8>>, FileError>) -> String {
    match read {
        Ok(bytes) => log_tail_text(&bytes.unwrap_or_default()),
        Err(error) => format!("Error on reading termination message from logs: {}", error.source),
    }
}
