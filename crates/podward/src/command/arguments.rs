//! The commands and their flags, named as in kubectl.

use std::path::PathBuf;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use values::duration::GoDuration;

use super::image::ImageArguments;
use super::run_pods::RunArguments;
use super::runtime::RuntimeArguments;
use crate::version::without_program;

#[derive(Debug, Parser)]
#[command(
    name = "podward",
    about = "Podward runs pods on one Linux machine.",
    after_help = "`podward agent --help` lists the flags of the agent. The other commands connect to the agent of this\n\
                  machine through its local socket, which needs root but no API server.",
    version = without_program()
)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the node agent, with the flags of the kubelet (the same as running this binary under the name `kubelet`)
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
  podward get pod web -o yaml            one pod; the name of the node can be omitted
  podward get pods --watch               all pods, then every change
  podward get events
  podward get sources                    the state of each manifest file, URL and API server
  podward get node -o yaml")]
    Get(GetArguments),
    /// Show the details of a pod
    #[command(after_help = "\
Examples:
  podward describe pod web
  podward describe pod kube-system/dns")]
    Describe(DescribeArguments),
    /// Explain why a pod is pending, not ready or restarting: one sentence, the causes and the next try
    #[command(after_help = "\
Examples:
  podward explain web
  podward explain web -o json")]
    Explain(PodArguments),
    /// Show how long each step of a pod's start took
    #[command(after_help = "\
Examples:
  podward timeline web
  podward timeline web -o json")]
    Timeline(PodArguments),
    /// Show events, of all pods or of one
    #[command(after_help = "\
Examples:
  podward events
  podward events web
  podward events --types Warning --watch")]
    Events(EventArguments),
    /// Print the output of a container
    #[command(after_help = "\
Examples:
  podward logs web                       the default container of the pod
  podward logs web -c main -f            follow the output
  podward logs web -p                    the output before the last restart
  podward logs web --tail 20 --since 5m --timestamps")]
    Logs(LogArguments),
    /// Run a command in a container
    #[command(after_help = "\
Examples:
  podward exec web -- ls /
  podward exec -it web -c main -- sh     with a terminal
  tar c . | podward exec -i web -- tar x -C /data")]
    Exec(ExecArguments),
    /// Check manifest files or folders and print errors with line and field
    #[command(after_help = "\
Examples:
  podward check /etc/kubernetes/manifests
  podward check web.yaml && cp web.yaml /etc/kubernetes/manifests/")]
    Check {
        /// Manifest files or folders
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
    },
    /// Run pods in the foreground with the container runtime inside, and return their exit code
    #[command(after_help = "\
The run ends when all pods have ended (restartPolicy Never or OnFailure), with the exit code of the first container that
failed, or when it is stopped: Ctrl-C ends the pods within their grace periods, a second one kills them. ConfigMaps and
Secrets in the same files are used by the pods. A run needs no agent, and can run beside one.

Examples:
  podward run job.yaml                   until the job has ended
  podward run --logs web.yaml settings.yaml
  kubectl create --dry-run=client -o yaml -f pod.yaml | podward run -
  podward run --quiet job.yaml > output
  podward run --root-dir ./state job.yaml; cat ./state/podward.log")]
    Run(RunArguments),
    /// Run the container runtime alone, for crictl or another node agent
    #[command(after_help = "\
Examples:
  podward runtime --listen unix:///run/podward/runtime.sock
  crictl --runtime-endpoint unix:///run/podward/runtime.sock ps")]
    Runtime(RuntimeArguments),
    /// Show and change the images of the container runtime inside
    #[command(after_help = "\
Examples:
  podward image ls
  podward image pull docker.io/library/busybox
  podward image import web.tar           made by docker save, or an OCI layout
  podward image rm docker.io/library/busybox:latest
  podward image prune                    images without a name")]
    Image(ImageArguments),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  source <(podward completions bash)
  podward completions zsh > \"${fpath[1]}/_podward\"
  podward completions fish > ~/.config/fish/completions/podward.fish")]
    Completions { shell: Shell },
    /// Show the version
    Version,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Agent")]
pub(super) struct Connection {
    /// The root folder of the agent (its --root-dir)
    #[arg(long, value_name = "DIR")]
    pub(super) root_dir: Option<PathBuf>,
    /// The local socket of the agent [default: $PODWARD_SOCKET, or podward/agent.sock below the root folder]
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// Use a read-only port instead of the socket; it serves pods, events and manifests
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["root_dir", "socket"])]
    pub(super) server: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A table
    #[default]
    #[value(hide = true)]
    Table,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names only
    Name,
}

#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct OutputFormat {
    /// Output format: wide, json, yaml or name
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
}

#[derive(Clone, Debug, Default, Args)]
pub(super) struct Scope {
    /// Show only this namespace
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(super) namespace: Option<String>,
    /// Show all namespaces (the default)
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
}

#[derive(Debug, Args)]
pub(super) struct GetArguments {
    /// pods, events, sources or node
    #[arg(value_name = "KIND", value_parser = KindParser, hide_possible_values = true)]
    pub(super) kind: String,
    /// Show only these objects
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    #[command(flatten)]
    pub(super) scope: Scope,
    #[command(flatten)]
    pub(super) format: OutputFormat,
    /// Show changes as they happen
    #[arg(short, long)]
    pub(super) watch: bool,
    /// Show only pods with these labels: `app=web,tier!=db,debug`
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(super) selector: Option<String>,
    /// Print no headings
    #[arg(long)]
    pub(super) no_headers: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct DescribeArguments {
    /// `pod`, or the name of the pod
    #[arg(value_name = "pod")]
    pub(super) kind_or_name: String,
    /// The name of the pod
    #[arg(value_name = "NAME")]
    pub(super) name: Option<String>,
    #[command(flatten)]
    pub(super) scope: Scope,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct PodArguments {
    /// The name of the pod
    #[arg(value_name = "POD")]
    pub(super) pod: String,
    #[command(flatten)]
    pub(super) scope: Scope,
    #[command(flatten)]
    pub(super) format: OutputFormat,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct EventArguments {
    /// Show only events of this pod
    #[arg(value_name = "POD")]
    pub(super) pod: Option<String>,
    #[command(flatten)]
    pub(super) scope: Scope,
    #[command(flatten)]
    pub(super) format: OutputFormat,
    /// Show events as they happen
    #[arg(short, long)]
    pub(super) watch: bool,
    /// Show only these types: Normal, Warning
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub(super) types: Vec<String>,
    /// Print no headings
    #[arg(long)]
    pub(super) no_headers: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct LogArguments {
    /// The name of the pod
    #[arg(value_name = "POD")]
    pub(super) pod: String,
    /// The container, if the pod has several
    #[arg(value_name = "CONTAINER")]
    pub(super) container: Option<String>,
    /// The container, if the pod has several
    #[arg(short = 'c', long = "container", value_name = "CONTAINER", conflicts_with = "container")]
    pub(super) container_flag: Option<String>,
    /// Follow the output
    #[arg(short, long)]
    pub(super) follow: bool,
    /// Print only the last lines; -1 prints all
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    pub(super) tail: Option<i64>,
    /// Print only output that is newer than this: 30s, 5m, 2h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) since: Option<u64>,
    /// Print the output of the container before its last restart
    #[arg(short, long)]
    pub(super) previous: bool,
    /// Print a timestamp before each line
    #[arg(long)]
    pub(super) timestamps: bool,
    #[command(flatten)]
    pub(super) scope: Scope,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Debug, Args)]
pub(super) struct ExecArguments {
    /// The name of the pod
    #[arg(value_name = "POD")]
    pub(super) pod: String,
    /// The container, if the pod has several
    #[arg(short, long, value_name = "CONTAINER")]
    pub(super) container: Option<String>,
    /// Send standard input to the command
    #[arg(short = 'i', long)]
    pub(super) stdin: bool,
    /// Run the command on a terminal
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

/// Accepts any text, so that `pod/NAME` works, and offers the kinds to shell completion.
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

/// Seconds of a duration such as `90s`, `5m`, `2h` or `1h30m`. Days (`2d12h`) extend Go's format.
fn duration(text: &str) -> Result<u64, String> {
    let (days, rest) = match text.split_once('d') {
        Some((days, "")) => (days, "0"),
        Some((days, rest)) => (days, rest),
        None => ("0", text),
    };
    let days = days.parse::<u64>().ok().and_then(|days| days.checked_mul(86_400));
    let rest = rest.parse::<GoDuration>().ok().filter(|rest| !rest.is_negative());
    let seconds = days.zip(rest).and_then(|(days, rest)| days.checked_add(rest.to_std().as_secs()));
    seconds
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| format!("{text:?} is not a duration such as 30s, 5m or 2h"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_definition_is_valid() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn parses_durations_as_kubectl() {
        assert_eq!(duration("30s"), Ok(30));
        assert_eq!(duration("1h30m"), Ok(5400));
        assert_eq!(duration("2d"), Ok(172_800));
        assert_eq!(duration("1d12h"), Ok(129_600));
        for bad in ["", "5", "m", "5x", "-5s", "0s", "d", "1d5", "-1d", "1h1d", "99999999999999999999s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn accepts_kubectl_flags() {
        let parsed =
            CommandLine::try_parse_from("podward get po -n a -owide -l app=web -w".split(' ')).unwrap();
        let Command::Get(get) = parsed.command else { panic!() };
        assert_eq!((get.kind.as_str(), get.format.output, get.watch), ("po", Output::Wide, true));
        let parsed = CommandLine::try_parse_from("podward exec -it web -c a -- sh -c ls".split(' ')).unwrap();
        let Command::Exec(exec) = parsed.command else { panic!() };
        assert_eq!(exec.command, ["sh", "-c", "ls"]);
        assert!(exec.stdin && exec.tty);
        assert!(CommandLine::try_parse_from("podward exec web ls".split(' ')).is_err());
    }
}
