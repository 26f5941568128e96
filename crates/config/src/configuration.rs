//! The typed configuration: one struct per section, all sections side by side in one flat document.

mod api_client;
mod authentication;
mod cgroups;
mod images;
mod logging;
mod managers;
mod network;
mod node;
mod pods;
mod reservations;
mod schema;
mod sources_and_server;
mod volumes_and_logs;

use document::{Document, FieldError};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, DeserializeOwned},
};
use serde_json::{Map, Value};

pub use api_client::{ApiClient, ChangeDetection, Tracing};
pub use authentication::{
    Access, Anonymous, Authentication, Authorization, AuthorizationMode, WebhookAuthentication,
    WebhookAuthorization, X509,
};
pub use cgroups::{CgroupDriver, Cgroups};
pub use images::{CredentialsVerification, Images};
pub use logging::{FormatOptions, LogFormat, Logging, LoggingConfiguration, OutputRouting, VmoduleItem};
pub use managers::{
    CpuManagerPolicy, Managers, MemoryManagerPolicy, MemoryReservation, MemoryReservationPolicy,
    TopologyPolicy, TopologyScope,
};
pub use network::{HairpinMode, Network};
pub use node::{Node, Taint, TaintEffect};
pub use pods::{CrashLoopBackOff, GracePeriodByPriority, MemorySwap, Pods, SwapBehavior, UserNamespaces};
pub use reservations::{Enforcement, Reservations, default_eviction_hard};
pub use sources_and_server::{SourcesAndServer, TlsVersion};
pub use volumes_and_logs::VolumesAndLogs;

use crate::gates::FeatureGates;

/// The API group and version of the configuration file.
pub const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// The kind of the configuration file.
pub const KIND: &str = "KubeletConfiguration";

macro_rules! sections {
    ($($(#[$doc:meta])* $name:ident: $section:ty,)*) => {
        /// The whole configuration, `KubeletConfiguration` v1beta1.
        ///
        /// `Default` leaves open what depends on feature gates and other fields; see
        /// [`KubeletConfiguration::file_defaults`] and [`KubeletConfiguration::legacy_defaults`]. Serialises to the JSON of the v1beta1 document.
        #[derive(Debug, Clone, Default, PartialEq, Serialize)]
        pub struct KubeletConfiguration {
            $($(#[$doc])* #[serde(flatten)] pub $name: $section,)*
        }

        impl KubeletConfiguration {
            /// The names of all top-level fields.
            pub fn field_names() -> Vec<&'static str> {
                let mut names = Vec::new();
                $(names.extend(schema::field_names::<$section>());)*
                names
            }

            /// Reads every section; a section with errors keeps its defaults.
            fn read_sections(document: &Document) -> (Self, Vec<FieldError>) {
                let mut errors = Vec::new();
                let mut whole = Self::default();
                $(match schema::read_section::<$section>(document) {
                    Ok(section) => whole.$name = section,
                    Err(found) => errors.extend(found),
                })*
                (whole, errors)
            }

            /// Reads a JSON value as it is, without completing it.
            pub(crate) fn from_json(value: &Value) -> Result<Self, serde_json::Error> {
                Ok(Self { $($name: serde::Deserialize::deserialize(value)?,)* })
            }

            fn complete_sections(&mut self) {
                $(self.$name.complete();)*
            }
        }
    };
}

sections! {
    /// Where pods come from, and the HTTPS server.
    server: SourcesAndServer,
    /// Who may use the server.
    access: Access,
    /// The Node object.
    node: Node,
    /// The API client, events, gates and tracing.
    api_client: ApiClient,
    /// Logging.
    logs: Logging,
    /// The container runtime and its images.
    images: Images,
    /// DNS and packet filter settings.
    network: Network,
    /// Limits and habits of pods.
    pods: Pods,
    /// Cgroups and the agent's own process.
    cgroups: Cgroups,
    /// Reserved resources and eviction.
    reservations: Reservations,
    /// CPU, memory and topology placement.
    managers: Managers,
    /// Volumes and container logs.
    volumes: VolumesAndLogs,
}

impl KubeletConfiguration {
    /// What an empty configuration file means.
    pub fn file_defaults() -> Self {
        let mut config = Self::default();
        config.complete(&FeatureGates::default());
        config.reservations.inject_default_thresholds();
        config
    }

    /// The base when no configuration file is given: more open than a file's defaults, for old command lines.
    pub fn legacy_defaults() -> Self {
        let mut config = Self::default();
        config.complete(&FeatureGates::default());
        config.access.authentication.anonymous.enabled = true;
        config.access.authentication.webhook.enabled = false;
        config.access.authorization.mode = AuthorizationMode::AlwaysAllow;
        config.server.read_only_port = 10255;
        config
    }

    /// The configuration as the JSON object of the v1beta1 document, without `apiVersion` and `kind`.
    pub fn to_json(&self) -> Value {
        // Serialising plain structs and maps with text keys into a value cannot fail.
        serde_json::to_value(self).unwrap_or_else(|_| Value::Object(Map::new()))
    }

    /// Reads a whole document strictly, and reports every wrong or unknown field that can be told apart.
    ///
    /// Values that mean "not set" in the file format (zero where zero is no choice) get their defaults only by
    /// [`KubeletConfiguration::complete`]; wrong fields have theirs already.
    pub(crate) fn read(document: &Document) -> (Self, Vec<FieldError>) {
        schema::read(document)
    }

    /// The configuration for a log: secrets are masked.
    pub fn to_json_for_log(&self) -> Value {
        let mut masked = self.clone();
        for values in masked.server.static_pod_url_header.values_mut() {
            *values = vec!["<masked>".to_owned()];
        }
        masked.to_json()
    }

    /// Fills what counts as not set with its default; some defaults depend on feature gates.
    pub(crate) fn complete(&mut self, gates: &FeatureGates) {
        self.complete_sections();
        self.pods.complete_gated(gates);
        self.images.complete_gated(gates);
    }
}

/// Gives `field` its default when it is zero, which is how the file format spells "not set" for plain fields.
fn unless_set<T: Default + PartialEq>(field: &mut T, default: T) {
    if *field == T::default() {
        *field = default;
    }
}

/// Reads an optional choice for which the empty text means "not set".
fn empty_is_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    match Value::deserialize(deserializer)? {
        Value::String(text) if text.is_empty() => Ok(None),
        value => T::deserialize(value).map(Some).map_err(de::Error::custom),
    }
}

/// Reads a choice for which the empty text means its default.
fn empty_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    empty_is_none(deserializer).map(Option::unwrap_or_default)
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests;
