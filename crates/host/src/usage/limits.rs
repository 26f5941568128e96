//! Numbers that stand for no limit.

use std::path::Path;

use super::files;

/// From here on a memory limit is none.
const NO_LIMIT: u64 = 1 << 62;

/// A limit in bytes; `None` for no limit, `max` included.
pub(super) fn bytes(file: &Path) -> Option<u64> {
    files::number(file).filter(|limit| *limit < NO_LIMIT)
}
