//! Entry point: maps the command's result to an exit code.

use std::process::ExitCode;

/// Gives memory back after a burst of starts, which glibc's allocator keeps.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    match podward::command::run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("podward: {error:#}");
            ExitCode::FAILURE
        }
    }
}
