//! The kernel log.

use std::io;

use futures::stream::BoxStream;

/// Records in the format of `/dev/kmsg`: `priority,number,time,flags;text`.
pub type KernelRecords = BoxStream<'static, io::Result<String>>;

/// Reads the kernel's log.
pub trait KernelLog: Send + Sync {
    /// The records from now on.
    ///
    /// # Errors
    /// When the log cannot be opened.
    fn follow(&self) -> io::Result<KernelRecords>;
}
