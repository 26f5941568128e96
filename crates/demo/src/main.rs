//! `demo`: the one program inside the test and demo images.
//!
//! It is linked statically and has no configuration, so an image is this file and nothing else.
//! In comes a command line of steps separated by `--`; each runs after the one before, and the
//! process ends with the first step that asks for an exit code, or 0 after the last one:
//!
//! ```text
//! demo env -- cat /etc/hosts -- sleep forever
//! ```
//!
//! `demo --help` lists the steps. It deliberately understands no shell syntax, opens nothing it is
//! not told to, and as process 1 of a container it handles SIGTERM and reaps its children.

mod grpc;
mod serve;
mod signals;
mod steps;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Before any thread exists, so that every thread inherits the mask.
    if let Err(error) = signals::hold() {
        eprintln!("demo: hold signals: {error}");
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
