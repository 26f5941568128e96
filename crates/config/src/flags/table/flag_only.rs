//! Flags that no configuration file can replace.

use super::{FlagKind, FlagSpec, Status, Target, flag_only};

pub(in super::super) static START: &[FlagSpec] = &[
    flag_only(
        "config",
        FlagKind::Text,
        "",
        "Path of the configuration file. Flags take precedence over its values.",
    ),
    flag_only(
        "config-dir",
        FlagKind::Text,
        "",
        "Directory of drop-in files with the suffix .conf, merged into the configuration in lexical order.",
    ),
    flag_only("root-dir", FlagKind::Text, "/var/lib/kubelet", "Directory for pods, volumes and state."),
    flag_only(
        "cert-dir",
        FlagKind::Text,
        "/var/lib/kubelet/pki",
        "Directory for certificates that the agent creates or requests.",
    ),
    flag_only("lock-file", FlagKind::Text, "", "File that the agent keeps locked while it runs (alpha)."),
    flag_only(
        "exit-on-lock-contention",
        FlagKind::Bool,
        "false",
        "Exit when another process opens the lock file. Requires --lock-file.",
    ),
    flag_only("version", FlagKind::Version, "false", "Print the version and exit."),
    FlagSpec {
        name: "help",
        short: Some('h'),
        kind: FlagKind::Bool,
        target: Target::FlagOnly("false"),
        status: Status::Current,
        help: "Print this help text and exit.",
    },
];

pub(in super::super) static NODE: &[FlagSpec] = &[
    flag_only(
        "kubeconfig",
        FlagKind::Text,
        "",
        "Kubeconfig file for the API server. Without it, the agent runs in standalone mode.",
    ),
    flag_only(
        "bootstrap-kubeconfig",
        FlagKind::Text,
        "",
        "Kubeconfig file to request a client certificate with if the file given by --kubeconfig does not exist.",
    ),
    flag_only("hostname-override", FlagKind::Text, "", "Name of the node. If empty, the host name is used."),
    flag_only(
        "node-ip",
        FlagKind::Text,
        "",
        "IP address of the node, or an IPv4 and an IPv6 address separated by a comma. 0.0.0.0 and :: only select the IP family.",
    ),
    flag_only(
        "node-labels",
        FlagKind::Labels,
        "",
        "Labels to register the node with. Below kubernetes.io and k8s.io, only the labels that a node may set on itself are accepted.",
    ),
    flag_only(
        "cloud-provider",
        FlagKind::Text,
        "",
        "Cloud provider: \"external\" if a cloud controller manager initializes the node, otherwise empty.",
    ),
];

/// Flags that upstream does not have; their names start with `podward-`.
pub(in super::super) static PODWARD: &[FlagSpec] = &[
    flag_only(
        "podward-offline",
        FlagKind::Bool,
        "true",
        "Cache the pods of the API server and the objects they need, encrypted, and run them while the API server is unreachable.",
    ),
    flag_only(
        "podward-offline-max-age",
        FlagKind::Duration,
        "0s",
        "Do not start pods from the cache if the API server last confirmed them longer ago than this; 0 for no limit.",
    ),
    flag_only(
        "podward-streaming-get",
        FlagKind::Bool,
        "false",
        "Authorize WebSocket requests for exec, attach and port-forward as get, like upstream. By default they require the create permission.",
    ),
];

pub(in super::super) static RUNTIME: &[FlagSpec] = &[
    flag_only(
        "runtime-cgroups",
        FlagKind::Text,
        "",
        "Cgroup of the container runtime, used for its statistics.",
    ),
    flag_only(
        "image-credential-provider-config",
        FlagKind::Text,
        "",
        "Configuration file of the credential provider plugins, or a directory of such files.",
    ),
    flag_only(
        "image-credential-provider-bin-dir",
        FlagKind::Text,
        "",
        "Directory of the credential provider plugins.",
    ),
    flag_only(
        "seccomp-default",
        FlagKind::Bool,
        "false",
        "Use the seccomp profile RuntimeDefault for containers that do not specify one.",
    ),
    FlagSpec {
        name: "housekeeping-interval",
        short: None,
        kind: FlagKind::Duration,
        target: Target::Ignored("10s"),
        status: Status::NoEffect("statistics are collected on request"),
        help: "Interval between housekeeping runs of cAdvisor.",
    },
];

const USE_EVICTION: &str = "use --eviction-hard or --eviction-soft";

const fn deprecated(
    name: &'static str,
    kind: FlagKind,
    default: &'static str,
    notice: &'static str,
    help: &'static str,
) -> FlagSpec {
    FlagSpec {
        name,
        short: None,
        kind,
        target: Target::FlagOnly(default),
        status: Status::Deprecated(notice),
        help,
    }
}

pub(in super::super) static CONTAINER_GC: &[FlagSpec] = &[
    deprecated(
        "minimum-container-ttl-duration",
        FlagKind::Duration,
        "0s",
        USE_EVICTION,
        "Minimum age of a dead container before it may be removed.",
    ),
    deprecated(
        "maximum-dead-containers-per-container",
        FlagKind::Int32,
        "1",
        USE_EVICTION,
        "Maximum number of dead instances to keep per container.",
    ),
    deprecated(
        "maximum-dead-containers",
        FlagKind::Int32,
        "-1",
        USE_EVICTION,
        "Maximum number of dead containers to keep on the node; a negative value means no limit.",
    ),
    FlagSpec {
        name: "experimental-mounter-path",
        short: None,
        kind: FlagKind::Text,
        target: Target::Ignored(""),
        status: Status::Deprecated("the agent mounts volumes itself, so it has no effect here"),
        help: "Path of a mounter binary.",
    },
    deprecated(
        "experimental-allocatable-ignore-eviction",
        FlagKind::Bool,
        "false",
        "it will be removed from Kubernetes",
        "Do not subtract the hard eviction thresholds from the allocatable resources of the node.",
    ),
];
