//! Flags that upstream inherited from cAdvisor by mistake: accepted, checked, and without effect here.

use super::{FlagKind, FlagSpec, Status, Target};

const fn ignored(name: &'static str, kind: FlagKind, default: &'static str, help: &'static str) -> FlagSpec {
    let status = Status::Deprecated("it belongs to cAdvisor and has no effect here");
    FlagSpec { name, short: None, kind, target: Target::Nothing(default), status, help }
}

pub(in super::super) static IGNORED: &[FlagSpec] = &[
    ignored(
        "application-metrics-count-limit",
        FlagKind::Int64,
        "100",
        "Application metrics kept per container.",
    ),
    ignored("boot-id-file", FlagKind::Text, "/proc/sys/kernel/random/boot_id", "Files with the boot id."),
    ignored(
        "container-hints",
        FlagKind::Text,
        "/etc/cadvisor/container_hints.json",
        "File of container hints.",
    ),
    ignored(
        "containerd",
        FlagKind::Text,
        "/run/containerd/containerd.sock",
        "Socket of containerd for statistics.",
    ),
    ignored("containerd-namespace", FlagKind::Text, "k8s.io", "Namespace in containerd for statistics."),
    ignored("enable-load-reader", FlagKind::Bool, "false", "Read the CPU load of containers."),
    ignored("event-storage-age-limit", FlagKind::Text, "default=0", "How long events are stored, by type."),
    ignored("event-storage-event-limit", FlagKind::Text, "default=0", "How many events are stored, by type."),
    ignored(
        "global-housekeeping-interval",
        FlagKind::Duration,
        "1m0s",
        "How often all containers are looked at.",
    ),
    ignored("log-cadvisor-usage", FlagKind::Bool, "false", "Log the usage of cAdvisor itself."),
    ignored(
        "machine-id-file",
        FlagKind::Text,
        "/etc/machine-id,/var/lib/dbus/machine-id",
        "Files with the machine id.",
    ),
    ignored("storage-driver-user", FlagKind::Text, "root", "Database user."),
    ignored("storage-driver-password", FlagKind::Text, "root", "Database password."),
    ignored("storage-driver-host", FlagKind::Text, "localhost:8086", "Database address."),
    ignored("storage-driver-db", FlagKind::Text, "cadvisor", "Database name."),
    ignored("storage-driver-table", FlagKind::Text, "stats", "Database table."),
    ignored("storage-driver-secure", FlagKind::Bool, "false", "Use TLS for the database."),
    ignored(
        "storage-driver-buffer-duration",
        FlagKind::Duration,
        "1m0s",
        "How long writes to the database are buffered.",
    ),
];
