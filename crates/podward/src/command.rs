//! The commands of the binary: which was asked for, and what it prints.
//!
//! `podward agent`, and the binary under the name `kubelet`, take upstream's flags as they are; everything else is a
//! command for people, which asks a running agent over its local socket.

mod arguments;
mod client;
mod describe;
mod exec;
mod explain;
mod get;
mod logs;
mod names;
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
use config::CalledAs;

use crate::{check, run};

/// Runs the command of a whole command line, the program's name first.
///
/// # Errors
/// What the user should read.
pub fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let (program, rest) = match arguments.split_first() {
        Some((program, rest)) => (program.as_str(), rest),
        None => ("podward", arguments),
    };
    let name = Path::new(program).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    if name.starts_with("kubelet") {
        return run::agent(rest, CalledAs::Kubelet);
    }
    // Flags of the agent are upstream's business, down to the last dash.
    if let Some(("agent", flags)) = rest.split_first().map(|(word, rest)| (word.as_str(), rest)) {
        return run::agent(flags, CalledAs::Podward);
    }
    if rest.is_empty() {
        get::print(&CommandLine::command().render_help().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = std::iter::once("podward").chain(rest.iter().map(String::as_str));
    let parsed = match CommandLine::try_parse_from(words) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help goes to standard output and is no failure.
            error.print().context("print the help")?;
            return Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1)));
        }
    };
    match parsed.command {
        Command::Agent { flags } => run::agent(&flags, CalledAs::Podward),
        Command::Check { files } => check::run(&files),
        Command::Get(arguments) => block_on(get::run(arguments)),
        Command::Events(arguments) => block_on(get::run_events(arguments)),
        Command::Describe(arguments) => block_on(describe::run(arguments)),
        Command::Explain(arguments) => block_on(explain::run(arguments)),
        Command::Timeline(arguments) => block_on(timeline::run(arguments)),
        Command::Logs(arguments) => block_on(logs::run(arguments)),
        Command::Exec(arguments) => block_on(exec::run(arguments)),
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
            println!("podward {} (Kubernetes {})", env!("CARGO_PKG_VERSION"), config::KUBERNETES_VERSION);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// One thread is enough for a command.
fn block_on(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}
