//! Label and annotation keys that other programs read, exactly as upstream writes them.

/// Pod name, on sandboxes and containers.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Pod namespace, on sandboxes and containers.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Pod UID, on sandboxes and containers.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// Hash over the container's name and image, hexadecimal.
pub const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
/// How often this container was restarted before.
pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Path of the termination message inside the container.
pub const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// `File` or `FallbackToLogsOnError`.
pub const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// The preStop handler as JSON.
pub const PRE_STOP_HANDLER: &str = "io.kubernetes.container.preStopHandler";
/// The container's ports as JSON.
pub const CONTAINER_PORTS: &str = "io.kubernetes.container.ports";
/// The pod's termination grace period in seconds.
pub const POD_TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
/// The pod's deletion grace period in seconds.
pub const POD_DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";

/// Which source a pod came from.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// When the agent first saw the pod.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";
/// Identity of a static pod's manifest.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// Marks the API object that mirrors a static pod.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// Annotations the agent adds itself; they never count as a change of the pod.
pub const LOCAL_ANNOTATIONS: [&str; 3] = [CONFIG_SOURCE, CONFIG_MIRROR, CONFIG_SEEN];

/// On a pod: `"true"` restarts its containers when a ConfigMap or Secret they use changes.
pub const RESTART_ON_CHANGE: &str = "podward.dev/restart-on-change";
/// On a container of such a pod: the objects it was started with.
pub const STARTED_WITH: &str = "podward.dev/started-with";
