//! Reads one log as a stream of pieces.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use decide::container_logs::{Flow, LogOptions, Transcript};
use futures::{Stream, StreamExt, stream};
use ports::folder_watch::ChangeHints;
use ports::log_files::{LogFile, LogFiles};
use ports::pod_folders::FileError;

use super::{Watched, tail};

/// What is read at once.
const PIECE: usize = 64 * 1024;
/// A follower looks again after this time, hint or none.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// An open log and the place in it.
pub(super) struct LogReader {
    files: Arc<dyn LogFiles>,
    log: PathBuf,
    file: Arc<dyn LogFile>,
    place: u64,
    transcript: Transcript,
    end: End,
}

/// What the end of the file means.
enum End {
    /// The end.
    Stop,
    /// More may come.
    Wait(Follower),
}

struct Follower {
    container: Watched,
    hints: Option<ChangeHints>,
    /// The file to go on with once this one is read to its end.
    next: Option<Arc<dyn LogFile>>,
    /// The container has ended: what is there by now is all.
    ending: bool,
}

impl LogReader {
    pub(super) async fn open(
        files: &Arc<dyn LogFiles>,
        log: PathBuf,
        container: Watched,
        options: &LogOptions,
    ) -> Result<Self, FileError> {
        let missing = || FileError {
            operation: "open log",
            path: log.clone(),
            source: std::io::ErrorKind::NotFound.into(),
        };
        let file = files.open(&log).await?.ok_or_else(missing)?;
        let place = match options.tail_lines {
            Some(lines) => tail::start(&*file, lines).await?,
            None => 0,
        };
        let follower = Follower { container, hints: None, next: None, ending: false };
        Ok(Self {
            files: Arc::clone(files),
            log,
            file,
            place,
            transcript: Transcript::new(options),
            end: if options.follow { End::Wait(follower) } else { End::Stop },
        })
    }

    /// The pieces. Nothing is read before the piece is asked for; a failure ends the stream.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Bytes, FileError>> + Send {
        stream::unfold(Some(self), async |reader| {
            let mut reader = reader?;
            match reader.next().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(reader))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<Option<Bytes>, FileError> {
        let mut shown = Vec::new();
        // An empty log tells at once whether anything is wanted at all.
        let mut flow = self.transcript.feed(&[], &mut shown);
        while flow == Flow::More {
            let bytes = self.file.read_at(self.place, PIECE).await?;
            self.place += u64::try_from(bytes.len()).unwrap_or_default();
            flow = self.transcript.feed(&bytes, &mut shown);
            if !shown.is_empty() {
                return Ok(Some(shown.into()));
            }
            if bytes.is_empty() && !self.go_on().await? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// At the end of the file: waits until there may be more. `false` when there is none.
    async fn go_on(&mut self) -> Result<bool, FileError> {
        let End::Wait(follower) = &mut self.end else { return Ok(false) };
        if let Some(next) = follower.next.take() {
            self.transcript.end_of_file();
            (self.file, self.place) = (next, 0);
            return Ok(true);
        }
        let hints = match &mut follower.hints {
            Some(hints) => hints,
            // What was written before the watch stood is read first.
            none => {
                *none = Some(self.files.changes(&self.log));
                return Ok(true);
            }
        };
        follower.next = self.files.successor(&self.log, self.file.identity()).await?;
        if follower.next.is_some() {
            return Ok(true);
        }
        if follower.ending {
            return Ok(false);
        }
        if !follower.container.is_running() {
            follower.ending = true;
            return Ok(true);
        }
        let hint = async {
            match hints.next().await {
                Some(Ok(())) => {}
                // No watch: the clock alone must do.
                Some(Err(_)) | None => std::future::pending().await,
            }
        };
        // A look again, whichever comes first.
        let _ = tokio::time::timeout(LOOK_AGAIN, hint).await;
        Ok(true)
    }
}
