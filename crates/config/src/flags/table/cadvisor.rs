//! Flags that the upstream kubelet inherits from cAdvisor by accident. They are parsed and ignored.

use super::{FlagSpec, Status, Target};

const fn ignored(default: &'static str) -> (Target, Status) {
    (Target::Ignored(default), Status::Deprecated("it belongs to cAdvisor and has no effect here"))
}

pub(in super::super) static IGNORED: &[FlagSpec] = flags! {
    /// Maximum number of application metrics stored per container.
    "application-metrics-count-limit": Int64 = ignored("100"),
    /// Comma-separated list of files to look for the boot id in.
    "boot-id-file": Text = ignored("/proc/sys/kernel/random/boot_id"),
    /// Path of the container hints file.
    "container-hints": Text = ignored("/etc/cadvisor/container_hints.json"),
    /// Endpoint of containerd.
    "containerd": Text = ignored("/run/containerd/containerd.sock"),
    /// Namespace in containerd.
    "containerd-namespace": Text = ignored("k8s.io"),
    /// Read the CPU load of containers.
    "enable-load-reader": Bool = ignored("false"),
    /// Maximum age of stored events, per event type.
    "event-storage-age-limit": Text = ignored("default=0"),
    /// Maximum number of stored events, per event type.
    "event-storage-event-limit": Text = ignored("default=0"),
    /// Interval between global housekeeping runs.
    "global-housekeeping-interval": Duration = ignored("1m0s"),
    /// Log the resource usage of cAdvisor.
    "log-cadvisor-usage": Bool = ignored("false"),
    /// Comma-separated list of files to look for the machine id in.
    "machine-id-file": Text = ignored("/etc/machine-id,/var/lib/dbus/machine-id"),
    /// User name for the statistics database.
    "storage-driver-user": Text = ignored("root"),
    /// Password for the statistics database.
    "storage-driver-password": Text = ignored("root"),
    /// Host and port of the statistics database.
    "storage-driver-host": Text = ignored("localhost:8086"),
    /// Name of the statistics database.
    "storage-driver-db": Text = ignored("cadvisor"),
    /// Table in the statistics database.
    "storage-driver-table": Text = ignored("stats"),
    /// Use TLS for the connection to the statistics database.
    "storage-driver-secure": Bool = ignored("false"),
    /// How long writes to the statistics database are buffered.
    "storage-driver-buffer-duration": Duration = ignored("1m0s"),
};
