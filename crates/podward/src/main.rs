//! Entry point: maps the result of the command to an exit code.

use std::process::ExitCode;

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
