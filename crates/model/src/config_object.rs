use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use values::fnv::Fnv64a;

/// ConfigMap or Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ObjectKind {
    ConfigMap,
    Secret,
}

impl ObjectKind {
    /// The resource name in messages.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }

    /// The kind in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    pub kind: ObjectKind,
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.resource(), self.namespace, self.name)
    }
}

/// A ConfigMap or a Secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigObject {
    pub key: ObjectKey,
    /// Empty for objects from manifests.
    #[serde(default)]
    pub uid: String,
    /// `data`, decoded.
    #[serde(with = "base64_values")]
    pub data: BTreeMap<String, Vec<u8>>,
    /// `binaryData` of a ConfigMap, decoded.
    #[serde(with = "base64_values")]
    pub binary_data: BTreeMap<String, Vec<u8>>,
    /// `type` of a Secret.
    pub secret_type: String,
    /// Whether its content may never change.
    pub immutable: bool,
}

impl ConfigObject {
    /// A hash of the content.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash = Fnv64a::new();
        for map in [&self.data, &self.binary_data] {
            hash.write_with_length(&(map.len() as u64).to_le_bytes());
            for (key, value) in map {
                hash.write_with_length(key.as_bytes());
                hash.write_with_length(value);
            }
        }
        hash.finish()
    }
}

/// Serializes values like the API: encoded in base64.
mod base64_values {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        values: &BTreeMap<String, Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(values.iter().map(|(key, value)| (key, ByteString(value.clone()))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
        let values = BTreeMap::<String, ByteString>::deserialize(deserializer)?;
        Ok(values.into_iter().map(|(key, value)| (key, value.0)).collect())
    }
}

/// Prints keys only, because the content may be secret.
impl fmt::Debug for ConfigObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.data.keys().chain(self.binary_data.keys()).collect();
        f.debug_struct("ConfigObject").field("key", &self.key).field("keys", &keys).finish_non_exhaustive()
    }
}

/// Why an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The object does not exist; it may be created later.
    #[error("{} {:?} not found", .0.kind.resource(), .0.name)]
    NotFound(ObjectKey),
    /// It is not known whether the object exists.
    #[error("{reason}")]
    Unavailable {
        key: ObjectKey,
        /// The reason, for users.
        reason: String,
    },
}

/// The results of reading several objects.
pub type ReadObjects = BTreeMap<ObjectKey, Result<Arc<ConfigObject>, ObjectError>>;
