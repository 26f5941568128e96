//! Entry point: maps the result of the command to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before any thread starts: a keeper has one only.
    if let Some(code) = runtime::keeper::run_if_keeper(std::env::args_os().skip(1)) {
        return code;
    }
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
