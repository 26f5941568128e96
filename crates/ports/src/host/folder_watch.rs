//! Changes of files and folders.

use std::path::Path;

use futures::stream::BoxStream;

/// Hints that something at a path may have changed. An item carries no data: the reader lists again.
pub type ChangeHints = BoxStream<'static, Result<(), std::io::Error>>;

/// Watches paths.
pub trait FolderWatch: Send + Sync {
    /// Watches a folder's entries, or one file, through renames, symlink swaps (of the path itself, of any
    /// parent, of the entries' targets) and while the path does not exist yet. Bursts are coalesced into few
    /// items. The stream ends only with an error.
    fn watch(&self, path: &Path) -> ChangeHints;
}
