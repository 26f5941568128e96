//! Writes log lines to a descriptor whose reader may stop reading, such as a journal on a disk that hangs.
//!
//! The stages log on the threads that also renew the lease and run probes, so a line that the reader does not accept in time
//! is dropped. The first line that gets through again is preceded by the number of dropped ones.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits for the reader.
const TIMEOUT: Duration = Duration::from_millis(200);
/// A pipe or socket that is ready accepts this much without blocking.
const CHUNK: usize = 4096;

/// Makes writers to one descriptor.
pub(super) struct BoundedWriter<D> {
    descriptor: D,
    dropped: Arc<AtomicU64>,
}

impl<D> BoundedWriter<D> {
    pub(super) fn new(descriptor: D) -> Self {
        Self { descriptor, dropped: Arc::default() }
    }
}

impl<'a, D: AsFd + 'a> MakeWriter<'a> for BoundedWriter<D> {
    type Writer = LineWriter<'a, D>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter { descriptor: &self.descriptor, dropped: &self.dropped }
    }
}

pub(super) struct LineWriter<'a, D> {
    descriptor: &'a D,
    dropped: &'a AtomicU64,
}

impl<D: AsFd> Write for LineWriter<'_, D> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all(line).map(|()| line.len())
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        let dropped = self.dropped.load(Ordering::Relaxed);
        // Only the first line of an outage waits.
        let timeout = if dropped == 0 { TIMEOUT } else { Duration::ZERO };
        let deadline = Instant::now() + timeout;
        if !self.is_ready(deadline)? {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        if dropped > 0
            && self.dropped.compare_exchange(dropped, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let note = format!(" WARN standard error was not read, dropped {dropped} log lines\n");
            self.write_by(note.as_bytes(), deadline + TIMEOUT)?;
        }
        self.write_by(line, deadline + TIMEOUT)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<D: AsFd> LineWriter<'_, D> {
    /// The rest of a line that is not accepted by the deadline is dropped.
    fn write_by(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            if !self.is_ready(deadline)? {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            let chunk = bytes.get(..CHUNK).unwrap_or(bytes);
            let written = rustix::io::retry_on_intr(|| rustix::io::write(self.descriptor, chunk))?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    fn is_ready(&self, deadline: Instant) -> io::Result<bool> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut polled = [PollFd::new(self.descriptor, PollFlags::OUT)];
            match poll(&mut polled, Some(&left)) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn drops_lines_while_the_reader_does_not_read() {
        let (mut reader, writer) = io::pipe().unwrap();
        let log = BoundedWriter::new(writer);
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        // More than the kernel keeps for a reader.
        for _ in 0..200 {
            log.make_writer().write_all(&line).unwrap();
        }
        let dropped = log.dropped.load(Ordering::Relaxed);
        assert!((1..200).contains(&dropped), "{dropped}");
        let accepted = 200 - usize::try_from(dropped).unwrap();
        reader.read_exact(&mut vec![0; accepted * line.len()]).unwrap();
        log.make_writer().write_all(b"after\n").unwrap();
        drop(log);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let expected = format!("standard error was not read, dropped {dropped} log lines\nafter\n");
        assert!(text.ends_with(&expected), "{text}");
    }

    #[test]
    fn writes_long_lines_completely() {
        let (mut reader, writer) = io::pipe().unwrap();
        let log = BoundedWriter::new(writer);
        let line = [b"y".repeat(20_000), b"\n".to_vec()].concat();
        log.make_writer().write_all(&line).unwrap();
        drop(log);
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        assert_eq!(text.len(), 20_001);
    }
}
