//! The command line of the binary.
//!
//! `podward agent`, and the binary under the name `kubelet`, accept upstream's flags. The other commands, except `check`,
//! `image`, `run`, `runtime`, `completions` and `version`, connect to a running agent through its local socket.

mod arguments;
mod client;
mod describe;
mod exec;
mod explain;
mod get;
mod image;
mod logs;
#[cfg(test)]
mod man_page_tests;
mod pod_names;
pub(crate) mod run_pods;
pub(crate) mod runtime;
mod selector;
mod table;
mod terminal;
mod timeline;
#[cfg(test)]
mod yaml_tests;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use arguments::{Command, CommandLine, Shell};
use clap::{CommandFactory, Parser};
use config::ProgramName;

use crate::version::version_line;
use crate::{check, run};

/// Runs a command. The first argument is the name of the program.
///
/// # Errors
/// The message for the user.
pub fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let (program, rest) = match arguments.split_first() {
        Some((program, rest)) => (program.as_str(), rest),
        None => ("podward", arguments),
    };
    let name = Path::new(program).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    if name.starts_with("kubelet") {
        return run::agent(rest, ProgramName::Kubelet);
    }
    // clap must not interpret the flags of the agent, which follow upstream's rules.
    if let Some(("agent", flags)) = rest.split_first().map(|(command, flags)| (command.as_str(), flags)) {
        return run::agent(flags, ProgramName::Podward);
    }
    if rest.is_empty() {
        get::print(&CommandLine::command().render_help().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let arguments = std::iter::once("podward").chain(rest.iter().map(String::as_str));
    let parsed = match CommandLine::try_parse_from(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            // clap reports a request for help as an error with exit code 0.
            error.print().context("print the message")?;
            return Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1)));
        }
    };
    match parsed.command {
        Command::Agent { flags } => run::agent(&flags, ProgramName::Podward),
        Command::Check { files } => check::run(&files),
        Command::Get(arguments) => block_on(get::run(arguments)),
        Command::Events(arguments) => block_on(get::run_events(arguments)),
        Command::Describe(arguments) => block_on(describe::run(arguments)),
        Command::Explain(arguments) => block_on(explain::run(arguments)),
        Command::Timeline(arguments) => block_on(timeline::run(arguments)),
        Command::Logs(arguments) => block_on(logs::run(arguments)),
        Command::Exec(arguments) => block_on(exec::run(arguments)),
        Command::Image(arguments) => block_on(image::run(arguments)),
        Command::Run(arguments) => run_pods::run(&arguments),
        Command::Runtime(arguments) => runtime::run(&arguments),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            let shell = match shell {
                Shell::Bash => clap_complete::Shell::Bash,
                Shell::Zsh => clap_complete::Shell::Zsh,
                Shell::Fish => clap_complete::Shell::Fish,
            };
            clap_complete::generate(shell, &mut CommandLine::command(), "podward", &mut text);
            get::print(&String::from_utf8_lossy(&text))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Version => {
            println!("{}", version_line());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn block_on(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}
