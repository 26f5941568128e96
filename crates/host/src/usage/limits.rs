//! Numbers that stand for no limit.

use super::files::Folder;

/// From here on a memory limit is none.
const NO_LIMIT: u64 = 1 << 62;

/// A limit in bytes; `None` for no limit, `max` included.
pub(super) fn bytes(folder: &Folder, name: &str) -> Option<u64> {
    folder.number(name).filter(|limit| *limit < NO_LIMIT)
}
