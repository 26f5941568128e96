//! The log file of a container.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;

use super::lines::Piece;

#[derive(Debug, Error)]
pub enum LogError {
    #[error("open log {path:?}")]
    Open { path: PathBuf, source: io::Error },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// The position in a list of both streams.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// An open log file. Records of both streams are appended, each with one write.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    record: Vec<u8>,
}

impl LogFile {
    /// Opens the file, and makes it with its folders where they are missing.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(folder)
                .map_err(|source| LogError::Open { path: path.to_owned(), source })?;
        }
        Ok(Self { path: path.to_owned(), file: open(path)?, record: Vec::new() })
    }

    /// Continues in a new file after the old one was renamed. The old file stays in use if the new one cannot be opened.
    ///
    /// # Errors
    /// If the new file cannot be opened.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        self.file = open(&self.path)?;
        Ok(())
    }

    /// Appends a record. A record that cannot be written is lost: a full disk must not block the container.
    pub fn write(&mut self, stream: Stream, piece: &Piece<'_>) {
        let now = clock_gettime(ClockId::Realtime);
        let nanoseconds = i32::try_from(now.tv_nsec).unwrap_or_default();
        let time = Timestamp::new(now.tv_sec, nanoseconds).unwrap_or_default();
        self.record.clear();
        append_record(&mut self.record, time, stream, piece);
        // The write is the last use of the record in any case.
        let _ = self.file.write_all(&self.record);
    }
}

fn open(path: &Path) -> Result<File, LogError> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o640).custom_flags(libc::O_NOFOLLOW);
    options.open(path).map_err(|source| LogError::Open { path: path.to_owned(), source })
}

fn append_record(record: &mut Vec<u8>, time: Timestamp, stream: Stream, piece: &Piece<'_>) {
    let (tag, content) = match piece {
        Piece::End(content) => ('F', content),
        Piece::Partial(content) => ('P', content),
    };
    record.extend_from_slice(format!("{time:.9} {} {tag} ", stream.name()).as_bytes());
    record.extend_from_slice(content);
    record.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_has_time_stream_tag_and_content() {
        let time = Timestamp::new(1_700_000_000, 5_000).unwrap();
        let mut record = Vec::new();
        append_record(&mut record, time, Stream::Stderr, &Piece::Partial(b"a b\0"));
        assert_eq!(record, b"2023-11-14T22:13:20.000005000Z stderr P a b\0\n");
        record.clear();
        append_record(&mut record, time, Stream::Stdout, &Piece::End(b""));
        assert_eq!(record, b"2023-11-14T22:13:20.000005000Z stdout F \n");
    }

    #[test]
    fn reopened_log_continues_in_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pod/0.log");
        let mut log = LogFile::open(&path).unwrap();
        log.write(Stream::Stdout, &Piece::End(b"one"));
        let rotated = folder.path().join("pod/0.log.1");
        std::fs::rename(&path, &rotated).unwrap();
        log.reopen().unwrap();
        log.write(Stream::Stdout, &Piece::End(b"two"));
        assert!(std::fs::read_to_string(rotated).unwrap().ends_with(" stdout F one\n"));
        assert!(std::fs::read_to_string(path).unwrap().ends_with(" stdout F two\n"));
    }
}
