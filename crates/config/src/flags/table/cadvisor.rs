//! Flags that the upstream kubelet inherits from cAdvisor by accident. They are parsed and ignored.

use super::{FlagKind, FlagSpec, Status, Target};

const fn ignored(name: &'static str, kind: FlagKind, default: &'static str, help: &'static str) -> FlagSpec {
    let status = Status::Deprecated("it belongs to cAdvisor and has no effect here");
    FlagSpec { name, short: None, kind, target: Target::Ignored(default), status, help }
}

pub(in super::super) static IGNORED: &[FlagSpec] = &[
    ignored(
        "application-metrics-count-limit",
        FlagKind::Int64,
        "100",
        "Maximum number of application metrics stored per container.",
    ),
    ignored(
        "boot-id-file",
        FlagKind::Text,
        "/proc/sys/kernel/random/boot_id",
        "Comma-separated list of files to look for the boot id in.",
    ),
    ignored(
        "container-hints",
        FlagKind::Text,
        "/etc/cadvisor/container_hints.json",
        "Path of the container hints file.",
    ),
    ignored("containerd", FlagKind::Text, "/run/containerd/containerd.sock", "Endpoint of containerd."),
    ignored("containerd-namespace", FlagKind::Text, "k8s.io", "Namespace in containerd."),
    ignored("enable-load-reader", FlagKind::Bool, "false", "Read the CPU load of containers."),
    ignored(
        "event-storage-age-limit",
        FlagKind::Text,
        "default=0",
        "Maximum age of stored events, per event type.",
    ),
    ignored(
        "event-storage-event-limit",
        FlagKind::Text,
        "default=0",
        "Maximum number of stored events, per event type.",
    ),
    ignored(
        "global-housekeeping-interval",
        FlagKind::Duration,
        "1m0s",
        "Interval between global housekeeping runs.",
    ),
    ignored("log-cadvisor-usage", FlagKind::Bool, "false", "Log the resource usage of cAdvisor."),
    ignored(
        "machine-id-file",
        FlagKind::Text,
        "/etc/machine-id,/var/lib/dbus/machine-id",
        "Comma-separated list of files to look for the machine id in.",
    ),
    ignored("storage-driver-user", FlagKind::Text, "root", "User name for the statistics database."),
    ignored("storage-driver-password", FlagKind::Text, "root", "Password for the statistics database."),
    ignored(
        "storage-driver-host",
        FlagKind::Text,
        "localhost:8086",
        "Host and port of the statistics database.",
    ),
    ignored("storage-driver-db", FlagKind::Text, "cadvisor", "Name of the statistics database."),
    ignored("storage-driver-table", FlagKind::Text, "stats", "Table in the statistics database."),
    ignored(
        "storage-driver-secure",
        FlagKind::Bool,
        "false",
        "Use TLS for the connection to the statistics database.",
    ),
    ignored(
        "storage-driver-buffer-duration",
        FlagKind::Duration,
        "1m0s",
        "How long writes to the statistics database are buffered.",
    ),
];
