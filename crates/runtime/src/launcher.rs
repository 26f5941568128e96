//! Starts processes in containers.
//!
//! Input: a [`ContainerSpec`] that the CRI layer has checked. Output: a process that is completely set up and waits for one message
//! before it executes its program, so that creating a container reports every error of the set-up.
//!
//! The launcher runs in a process with a single thread (the keeper of a pod), because a process made by `clone3` must not find a
//! lock that another thread held. `docs/adr/0008` has the process model.

pub mod capabilities;
mod channel;
mod destination;
mod devices;
mod errors;
mod identity;
mod in_root;
mod init;
mod mounts;
mod namespaces;
mod process;
mod propagation;
mod raw;
mod reaper;
mod root;
pub mod seccomp;
pub mod signals;
mod sources;
mod spec;
mod terminal;
mod user_namespace;

pub use errors::LaunchError;
pub use namespaces::make_pod_namespaces;
pub use process::{PreparedProcess, Process, create_container, create_in_container, send_signal};
pub(crate) use raw::{ended_child, exit_signals};
pub use spec::*;
pub(crate) use user_namespace::{clone_with_mapped_owners, root_on_host};
