//! Flags that no configuration file can replace.

use super::{FlagKind, FlagSpec, Status, Target, own};

pub(in super::super) static START: &[FlagSpec] = &[
    own("config", FlagKind::Text, "", "Configuration file; flags win over it."),
    own(
        "config-dir",
        FlagKind::Text,
        "",
        "Directory of *.conf drop-in files, merged over the configuration file in lexical order.",
    ),
    own("root-dir", FlagKind::Text, "/var/lib/kubelet", "Directory for pods, volumes and state."),
    own(
        "cert-dir",
        FlagKind::Text,
        "/var/lib/kubelet/pki",
        "Directory for certificates that the agent makes or requests.",
    ),
    own("lock-file", FlagKind::Text, "", "File to hold a lock on while running (alpha)."),
    own(
        "exit-on-lock-contention",
        FlagKind::Bool,
        "false",
        "Exit when another process opens the lock file; needs --lock-file.",
    ),
    own("version", FlagKind::Version, "false", "Print the version and exit; =raw prints more."),
    FlagSpec {
        name: "help",
        short: Some('h'),
        kind: FlagKind::Bool,
        target: Target::Own("false"),
        status: Status::Current,
        help: "Print this text and exit.",
    },
];

pub(in super::super) static NODE: &[FlagSpec] = &[
    own(
        "kubeconfig",
        FlagKind::Text,
        "",
        "Credentials for the API server; without it the node stands alone.",
    ),
    own(
        "bootstrap-kubeconfig",
        FlagKind::Text,
        "",
        "Credentials to request a client certificate with while --kubeconfig does not exist.",
    ),
    own("hostname-override", FlagKind::Text, "", "Name of the node instead of the host name."),
    own(
        "node-ip",
        FlagKind::Text,
        "",
        "Address of the node, or two of them for dual-stack; 0.0.0.0 or :: choose a family only.",
    ),
    own(
        "node-labels",
        FlagKind::Labels,
        "",
        "Labels to register the node with; keys under kubernetes.io are limited to those a node may set.",
    ),
    own(
        "cloud-provider",
        FlagKind::Text,
        "",
        "Empty, or \"external\" when a cloud controller completes the node.",
    ),
];

/// What upstream has no word for; every name begins with `podward-`.
pub(in super::super) static PODWARD: &[FlagSpec] = &[
    own(
        "podward-offline",
        FlagKind::Bool,
        "true",
        "Remember the pods of the API server and what they need, encrypted, and run them while it cannot be reached.",
    ),
    own(
        "podward-offline-max-age",
        FlagKind::Duration,
        "0s",
        "Pods that the API server last confirmed longer ago than this are not run from memory; 0 means any age.",
    ),
    own(
        "podward-streaming-get",
        FlagKind::Bool,
        "false",
        "Let those who may only read nodes/proxy open exec, attach and port-forward by WebSocket, as upstream does.",
    ),
];

pub(in super::super) static RUNTIME: &[FlagSpec] = &[
    own("runtime-cgroups", FlagKind::Text, "", "Cgroup of the container runtime, for its statistics."),
    own(
        "image-credential-provider-config",
        FlagKind::Text,
        "",
        "Credential plugin configuration, a file or a directory of files.",
    ),
    own("image-credential-provider-bin-dir", FlagKind::Text, "", "Directory of credential plugins."),
    own(
        "seccomp-default",
        FlagKind::Bool,
        "false",
        "Give containers without a seccomp profile the runtime's.",
    ),
    FlagSpec {
        name: "housekeeping-interval",
        short: None,
        kind: FlagKind::Duration,
        target: Target::Nothing("10s"),
        status: Status::Idle("statistics are read when they are asked for"),
        help: "Accepted and ignored: statistics are read when they are asked for.",
    },
];

const USE_EVICTION: &str = "use --eviction-hard or --eviction-soft";

const fn old(
    name: &'static str,
    kind: FlagKind,
    default: &'static str,
    why: &'static str,
    help: &'static str,
) -> FlagSpec {
    FlagSpec { name, short: None, kind, target: Target::Own(default), status: Status::Deprecated(why), help }
}

pub(in super::super) static OLD: &[FlagSpec] = &[
    old(
        "minimum-container-ttl-duration",
        FlagKind::Duration,
        "0s",
        USE_EVICTION,
        "Youngest dead container that may be removed.",
    ),
    old(
        "maximum-dead-containers-per-container",
        FlagKind::Int32,
        "1",
        USE_EVICTION,
        "Dead instances kept per container.",
    ),
    old(
        "maximum-dead-containers",
        FlagKind::Int32,
        "-1",
        USE_EVICTION,
        "Dead containers kept on the node; negative for no limit.",
    ),
    FlagSpec {
        name: "experimental-mounter-path",
        short: None,
        kind: FlagKind::Text,
        target: Target::Nothing(""),
        status: Status::Deprecated("volumes are mounted by the agent itself, so it has no effect here"),
        help: "Accepted and ignored: volumes are mounted by the agent itself.",
    },
    old(
        "experimental-allocatable-ignore-eviction",
        FlagKind::Bool,
        "false",
        "it will be removed",
        "Leave eviction thresholds out of what the node has to give.",
    ),
];
