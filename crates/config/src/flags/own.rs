//! The values that only flags can set.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::Value;

use super::{CommandLine, Target, table};
use crate::duration::GoDuration;

/// The values that only flags can set.
#[derive(Debug, Clone, PartialEq)]
pub struct Flags {
    /// The configuration file, if any.
    pub config: Option<PathBuf>,
    /// The directory of drop-in files, if any.
    pub config_dir: Option<PathBuf>,
    /// Directory for pods, volumes and state.
    pub root_dir: PathBuf,
    /// Directory for certificates.
    pub cert_dir: PathBuf,
    /// Credentials for the API server; none means the node stands alone.
    pub kubeconfig: Option<PathBuf>,
    /// Credentials to request a client certificate with.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// Name of the node instead of the host name, as written.
    pub hostname_override: Option<String>,
    /// Address or addresses of the node, as written.
    pub node_ip: Option<String>,
    /// `external`, or none.
    pub cloud_provider: Option<String>,
    /// Labels to register the node with.
    pub node_labels: BTreeMap<String, String>,
    /// File to hold a lock on.
    pub lock_file: Option<PathBuf>,
    /// Whether to exit when another process opens the lock file.
    pub exit_on_lock_contention: bool,
    /// Whether pods of the API server are remembered and run while it is away.
    pub offline: bool,
    /// How old what is remembered may be; zero means any age.
    pub offline_max_age: GoDuration,
    /// Whether a stream that begins with GET is authorised as reading.
    pub streaming_get: bool,
    /// Cgroup of the container runtime.
    pub runtime_cgroups: Option<String>,
    /// Credential plugin configuration.
    pub image_credential_provider_config: Option<PathBuf>,
    /// Directory of credential plugins.
    pub image_credential_provider_bin_dir: Option<PathBuf>,
    /// Whether containers without a seccomp profile get the runtime's; the configuration may say so too.
    pub seccomp_default: bool,
    /// Youngest dead container that may be removed.
    pub minimum_container_ttl_duration: GoDuration,
    /// Dead instances kept per container.
    pub maximum_dead_containers_per_container: i32,
    /// Dead containers kept on the node; negative for no limit.
    pub maximum_dead_containers: i32,
    /// Whether eviction thresholds are left out of what the node has to give.
    pub experimental_allocatable_ignore_eviction: bool,
}

impl Flags {
    pub(crate) fn from_line(line: &CommandLine) -> Self {
        let read = Reader(line);
        Self {
            config: read.path("config"),
            config_dir: read.path("config-dir"),
            root_dir: read.text("root-dir").into(),
            cert_dir: read.text("cert-dir").into(),
            kubeconfig: read.path("kubeconfig"),
            bootstrap_kubeconfig: read.path("bootstrap-kubeconfig"),
            hostname_override: read.optional("hostname-override"),
            node_ip: read.optional("node-ip"),
            cloud_provider: read.optional("cloud-provider"),
            node_labels: read.labels("node-labels"),
            lock_file: read.path("lock-file"),
            exit_on_lock_contention: read.flag("exit-on-lock-contention"),
            offline: read.flag("podward-offline"),
            offline_max_age: read.duration("podward-offline-max-age"),
            streaming_get: read.flag("podward-streaming-get"),
            runtime_cgroups: read.optional("runtime-cgroups"),
            image_credential_provider_config: read.path("image-credential-provider-config"),
            image_credential_provider_bin_dir: read.path("image-credential-provider-bin-dir"),
            seccomp_default: read.flag("seccomp-default"),
            minimum_container_ttl_duration: read.duration("minimum-container-ttl-duration"),
            maximum_dead_containers_per_container: read.number("maximum-dead-containers-per-container"),
            maximum_dead_containers: read.number("maximum-dead-containers"),
            experimental_allocatable_ignore_eviction: read.flag("experimental-allocatable-ignore-eviction"),
        }
    }
}

/// Values by name, with the table's defaults; the kinds were checked when the line was parsed.
struct Reader<'a>(&'a CommandLine);

impl Reader<'_> {
    fn value(&self, name: &str) -> Value {
        if let Some(value) = self.0.value(name) {
            return value.clone();
        }
        let default = table::find(name).and_then(|flag| match flag.target {
            Target::Own(default) => flag.kind.to_json(&[default.to_owned()]).ok().flatten(),
            Target::Field(_) | Target::Nothing(_) => None,
        });
        default.unwrap_or(Value::Null)
    }

    fn text(&self, name: &str) -> String {
        self.value(name).as_str().unwrap_or_default().to_owned()
    }

    fn optional(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.optional(name).map(PathBuf::from)
    }

    fn flag(&self, name: &str) -> bool {
        self.value(name).as_bool().unwrap_or_default()
    }

    fn number(&self, name: &str) -> i32 {
        self.value(name).as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_default()
    }

    fn duration(&self, name: &str) -> GoDuration {
        self.text(name).parse().unwrap_or_default()
    }

    fn labels(&self, name: &str) -> BTreeMap<String, String> {
        let Value::Object(labels) = self.value(name) else { return BTreeMap::new() };
        labels.into_iter().map(|(key, value)| (key, value.as_str().unwrap_or_default().to_owned())).collect()
    }
}
