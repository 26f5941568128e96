//! Files that belong to one pod: its folder, log folders and links, user namespace records and termination messages.

mod env_files;
pub(crate) mod pod_folders;
mod termination_messages;
mod user_namespaces;

pub use pod_folders::HostPodFolders;
pub use user_namespaces::user_id_pool;
