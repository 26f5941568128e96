//! The words and flags of the commands, as kubectl's users know them.

use std::path::PathBuf;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// What the first word of `podward` may be.
#[derive(Debug, Parser)]
#[command(
    name = "podward",
    about = "Podward makes one Linux machine run exactly the pods it is given.",
    after_help = "`podward agent --help` lists the agent's flags. The other commands ask the agent of this machine over\n\
                  its local socket, as root; no API server is needed.",
    version = version()
)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) command: Command,
}

fn version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"))
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the node agent (the same as calling this binary `kubelet`); flags as upstream's kubelet
    #[command(disable_help_flag = true)]
    Agent {
        /// Flags of the kubelet
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<String>,
    },
    /// Show pods, events, sources of pods, or the node
    #[command(after_help = "\
Examples:
  podward get pods                       all pods of the node
  podward get pods -n kube-system -o wide
  podward get pod web -o yaml            one pod, by its name with or without the node's
  podward get pods --watch               and every change from now on
  podward get events
  podward get sources                    what became of each manifest file, URL and API server
  podward get node -o yaml")]
    Get(GetArguments),
    /// Show everything about a pod
    #[command(after_help = "\
Examples:
  podward describe pod web
  podward describe pod kube-system/dns")]
    Describe(DescribeArguments),
    /// Say in one sentence why a pod is pending, not ready or restarting, with the causes and the next try
    #[command(after_help = "\
Examples:
  podward explain web
  podward explain web -o json")]
    Explain(PodArguments),
    /// Show where the time of a pod's start went
    #[command(after_help = "\
Examples:
  podward timeline web
  podward timeline web -o json")]
    Timeline(PodArguments),
    /// Show events, of one pod if named
    #[command(after_help = "\
Examples:
  podward events
  podward events web
  podward events --types Warning --watch")]
    Events(EventArguments),
    /// Check manifests (files or folders) and say what is wrong with them, by line and field
    #[command(after_help = "\
Examples:
  podward check /etc/kubernetes/manifests
  podward check web.yaml && cp web.yaml /etc/kubernetes/manifests/")]
    Check {
        /// Files or folders
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
    },
    /// Print the completions of a shell
    #[command(after_help = "\
Examples:
  source <(podward completions bash)
  podward completions zsh > \"${fpath[1]}/_podward\"
  podward completions fish > ~/.config/fish/completions/podward.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Show the version
    Version,
}

/// Shells that completions can be made for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Which agent is asked.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which agent")]
pub(super) struct Connection {
    /// The agent's root folder (its --root-dir)
    #[arg(long, value_name = "DIR")]
    pub(super) root_dir: Option<PathBuf>,
    /// The agent's local socket [default: $PODWARD_SOCKET, or podward/agent.sock below the root folder]
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// Ask a read-only port instead, which knows pods, events and manifests
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["root_dir", "socket"])]
    pub(super) server: Option<String>,
}

/// How something is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// Columns for people
    #[default]
    #[value(hide = true)]
    Table,
    /// More columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names only
    Name,
}

/// Which objects.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Scope {
    /// Only of this namespace
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(super) namespace: Option<String>,
    /// Of all namespaces, which is what is shown without -n, too
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
}

#[derive(Debug, Args)]
pub(super) struct GetArguments {
    /// What: pods, events, sources or node
    #[arg(value_name = "WHAT", value_parser = KindParser, hide_possible_values = true)]
    pub(super) what: String,
    /// Only these
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    #[command(flatten)]
    pub(super) scope: Scope,
    /// How it is printed: wide, json, yaml or name
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(super) output: Output,
    /// Show changes as they happen
    #[arg(short, long)]
    pub(super) watch: bool,
    /// Only pods with these labels: `app=web,tier!=db,debug`
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(super) selector: Option<String>,
    /// Leave the line of headings out
    #[arg(long)]
    pub(super) no_headers: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct DescribeArguments {
    /// `pod`, or the pod's name itself
    #[arg(value_name = "pod")]
    pub(super) what: String,
    /// The pod's name
    #[arg(value_name = "NAME")]
    pub(super) name: Option<String>,
    #[command(flatten)]
    pub(super) scope: Scope,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct PodArguments {
    /// The pod
    #[arg(value_name = "POD")]
    pub(super) pod: String,
    #[command(flatten)]
    pub(super) scope: Scope,
    /// How it is printed: wide, json, yaml or name
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct EventArguments {
    /// Only of this pod
    #[arg(value_name = "POD")]
    pub(super) pod: Option<String>,
    #[command(flatten)]
    pub(super) scope: Scope,
    /// How it is printed: wide, json, yaml or name
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(super) output: Output,
    /// Show events as they happen
    #[arg(short, long)]
    pub(super) watch: bool,
    /// Only these types: Normal or Warning
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub(super) types: Vec<String>,
    /// Leave the line of headings out
    #[arg(long)]
    pub(super) no_headers: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}

/// Takes any word, so that `pod/NAME` works, and tells shells the plain ones.
#[derive(Clone)]
struct KindParser;

impl TypedValueParser for KindParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["pods", "events", "sources", "node"].into_iter().map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn flags_are_kubectls() {
        let parsed =
            CommandLine::try_parse_from("podward get po -n a -owide -l app=web -w".split(' ')).unwrap();
        let Command::Get(get) = parsed.command else { panic!() };
        assert_eq!((get.what.as_str(), get.output, get.watch), ("po", Output::Wide, true));
    }
}
