//! Reads one log as a stream of chunks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use decide::logs::container_logs::{Flow, LogOptions, Transcript};
use futures::{Stream, StreamExt, stream};
use ports::host::folder_watch::ChangeHints;
use ports::host::log_files::{LogFile, LogFiles};
use ports::host::pod_folders::FileError;

use super::{ObservedContainer, tail};

const CHUNK: usize = 64 * 1024;
/// A follower reads again after this time, also without a hint.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct LogReader {
    files: Arc<dyn LogFiles>,
    log: PathBuf,
    file: Arc<dyn LogFile>,
    position: u64,
    transcript: Transcript,
    end: End,
}

/// The action at the end of the file.
enum End {
    Stop,
    Follow(Follower),
}

struct Follower {
    container: ObservedContainer,
    hints: Option<ChangeHints>,
    /// The file to continue with at the end of this one, after a rotation.
    next: Option<Arc<dyn LogFile>>,
    /// The container has exited, so the file no longer grows.
    has_exited: bool,
}

impl LogReader {
    pub(super) async fn open(
        files: &Arc<dyn LogFiles>,
        log: PathBuf,
        container: ObservedContainer,
        options: &LogOptions,
    ) -> Result<Self, FileError> {
        let missing = || FileError {
            operation: "open log",
            path: log.clone(),
            source: std::io::ErrorKind::NotFound.into(),
        };
        let file = files.open(&log).await?.ok_or_else(missing)?;
        let position = match options.tail_lines {
            Some(lines) => tail::start(&*file, lines).await?,
            None => 0,
        };
        let follower = Follower { container, hints: None, next: None, has_exited: false };
        Ok(Self {
            files: Arc::clone(files),
            log,
            file,
            position,
            transcript: Transcript::new(options),
            end: if options.follow { End::Follow(follower) } else { End::Stop },
        })
    }

    /// Each chunk is read when the client polls for it. An error ends the stream.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Bytes, FileError>> + Send {
        stream::unfold(Some(self), async |reader| {
            let mut reader = reader?;
            match reader.next().await {
                Ok(Some(chunk)) => Some((Ok(chunk), Some(reader))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<Option<Bytes>, FileError> {
        let mut output = Vec::new();
        // Feeding nothing returns `Done` if the options already exclude everything.
        let mut flow = self.transcript.feed(&[], &mut output);
        while flow == Flow::More {
            let bytes = self.file.read_at(self.position, CHUNK).await?;
            self.position += u64::try_from(bytes.len()).unwrap_or_default();
            flow = self.transcript.feed(&bytes, &mut output);
            if !output.is_empty() {
                return Ok(Some(output.into()));
            }
            if bytes.is_empty() && !self.wait_for_more().await? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Called at the end of the file. Waits until there may be more; `false` if there will be none.
    async fn wait_for_more(&mut self) -> Result<bool, FileError> {
        let End::Follow(follower) = &mut self.end else { return Ok(false) };
        if let Some(next) = follower.next.take() {
            self.transcript.end_of_file();
            (self.file, self.position) = (next, 0);
            return Ok(true);
        }
        let hints = match &mut follower.hints {
            Some(hints) => hints,
            // Lines that were written before the watch started are read first.
            none => {
                *none = Some(self.files.changes(&self.log));
                return Ok(true);
            }
        };
        follower.next = self.files.successor(&self.log, self.file.identity()).await?;
        if follower.next.is_some() {
            return Ok(true);
        }
        if follower.has_exited {
            return Ok(false);
        }
        if !follower.container.is_running() {
            follower.has_exited = true;
            return Ok(true);
        }
        let hint = async {
            match hints.next().await {
                Some(Ok(_)) => {}
                // Without a watch, polling has to suffice.
                Some(Err(_)) | None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(POLL_INTERVAL, hint).await;
        Ok(true)
    }
}
