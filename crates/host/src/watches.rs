//! Watches for changed files and exited processes.

mod folder_watch;
pub(crate) mod process_watch;

pub use folder_watch::InotifyFolderWatch;
pub use process_watch::PidfdProcessWatch;
