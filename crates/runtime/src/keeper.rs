//! The keeper of a pod: one small process with a single thread that starts the pod's containers, owns their output and exit codes,
//! and keeps running when the agent ends.
//!
//! Input: requests on the socket `keeper.sock` in the pod's folder, output and exits of containers, input of attached clients.
//! Output: log files, copies for attached clients, exit records in the folder `exits`, messages to every connection.
//!
//! Invariants: an exit is on disk before it is reported. No container can block the keeper or end it: reads are
//! bounded, log writes that fail are dropped, connections that do not read are closed. The keeper sleeps while nothing happens.

pub mod client;
mod clients;
mod connection;
mod container;
mod event_loop;
mod exec_cgroup;
mod exits;
mod input;
mod output;
pub mod protocol;
mod requests;
mod sealed;
mod start;
mod streams;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

pub use exits::read_exit;
pub use sealed::{SealError, SealedProgram};
pub use start::{KeeperError, start_keeper};

/// The first argument of a process that is a keeper.
pub const KEEPER_ARGUMENT: &str = "podward-keeper";

/// Runs the keeper if this process was started as one. The program calls this before it starts a thread.
#[must_use]
pub fn run_if_keeper(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.next()? != KEEPER_ARGUMENT {
        return None;
    }
    let folder = PathBuf::from(arguments.next().unwrap_or_default());
    match event_loop::run(&folder) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            // The starter reads this, or the keeper's log has it.
            eprintln!("keeper of {}: {error}", folder.display());
            Some(ExitCode::FAILURE)
        }
    }
}
