//! Records of pulls in upstream's format (`kubelet.config.k8s.io`, kinds `ImagePullIntent` and `ImagePulledRecord`).

use std::collections::BTreeMap;

use model::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

const VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const OLD_VERSION: &str = "kubelet.config.k8s.io/v1alpha1";
const INTENT: &str = "ImagePullIntent";
const RECORD: &str = "ImagePulledRecord";

/// An invalid record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a record of a pull: {0}")]
pub struct InvalidRecord(String);

/// A pulled image and the credentials that give access to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PulledRecord {
    /// The runtime's ID of the image.
    pub image_ref: String,
    /// Time of the last change.
    #[serde(rename = "lastUpdatedTime", with = "api_time")]
    pub updated: Timestamp,
    /// By name of the pull, without tag and digest.
    #[serde(
        rename = "credentialMapping",
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub permits: BTreeMap<String, Permit>,
}

/// The pods that may use an image under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Permit {
    /// Every pod of the node.
    #[serde(
        rename = "nodePodsAccessible",
        deserialize_with = "null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub everybody: bool,
    /// Pods with one of these secrets.
    #[serde(
        rename = "kubernetesSecrets",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub secrets: Vec<PullSecret>,
    /// Pods with one of these service accounts.
    #[serde(
        rename = "kubernetesServiceAccounts",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub accounts: Vec<PullAccount>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PullSecret {
    pub namespace: String,
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Hash of the credential that pulled the image.
    #[serde(rename = "credentialHash")]
    pub hash: String,
}

impl PullSecret {
    pub(super) fn is_same_object(&self, other: &Self) -> bool {
        (&self.namespace, &self.name, &self.uid) == (&other.namespace, &other.name, &other.uid)
    }
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PullAccount {
    pub namespace: String,
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl PulledRecord {
    /// A record without permits.
    pub fn new(image_ref: &str, now: Timestamp) -> Self {
        Self { image_ref: image_ref.to_owned(), updated: now, permits: BTreeMap::new() }
    }

    /// Adds a permit for a name (without tag and digest). Returns whether the record changed.
    pub fn permit(&mut self, name: &str, new: Permit, now: Timestamp) -> bool {
        if new == Permit::default() {
            return false;
        }
        let known = self.permits.entry(name.to_owned()).or_default();
        if known.everybody {
            return false;
        }
        let before = known.clone();
        if new.everybody {
            *known = Permit { everybody: true, ..Permit::default() };
        } else {
            for secret in new.secrets {
                known.secrets.retain(|old| !old.is_same_object(&secret));
                known.secrets.push(secret);
            }
            known.secrets.sort();
            known.accounts.extend(new.accounts);
            known.accounts.sort();
            known.accounts.dedup();
        }
        let changed = *known != before;
        if changed {
            self.updated = now;
        }
        changed
    }

    /// Encodes the record.
    pub fn write(&self) -> Vec<u8> {
        encode(RECORD, self)
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// When the content is not a record.
    pub fn read(content: &[u8]) -> Result<Self, InvalidRecord> {
        decode(RECORD, content)
    }
}

/// An image that is being pulled.
#[derive(Serialize, Deserialize)]
struct PullIntent {
    image: String,
}

/// Encodes the intent to pull an image.
pub fn write_intent(image: &str) -> Vec<u8> {
    encode(INTENT, &PullIntent { image: image.to_owned() })
}

/// Decodes an intent; returns the image.
///
/// # Errors
/// When the content is not an intent.
pub fn read_intent(content: &[u8]) -> Result<String, InvalidRecord> {
    decode(INTENT, content).map(|intent: PullIntent| intent.image)
}

/// An object with its kind and version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned<T> {
    kind: String,
    api_version: String,
    #[serde(flatten)]
    content: T,
}

fn encode<T: Serialize>(kind: &str, content: &T) -> Vec<u8> {
    let file = json!(Versioned { kind: kind.to_owned(), api_version: VERSION.to_owned(), content });
    format!("{file}\n").into_bytes()
}

fn decode<T: DeserializeOwned>(kind: &str, content: &[u8]) -> Result<T, InvalidRecord> {
    let file: Versioned<Value> = serde_json::from_slice(content).map_err(invalid)?;
    if file.kind != kind || ![VERSION, OLD_VERSION].contains(&file.api_version.as_str()) {
        return Err(InvalidRecord(format!("{} {} is not {VERSION} {kind}", file.api_version, file.kind)));
    }
    serde_json::from_value(file.content).map_err(invalid)
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of `map_err`")]
fn invalid(error: serde_json::Error) -> InvalidRecord {
    InvalidRecord(error.to_string())
}

/// Reads `null` like a missing field.
fn null_as_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Times as the API writes them, in whole seconds.
mod api_time {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use model::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        time.to_api_time().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Time::deserialize(deserializer).map(|time| Timestamp::from_api_time(&time))
    }
}
