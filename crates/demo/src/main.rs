//! `demo`: the program in the test and demo images.
//!
//! It is statically linked and needs no other files, so an image contains nothing else.
//! The command line is a list of steps separated by `--`. They run in order, and the process
//! exits with the code of the first step that sets one, or 0 after the last one:
//!
//! ```text
//! demo env -- cat /etc/hosts -- sleep forever
//! ```
//!
//! `demo --help` lists the steps. There is deliberately no shell syntax. As process 1 of a
//! container it handles SIGTERM and reaps its children.

mod grpc;
mod serve;
mod signals;
mod steps;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Before the first thread starts, so that all threads inherit the mask.
    if let Err(error) = signals::block() {
        eprintln!("demo: block signals: {error}");
        return ExitCode::from(1);
    }
    for step in arguments.split(|argument| argument == "--") {
        match steps::run(step) {
            Ok(steps::Outcome::Next) => {}
            Ok(steps::Outcome::Exit(code)) => return ExitCode::from(code),
            Err(message) => {
                eprintln!("demo: {message}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}
