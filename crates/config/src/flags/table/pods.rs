//! Flags for pods and their resources.

use super::{FlagSpec, flag_or_file, prefer_file};

pub(in super::super) static PODS: &[FlagSpec] = flags! {
    /// Maximum number of pods on the node.
    "max-pods": Int32 = prefer_file("maxPods"),
    /// Maximum number of pods per CPU core; 0 for no limit. --max-pods remains the upper bound.
    "pods-per-core": Int32 = prefer_file("podsPerCore"),
    /// Maximum number of processes per pod; -1 for no limit.
    "pod-max-pids": Int64 = prefer_file("podPidsLimit"),
    /// Cluster domain that is added to the DNS search list of pods.
    "cluster-domain": Text = prefer_file("clusterDomain"),
    /// IP addresses of the DNS servers for pods with dnsPolicy ClusterFirst.
    "cluster-dns": List = prefer_file("clusterDNS"),
    /// Resolver configuration file for pods that use the DNS settings of the node.
    "resolv-conf": Text = prefer_file("resolvConf"),
    /// How pods reach themselves through a Service.
    "hairpin-mode": Text = prefer_file("hairpinMode"),
    /// Create the iptables utility chains on the node.
    "make-iptables-util-chains": Bool = prefer_file("makeIPTablesUtilChains"),
    /// Parent cgroup of all pods.
    "cgroup-root": Text = prefer_file("cgroupRoot"),
    /// Create cgroups for the QoS classes and for each pod.
    "cgroups-per-qos": Bool = prefer_file("cgroupsPerQOS"),
    /// Driver for cgroups: "cgroupfs" or "systemd". The setting of the container runtime takes precedence.
    "cgroup-driver": Text = prefer_file("cgroupDriver"),
    /// Cgroup to run the agent in.
    "kubelet-cgroups": Text = prefer_file("kubeletCgroups"),
    /// Cgroup to move all non-kernel processes into that are in the root cgroup. Requires --cgroup-root.
    "system-cgroups": Text = prefer_file("systemCgroups"),
    /// Enforce the CPU limits of containers.
    "cpu-cfs-quota": Bool = prefer_file("cpuCFSQuota"),
    /// CFS quota period for CPU limits.
    "cpu-cfs-quota-period": Duration = prefer_file("cpuCFSQuotaPeriod"),
    /// Refuse to start if swap is enabled on the node.
    "fail-swap-on": Bool = prefer_file("failSwapOn"),
    /// Refuse to start on a node with cgroup v1.
    "fail-cgroupv1": Bool = flag_or_file("failCgroupV1"),
    /// The oom_score_adj value of the agent, from -1000 to 1000.
    "oom-score-adj": Int32 = prefer_file("oomScoreAdj"),
    /// Maximum number of files that the agent can open.
    "max-open-files": Int64 = prefer_file("maxOpenFiles"),
    /// Refuse to start if kernel settings differ from the required values, instead of changing them.
    "protect-kernel-defaults": Bool = prefer_file("protectKernelDefaults"),
    /// Unsafe sysctls, or patterns ending in *, that pods may set.
    "allowed-unsafe-sysctls": List = prefer_file("allowedUnsafeSysctls"),
    /// Run the pods of the manifest folder until they have ended, and exit with their exit code. Upstream has removed this.
    "runonce": Bool = prefer_file("runOnce"),
    /// Track and limit the use of local ephemeral storage.
    "local-storage-capacity-isolation": Bool = prefer_file("localStorageCapacityIsolation"),
    /// Resources reserved for the operating system, as a comma-separated list of NAME=QUANTITY (cpu, memory,
    /// ephemeral-storage, pid).
    "system-reserved": Map = prefer_file("systemReserved"),
    /// Resources reserved for Kubernetes components, as a comma-separated list of NAME=QUANTITY (cpu, memory,
    /// ephemeral-storage, pid).
    "kube-reserved": Map = prefer_file("kubeReserved"),
    /// CPUs reserved for the operating system and Kubernetes components, such as 0-1,4.
    "reserved-cpus": Text = prefer_file("reservedSystemCPUs"),
    /// Cgroup in which --system-reserved is enforced.
    "system-reserved-cgroup": Text = prefer_file("systemReservedCgroup"),
    /// Cgroup in which --kube-reserved is enforced.
    "kube-reserved-cgroup": Text = prefer_file("kubeReservedCgroup"),
    /// Reservations to enforce: "none", "pods", "system-reserved", "system-reserved-compressible",
    /// "kube-reserved", "kube-reserved-compressible".
    "enforce-node-allocatable": List = prefer_file("enforceNodeAllocatable"),
    /// Share of the memory requests that lower QoS classes cannot use, as memory=PERCENT% (alpha).
    "qos-reserved": Map = prefer_file("qosReserved"),
    /// Thresholds at which pods are evicted immediately, as a comma-separated list of SIGNAL<VALUE.
    "eviction-hard": Thresholds = prefer_file("evictionHard"),
    /// Thresholds at which pods are evicted after a grace period, as a comma-separated list of SIGNAL<VALUE.
    "eviction-soft": Thresholds = prefer_file("evictionSoft"),
    /// Grace periods of the soft thresholds, as a comma-separated list of SIGNAL=DURATION.
    "eviction-soft-grace-period": Map = prefer_file("evictionSoftGracePeriod"),
    /// Minimum amount of a resource to reclaim when it is under pressure, as a comma-separated list of
    /// SIGNAL=VALUE.
    "eviction-minimum-reclaim": Map = prefer_file("evictionMinimumReclaim"),
    /// How long a pressure condition remains set after the pressure ends.
    "eviction-pressure-transition-period": Duration = prefer_file("evictionPressureTransitionPeriod"),
    /// Maximum termination grace period in seconds of a pod that is evicted because of a soft threshold.
    "eviction-max-pod-grace-period": Int32 = prefer_file("evictionMaxPodGracePeriod"),
    /// Use kernel notifications for memory thresholds in addition to polling.
    "kernel-memcg-notification": Bool = prefer_file("kernelMemcgNotification"),
    /// CPU manager policy: "none" or "static".
    "cpu-manager-policy": Text = prefer_file("cpuManagerPolicy"),
    /// Option of the CPU manager policy, as KEY=VALUE. May be repeated.
    "cpu-manager-policy-options": OneEntryMap = prefer_file("cpuManagerPolicyOptions"),
    /// Interval between reconciliations of the CPU manager.
    "cpu-manager-reconcile-period": Duration = prefer_file("cpuManagerReconcilePeriod"),
    /// Memory manager policy: "None" or "Static".
    "memory-manager-policy": Text = prefer_file("memoryManagerPolicy"),
    /// Memory reserved per NUMA node, such as 0:memory=1Gi,hugepages-2Mi=4Mi. Nodes are separated by
    /// semicolons.
    "reserved-memory": ReservedMemory = prefer_file("reservedMemory"),
    /// Topology manager policy: "none", "best-effort", "restricted" or "single-numa-node".
    "topology-manager-policy": Text = prefer_file("topologyManagerPolicy"),
    /// Scope of topology alignment: "container" or "pod".
    "topology-manager-scope": Text = prefer_file("topologyManagerScope"),
    /// Options of the topology manager policy, as a comma-separated list of KEY=VALUE.
    "topology-manager-policy-options": Map = prefer_file("topologyManagerPolicyOptions"),
};
