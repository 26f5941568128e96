//! Flags that no configuration file can replace.

use super::{FlagSpec, Status, Target, flag_only};

pub(in super::super) static START: &[FlagSpec] = flags! {
    /// Path of the configuration file. Flags take precedence over its values.
    "config": Text = flag_only(""),
    /// Directory of drop-in files with the suffix .conf, merged into the configuration in lexical order.
    "config-dir": Text = flag_only(""),
    /// Directory for pods, volumes and state.
    "root-dir": Text = flag_only("/var/lib/kubelet"),
    /// Directory for certificates that the agent creates or requests.
    "cert-dir": Text = flag_only("/var/lib/kubelet/pki"),
    /// File that the agent keeps locked while it runs (alpha).
    "lock-file": Text = flag_only(""),
    /// Exit when another process opens the lock file. Requires --lock-file.
    "exit-on-lock-contention": Bool = flag_only("false"),
    /// Print the version and exit.
    "version": Version = flag_only("false"),
    /// Print this help text and exit.
    "help" | 'h': Bool = flag_only("false"),
};

pub(in super::super) static NODE: &[FlagSpec] = flags! {
    /// Kubeconfig file for the API server. Without it, the agent runs in standalone mode.
    "kubeconfig": Text = flag_only(""),
    /// Kubeconfig file to request a client certificate with if the file given by --kubeconfig does not exist.
    "bootstrap-kubeconfig": Text = flag_only(""),
    /// Name of the node. If empty, the host name is used.
    "hostname-override": Text = flag_only(""),
    /// IP address of the node, or an IPv4 and an IPv6 address separated by a comma. 0.0.0.0 and :: only select
    /// the IP family.
    "node-ip": Text = flag_only(""),
    /// Labels to register the node with. Below kubernetes.io and k8s.io, only the labels that a node may set on
    /// itself are accepted.
    "node-labels": Labels = flag_only(""),
    /// Cloud provider: "external" if a cloud controller manager initializes the node, otherwise empty.
    "cloud-provider": Text = flag_only(""),
};

/// Flags that upstream does not have; their names start with `podward-`.
pub(in super::super) static PODWARD: &[FlagSpec] = flags! {
    /// Inject the faults of this file into calls to the container runtime, for game days. The node has the condition
    /// FaultsInjected meanwhile.
    "podward-faults": Text = flag_only(""),
    /// Cache the pods of the API server and the objects they need, encrypted, and run them while the API server
    /// is unreachable.
    "podward-offline": Bool = flag_only("true"),
    /// Do not start pods from the cache if the API server last confirmed them longer ago than this; 0 for no
    /// limit.
    "podward-offline-max-age": Duration = flag_only("0s"),
    /// Authorize WebSocket requests for exec, attach and port-forward as get, like upstream. By default they
    /// require the create permission.
    "podward-streaming-get": Bool = flag_only("false"),
    /// Also serve the container runtime inside on this socket, for crictl: unix:///run/podward/runtime.sock. Only
    /// without containerRuntimeEndpoint.
    "podward-runtime-listen": Text = flag_only(""),
    /// Bridge that the container runtime inside connects pods to.
    "podward-pod-bridge": Text = flag_only("podward0"),
    /// Directory of CNI configurations for the container runtime inside. Without a configuration there, pods are
    /// connected to a bridge without plugins.
    "podward-cni-conf-dir": Text = flag_only("/etc/cni/net.d"),
};

pub(in super::super) static RUNTIME: &[FlagSpec] = flags! {
    /// Cgroup of the container runtime, used for its statistics.
    "runtime-cgroups": Text = flag_only(""),
    /// Configuration file of the credential provider plugins, or a directory of such files.
    "image-credential-provider-config": Text = flag_only(""),
    /// Directory of the credential provider plugins.
    "image-credential-provider-bin-dir": Text = flag_only(""),
    /// Use the seccomp profile RuntimeDefault for containers that do not specify one.
    "seccomp-default": Bool = flag_only("false"),
    /// Interval between housekeeping runs of cAdvisor.
    "housekeeping-interval": Duration =
        (Target::Ignored("10s"), Status::NoEffect("statistics are collected on request")),
};

const USE_EVICTION: &str = "use --eviction-hard or --eviction-soft";

const fn deprecated(default: &'static str, notice: &'static str) -> (Target, Status) {
    (Target::FlagOnly(default), Status::Deprecated(notice))
}

pub(in super::super) static CONTAINER_GC: &[FlagSpec] = flags! {
    /// Minimum age of a dead container before it may be removed.
    "minimum-container-ttl-duration": Duration = deprecated("0s", USE_EVICTION),
    /// Maximum number of dead instances to keep per container.
    "maximum-dead-containers-per-container": Int32 = deprecated("1", USE_EVICTION),
    /// Maximum number of dead containers to keep on the node; a negative value means no limit.
    "maximum-dead-containers": Int32 = deprecated("-1", USE_EVICTION),
    /// Path of a mounter binary.
    "experimental-mounter-path": Text =
        (Target::Ignored(""), Status::Deprecated("the agent mounts volumes itself, so it has no effect here")),
    /// Do not subtract the hard eviction thresholds from the allocatable resources of the node.
    "experimental-allocatable-ignore-eviction": Bool = deprecated("false", "it will be removed from Kubernetes"),
};
