//! The typed configuration: one struct per section; the fields of all sections form one flat document.

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

pub const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
pub const KIND: &str = "KubeletConfiguration";

macro_rules! sections {
    ($($(#[$doc:meta])* $name:ident: $section:ty,)*) => {
        /// The whole configuration, `KubeletConfiguration` v1beta1.
        ///
        /// `Default` does not set the defaults that depend on feature gates and other fields; see
        /// [`KubeletConfiguration::file_defaults`] and [`KubeletConfiguration::legacy_defaults`]. Serializes to the JSON of
        /// the v1beta1 document.
        #[derive(Debug, Clone, Default, PartialEq, Serialize)]
        pub struct KubeletConfiguration {
            $($(#[$doc])* #[serde(flatten)] pub $name: $section,)*
        }

        impl KubeletConfiguration {
            pub fn field_names() -> Vec<&'static str> {
                let mut names = Vec::new();
                $(names.extend(schema::field_names::<$section>());)*
                names
            }

            /// Decodes every section; a section with errors keeps its defaults.
            fn decode_sections(document: &Document) -> (Self, Vec<FieldError>) {
                let mut errors = Vec::new();
                let mut config = Self::default();
                $(match schema::decode_section::<$section>(document) {
                    Ok(section) => config.$name = section,
                    Err(found) => errors.extend(found),
                })*
                (config, errors)
            }

            /// Decodes a JSON value without applying further defaults.
            pub(crate) fn from_json(value: &Value) -> Result<Self, serde_json::Error> {
                Ok(Self { $($name: serde::Deserialize::deserialize(value)?,)* })
            }

            fn apply_section_defaults(&mut self) {
                $(self.$name.apply_defaults();)*
            }
        }
    };
}

sections! {
    /// Pod sources and the HTTPS server.
    server: SourcesAndServer,
    /// Authentication and authorization of the server's clients.
    access: Access,
    node: Node,
    /// The API client, events, feature gates and tracing.
    api_client: ApiClient,
    logs: Logging,
    images: Images,
    network: Network,
    /// Pod limits, restarts and shutdown.
    pods: Pods,
    /// Cgroups and the agent's process.
    cgroups: Cgroups,
    reservations: Reservations,
    /// CPU, memory and topology managers.
    managers: Managers,
    volumes: VolumesAndLogs,
}

impl KubeletConfiguration {
    /// The defaults that apply with a configuration file.
    pub fn file_defaults() -> Self {
        let mut config = Self::default();
        config.apply_defaults(&FeatureGates::default());
        config.reservations.apply_default_thresholds();
        config
    }

    /// The defaults that apply without a configuration file. Like upstream, they are less secure than the file defaults.
    pub fn legacy_defaults() -> Self {
        let mut config = Self::default();
        config.apply_defaults(&FeatureGates::default());
        config.access.authentication.anonymous.enabled = true;
        config.access.authentication.webhook.enabled = false;
        config.access.authorization.mode = AuthorizationMode::AlwaysAllow;
        config.server.read_only_port = 10255;
        config
    }

    /// The configuration as the JSON object of the v1beta1 document, without `apiVersion` and `kind`.
    pub fn to_json(&self) -> Value {
        // Serializing plain structs and maps with string keys into a value cannot fail.
        serde_json::to_value(self).unwrap_or_else(|_| Value::Object(Map::new()))
    }

    /// Decodes a document strictly and reports all wrong and unknown fields. Wrong fields keep their defaults.
    ///
    /// For some fields, zero means "not set". [`KubeletConfiguration::apply_defaults`] sets those.
    pub(crate) fn decode(document: &Document) -> (Self, Vec<FieldError>) {
        schema::decode(document)
    }

    /// The configuration as JSON with secrets masked, for logs.
    pub fn to_json_for_log(&self) -> Value {
        let mut masked = self.clone();
        for values in masked.server.static_pod_url_header.values_mut() {
            *values = vec!["<masked>".to_owned()];
        }
        masked.to_json()
    }

    /// Sets the defaults of fields that are not set. Some defaults depend on feature gates.
    pub(crate) fn apply_defaults(&mut self, gates: &FeatureGates) {
        self.apply_section_defaults();
        self.pods.apply_gated_defaults(gates);
        self.images.apply_gated_defaults(gates);
    }
}

/// Sets `field` to its default if it is zero, which means "not set" in the file format.
fn default_if_zero<T: Default + PartialEq>(field: &mut T, default: T) {
    if *field == T::default() {
        *field = default;
    }
}

/// Decodes an optional enum for which the empty string means "not set".
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

/// Decodes an enum for which the empty string means the default.
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
