//! Memory limits, with values that mean no limit.

use super::files::KernelFolder;

/// Memory limits from here on mean no limit.
const NO_LIMIT: u64 = 1 << 62;

/// A limit in bytes; `None` for no limit, `max` included.
pub(super) fn bytes(folder: &KernelFolder, name: &str) -> Option<u64> {
    folder.number(name).filter(|limit| *limit < NO_LIMIT)
}
