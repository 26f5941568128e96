//! The values that only flags can set.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::Value;
use values::duration::GoDuration;

use super::{CommandLine, Target, table};

/// The values that only flags can set, with upstream's defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Flags {
    pub config: Option<PathBuf>,
    pub config_dir: Option<PathBuf>,
    /// For pods, volumes and state.
    pub root_dir: PathBuf,
    pub cert_dir: PathBuf,
    /// For the API server; without it the agent runs in standalone mode.
    pub kubeconfig: Option<PathBuf>,
    /// Used to request the first client certificate.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// Not normalized.
    pub hostname_override: Option<String>,
    /// One address, or two separated by a comma; not validated completely.
    pub node_ip: Option<String>,
    /// `external` or `None`.
    pub cloud_provider: Option<String>,
    /// Set when the node is registered.
    pub node_labels: BTreeMap<String, String>,
    pub lock_file: Option<PathBuf>,
    pub exit_on_lock_contention: bool,
    /// Faults to inject into calls to the container runtime.
    pub faults: Option<PathBuf>,
    /// Whether pods from the API server are cached and run while it is unreachable.
    pub offline: bool,
    /// Maximum age of a cached pod; zero for no limit.
    pub offline_max_age: GoDuration,
    /// Whether a streaming request with the method GET is authorized with the verb `get` instead of `create`.
    pub streaming_get: bool,
    /// Where the runtime inside is also served.
    pub runtime_listen: Option<String>,
    /// Of the runtime inside.
    pub pod_bridge: String,
    /// Of the runtime inside.
    pub cni_conf_dir: PathBuf,
    pub runtime_cgroups: Option<String>,
    pub image_credential_provider_config: Option<PathBuf>,
    pub image_credential_provider_bin_dir: Option<PathBuf>,
    /// See [`crate::LoadedConfig::seccomp_default`], which also considers the configuration field.
    pub seccomp_default: bool,
    /// Minimum age of a dead container before it may be removed.
    pub minimum_container_ttl_duration: GoDuration,
    /// Maximum number of dead instances to keep per container.
    pub maximum_dead_containers_per_container: i32,
    /// Maximum number of dead containers to keep on the node; negative for no limit.
    pub maximum_dead_containers: i32,
    /// Whether hard eviction thresholds are not subtracted from the node's allocatable resources.
    pub experimental_allocatable_ignore_eviction: bool,
}

impl Flags {
    pub(crate) fn from_command_line(line: &CommandLine) -> Self {
        let values = FlagValues(line);
        Self {
            config: values.path("config"),
            config_dir: values.path("config-dir"),
            root_dir: values.text("root-dir").into(),
            cert_dir: values.text("cert-dir").into(),
            kubeconfig: values.path("kubeconfig"),
            bootstrap_kubeconfig: values.path("bootstrap-kubeconfig"),
            hostname_override: values.optional("hostname-override"),
            node_ip: values.optional("node-ip"),
            cloud_provider: values.optional("cloud-provider"),
            node_labels: values.labels("node-labels"),
            lock_file: values.path("lock-file"),
            exit_on_lock_contention: values.flag("exit-on-lock-contention"),
            faults: values.path("podward-faults"),
            offline: values.flag("podward-offline"),
            offline_max_age: values.duration("podward-offline-max-age"),
            streaming_get: values.flag("podward-streaming-get"),
            runtime_listen: values.optional("podward-runtime-listen"),
            pod_bridge: values.text("podward-pod-bridge"),
            cni_conf_dir: values.text("podward-cni-conf-dir").into(),
            runtime_cgroups: values.optional("runtime-cgroups"),
            image_credential_provider_config: values.path("image-credential-provider-config"),
            image_credential_provider_bin_dir: values.path("image-credential-provider-bin-dir"),
            seccomp_default: values.flag("seccomp-default"),
            minimum_container_ttl_duration: values.duration("minimum-container-ttl-duration"),
            maximum_dead_containers_per_container: values.number("maximum-dead-containers-per-container"),
            maximum_dead_containers: values.number("maximum-dead-containers"),
            experimental_allocatable_ignore_eviction: values.flag("experimental-allocatable-ignore-eviction"),
        }
    }
}

/// Values by flag name, or the defaults of the flag table. Parsing the command line has checked the kinds.
struct FlagValues<'a>(&'a CommandLine);

impl FlagValues<'_> {
    fn value(&self, name: &str) -> Value {
        if let Some(value) = self.0.value(name) {
            return value.clone();
        }
        let default = table::find(name).and_then(|flag| match flag.target {
            Target::FlagOnly(default) => flag.kind.to_json(&[default.to_owned()]).ok().flatten(),
            Target::Field(_) | Target::Ignored(_) => None,
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
