use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The kinds of objects that pods take values and files from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl ObjectKind {
    /// The resource as messages name it.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }

    /// The kind as messages name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.resource(), self.namespace, self.name)
    }
}

/// A ConfigMap or a Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigObject {
    /// Which.
    pub key: ObjectKey,
    /// Its UID; empty for those of manifests.
    pub uid: String,
    /// `data`, decoded.
    pub data: BTreeMap<String, Vec<u8>>,
    /// `binaryData` of a ConfigMap, decoded.
    pub binary_data: BTreeMap<String, Vec<u8>>,
    /// `type` of a Secret.
    pub secret_type: String,
    /// Whether its content may never change.
    pub immutable: bool,
}

impl ConfigObject {
    /// A number that changes with the content.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut take = |bytes: &[u8]| {
            let length = (bytes.len() as u64).to_le_bytes();
            for byte in length.iter().chain(bytes) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        for map in [&self.data, &self.binary_data] {
            take(&(map.len() as u64).to_le_bytes());
            for (key, value) in map {
                take(key.as_bytes());
                take(value);
            }
        }
        hash
    }
}

/// Secrets do not belong into logs, hence keys only.
impl fmt::Debug for ConfigObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.data.keys().chain(self.binary_data.keys()).collect();
        f.debug_struct("ConfigObject").field("key", &self.key).field("keys", &keys).finish_non_exhaustive()
    }
}

/// An object that cannot be handed out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// There is no such object; it may come later.
    #[error("{} {:?} not found", .0.kind.resource(), .0.name)]
    NotFound(ObjectKey),
    /// Whether there is one cannot be told now.
    #[error("{reason}")]
    Unavailable {
        /// Which object.
        key: ObjectKey,
        /// Why, as users read it.
        reason: String,
    },
}

/// Objects as they were read for one purpose.
pub type ReadObjects = BTreeMap<ObjectKey, Result<Arc<ConfigObject>, ObjectError>>;
