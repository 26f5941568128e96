//! Which command was asked for.

use std::path::Path;
use std::process::ExitCode;

use config::CalledAs;

use crate::{check, get, run};

const HELP: &str = "\
Podward makes one Linux machine run exactly the pods it is given.

Usage: podward <command> [flags]

Commands:
  agent                run the node agent (the same as calling this binary `kubelet`); flags as upstream's kubelet
  check FILE...        check manifests (files or folders) and say what is wrong with them, by line and field
  get pods             show the pods of a running agent
  get manifests        show what became of each manifest file
  events [POD]         show the newest events, of one pod if named (-n NAMESPACE, -o json)
  version              show the version
  help                 show this text

`podward agent --help` lists the agent's flags. `get` and `events` ask the agent's read-only port: --server HOST:PORT
(127.0.0.1:10255 by default; the agent serves it when readOnlyPort is set).
";

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
    match rest.split_first().map(|(command, rest)| (command.as_str(), rest)) {
        Some(("agent", rest)) => run::agent(rest, CalledAs::Podward),
        Some(("check", rest)) => check::run(rest),
        Some(("get", rest)) => get::run(rest),
        Some(("events", rest)) => get::run_events(rest),
        Some(("version" | "--version" | "-V", _)) => {
            println!("podward {} (Kubernetes {})", env!("CARGO_PKG_VERSION"), config::KUBERNETES_VERSION);
            Ok(ExitCode::SUCCESS)
        }
        Some(("help" | "--help" | "-h", _)) | None => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        Some((other, _)) => {
            anyhow::bail!("unknown command {other:?}; `podward help` lists the commands")
        }
    }
}
