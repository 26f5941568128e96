//! Changes of files and folders.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use futures::stream::BoxStream;

/// Something at a watched path may have changed: the reader lists again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeHint {
    /// Entries of the watched folder that were deleted or moved away since the last hint, even if they exist again.
    pub removed: BTreeSet<OsString>,
}

/// Hints about one watched path; an error is followed by further attempts.
pub type ChangeHints = BoxStream<'static, Result<ChangeHint, std::io::Error>>;

/// Watches paths.
pub trait FolderWatch: Send + Sync {
    /// Watches a folder's entries, or one file, through renames, symlink swaps (of the path itself, of any
    /// parent, of the entries' targets) and while the path does not exist yet. Bursts are coalesced into few
    /// items. The stream ends only with an error.
    fn watch(&self, path: &Path) -> ChangeHints;
}
