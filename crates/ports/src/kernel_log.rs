//! What the kernel says.

use std::io;

use futures::stream::BoxStream;

/// Records as the kernel hands them out: `priority,number,time,flags;text`.
pub type KernelRecords = BoxStream<'static, io::Result<String>>;

/// Reads the kernel's log.
pub trait KernelLog: Send + Sync {
    /// The records from now on.
    ///
    /// # Errors
    /// When the machine does not let us read them.
    fn follow(&self) -> io::Result<KernelRecords>;
}
