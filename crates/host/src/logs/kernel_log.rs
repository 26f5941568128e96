//! Reads the kernel log, `/dev/kmsg`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use futures::{StreamExt, stream};
use ports::host::kernel_log::{KernelLog, KernelRecords};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::watches::process_watch::watchable;

/// The kernel's maximum record size.
const MAX_RECORD_BYTES: usize = 8192;

/// [`KernelLog`] from a device such as `/dev/kmsg`.
#[derive(Clone, Debug)]
pub struct KernelLogDevice {
    path: PathBuf,
}

impl KernelLogDevice {
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl KernelLog for KernelLogDevice {
    fn follow(&self) -> io::Result<KernelRecords> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = rustix::fs::open(&self.path, flags, Mode::empty())?;
        match rustix::fs::seek(&device, SeekFrom::End(0)) {
            // A FIFO, as in tests, has no old records to skip.
            Ok(_) | Err(Errno::SPIPE) => {}
            Err(error) => return Err(error.into()),
        }
        let reader =
            Reader { device: watchable(device)?, buffer: vec![0; MAX_RECORD_BYTES], queued: VecDeque::new() };
        let records = stream::unfold(Some(reader), async |reader| {
            let mut reader = reader?;
            match reader.next().await {
                Ok(record) => Some((Ok(record), Some(reader))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(records.boxed())
    }
}

struct Reader {
    device: AsyncFd<OwnedFd>,
    buffer: Vec<u8>,
    queued: VecDeque<String>,
}

impl Reader {
    async fn next(&mut self) -> io::Result<String> {
        loop {
            if let Some(record) = self.queued.pop_front() {
                return Ok(record);
            }
            let mut ready = self.device.readable().await?;
            match rustix::io::read(ready.get_inner(), &mut self.buffer) {
                Ok(0) | Err(Errno::AGAIN) => ready.clear_ready(),
                Ok(length) => {
                    let text = String::from_utf8_lossy(self.buffer.get(..length).unwrap_or_default());
                    self.queued.extend(text.lines().map(str::to_owned));
                }
                // Skip records that were overwritten before they were read, or that are too long.
                Err(Errno::PIPE | Errno::INVAL | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn reads_new_records() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("kmsg");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let mut records = KernelLogDevice::new(&path).follow().unwrap();
        let mut kernel = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        kernel.write_all(b"6,1,2,-;one\n SUBSYSTEM=x\n").unwrap();
        assert_eq!(records.next().await.unwrap().unwrap(), "6,1,2,-;one");
        assert_eq!(records.next().await.unwrap().unwrap(), " SUBSYSTEM=x");
        kernel.write_all(b"6,2,3,-;two\n").unwrap();
        assert_eq!(records.next().await.unwrap().unwrap(), "6,2,3,-;two");
        assert!(KernelLogDevice::new(scratch.path().join("none")).follow().is_err());
    }
}
