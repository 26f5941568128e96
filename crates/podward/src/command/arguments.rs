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
    /// Print what a container wrote
    #[command(after_help = "\
Examples:
  podward logs web                       the only container of the pod
  podward logs web -c main -f            and what it writes from now on
  podward logs web -p                    of the run before the last restart
  podward logs web --tail 20 --since 5m --timestamps")]
    Logs(LogArguments),
    /// Run a command in a container
    #[command(after_help = "\
Examples:
  podward exec web -- ls /
  podward exec -it web -c main -- sh     with a terminal
  tar c . | podward exec -i web -- tar x -C /data")]
    Exec(ExecArguments),
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

#[derive(Debug, Args)]
pub(super) struct LogArguments {
    /// The pod
    #[arg(value_name = "POD")]
    pub(super) pod: String,
    /// The container, where the pod has several
    #[arg(value_name = "CONTAINER")]
    pub(super) container: Option<String>,
    /// The container, where the pod has several
    #[arg(short = 'c', long = "container", value_name = "CONTAINER", conflicts_with = "container")]
    pub(super) named: Option<String>,
    /// Go on with what is written from now on
    #[arg(short, long)]
    pub(super) follow: bool,
    /// Only the last lines
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    pub(super) tail: Option<i64>,
    /// Only what is newer than this: 30s, 5m, 2h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) since: Option<u64>,
    /// Of the container before the last restart
    #[arg(short, long)]
    pub(super) previous: bool,
    /// Begin each line with its time
    #[arg(long)]
    pub(super) timestamps: bool,
    #[command(flatten)]
    pub(super) scope: Scope,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct ExecArguments {
    /// The pod
    #[arg(value_name = "POD")]
    pub(super) pod: String,
    /// The container, where the pod has several
    #[arg(short, long, value_name = "CONTAINER")]
    pub(super) container: Option<String>,
    /// Give it what is typed or piped in
    #[arg(short = 'i', long)]
    pub(super) stdin: bool,
    /// Give it a terminal
    #[arg(short, long)]
    pub(super) tty: bool,
    /// The command, after `--`
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(super) command: Vec<String>,
    #[command(flatten)]
    pub(super) scope: Scope,
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

/// Seconds of a duration such as `90s`, `5m`, `2h` or `1h30m`.
fn duration(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no duration such as 30s, 5m or 2h");
    let (mut total, mut number) = (0_u64, String::new());
    for letter in text.chars() {
        let unit = match letter {
            '0'..='9' => {
                number.push(letter);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        let count: u64 = std::mem::take(&mut number).parse().map_err(|_| wrong())?;
        total = count.checked_mul(unit).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
    }
    if number.is_empty() && total > 0 { Ok(total) } else { Err(wrong()) }
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
    fn durations_are_kubectls() {
        assert_eq!(duration("30s"), Ok(30));
        assert_eq!(duration("1h30m"), Ok(5400));
        for bad in ["", "5", "m", "5x", "-5s", "99999999999999999999s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn flags_are_kubectls() {
        let parsed =
            CommandLine::try_parse_from("podward get po -n a -owide -l app=web -w".split(' ')).unwrap();
        let Command::Get(get) = parsed.command else { panic!() };
        assert_eq!((get.what.as_str(), get.output, get.watch), ("po", Output::Wide, true));
        let parsed = CommandLine::try_parse_from("podward exec -it web -c a -- sh -c ls".split(' ')).unwrap();
        let Command::Exec(exec) = parsed.command else { panic!() };
        assert_eq!(exec.command, ["sh", "-c", "ls"]);
        assert!(exec.stdin && exec.tty);
        assert!(CommandLine::try_parse_from("podward exec web ls".split(' ')).is_err());
    }
}
