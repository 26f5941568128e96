//! Files and folders: opened below a descriptor, replaced in one step, removed without following links.

pub(crate) mod atomic_file;
pub(crate) mod folder;
mod lock_file;
mod root_folder;
pub(crate) mod tree;

pub use lock_file::{LockError, LockFile, lock_contention};
pub use root_folder::{label_plugin_folders, make_root_folder};
