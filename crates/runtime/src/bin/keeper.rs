//! The keeper of a pod as a separate program.

use std::process::ExitCode;

fn main() -> ExitCode {
    runtime::keeper::run_if_keeper(std::env::args_os().skip(1)).unwrap_or_else(|| {
        eprintln!("this program is started by the container runtime");
        ExitCode::FAILURE
    })
}
