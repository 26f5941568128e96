//! Records of pulls in upstream's format (`kubelet.config.k8s.io`, kinds `ImagePullIntent` and `ImagePulledRecord`).

use std::collections::BTreeMap;

use model::Timestamp;
use serde_json::{Map, Value, json};

const VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const OLD_VERSION: &str = "kubelet.config.k8s.io/v1alpha1";
const INTENT: &str = "ImagePullIntent";
const RECORD: &str = "ImagePulledRecord";

/// An invalid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRecord(String);

impl std::fmt::Display for InvalidRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not a record of a pull: {}", self.0)
    }
}

impl std::error::Error for InvalidRecord {}

/// A pulled image and the credentials that give access to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PulledRecord {
    /// The runtime's ID of the image.
    pub image_ref: String,
    /// Time of the last change.
    pub updated: Timestamp,
    /// By name of the pull, without tag and digest.
    pub permits: BTreeMap<String, Permit>,
}

/// The pods that may use an image under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permit {
    /// Every pod of the node.
    pub everybody: bool,
    /// Pods with one of these secrets.
    pub secrets: Vec<PullSecret>,
    /// Pods with one of these service accounts.
    pub accounts: Vec<PullAccount>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PullSecret {
    pub namespace: String,
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Hash of the credential that pulled the image.
    pub hash: String,
}

impl PullSecret {
    pub(super) fn is_same_object(&self, other: &Self) -> bool {
        (&self.namespace, &self.name, &self.uid) == (&other.namespace, &other.name, &other.uid)
    }
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PullAccount {
    pub namespace: String,
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl PulledRecord {
    /// A record without permits.
    #[must_use]
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
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let permits = self.permits.iter().map(|(name, permit)| (name.clone(), permit.to_json()));
        let mut object = Map::new();
        object.insert("kind".to_owned(), RECORD.into());
        object.insert("apiVersion".to_owned(), VERSION.into());
        object.insert("lastUpdatedTime".to_owned(), self.updated.to_api_time().0.to_string().into());
        object.insert("imageRef".to_owned(), self.image_ref.clone().into());
        if !self.permits.is_empty() {
            object.insert("credentialMapping".to_owned(), Value::Object(permits.collect()));
        }
        line(&Value::Object(object))
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// When the content is not a record.
    pub fn read(content: &[u8]) -> Result<Self, InvalidRecord> {
        let value = read_kind(content, RECORD)?;
        let updated = text(&value, "lastUpdatedTime")?;
        let updated: jiff::Timestamp =
            updated.parse().map_err(|_| InvalidRecord(format!("lastUpdatedTime: {updated:?} is no time")))?;
        let mut permits = BTreeMap::new();
        match value.get("credentialMapping") {
            None | Some(Value::Null) => {}
            Some(Value::Object(names)) => {
                for (name, permit) in names {
                    permits.insert(name.clone(), Permit::from_json(permit)?);
                }
            }
            Some(_) => return Err(InvalidRecord("credentialMapping is no object".to_owned())),
        }
        Ok(Self {
            image_ref: text(&value, "imageRef")?,
            updated: Timestamp::from_api_time(&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(updated)),
            permits,
        })
    }
}

impl Permit {
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        if !self.secrets.is_empty() {
            let secrets = self.secrets.iter().map(|secret| {
                json!({"uid": secret.uid, "namespace": secret.namespace, "name": secret.name, "credentialHash": secret.hash})
            });
            object.insert("kubernetesSecrets".to_owned(), secrets.collect());
        }
        if !self.accounts.is_empty() {
            let accounts = self.accounts.iter().map(
                |account| json!({"uid": account.uid, "namespace": account.namespace, "name": account.name}),
            );
            object.insert("kubernetesServiceAccounts".to_owned(), accounts.collect());
        }
        if self.everybody {
            object.insert("nodePodsAccessible".to_owned(), true.into());
        }
        Value::Object(object)
    }

    fn from_json(value: &Value) -> Result<Self, InvalidRecord> {
        let everybody = match value.get("nodePodsAccessible") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(everybody)) => *everybody,
            Some(_) => return Err(InvalidRecord("nodePodsAccessible is neither true nor false".to_owned())),
        };
        let secret = |value: &Value| {
            Ok(PullSecret {
                namespace: text(value, "namespace")?,
                name: text(value, "name")?,
                uid: text(value, "uid")?,
                hash: text(value, "credentialHash")?,
            })
        };
        let account = |value: &Value| {
            Ok(PullAccount {
                namespace: text(value, "namespace")?,
                name: text(value, "name")?,
                uid: text(value, "uid")?,
            })
        };
        Ok(Self {
            everybody,
            secrets: list(value, "kubernetesSecrets")?.iter().map(secret).collect::<Result<_, _>>()?,
            accounts: list(value, "kubernetesServiceAccounts")?
                .iter()
                .map(account)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Encodes the intent to pull an image.
#[must_use]
pub fn write_intent(image: &str) -> Vec<u8> {
    line(&json!({"kind": INTENT, "apiVersion": VERSION, "image": image}))
}

/// Decodes an intent; returns the image.
///
/// # Errors
/// When the content is not an intent.
pub fn read_intent(content: &[u8]) -> Result<String, InvalidRecord> {
    text(&read_kind(content, INTENT)?, "image")
}

fn line(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

fn read_kind(content: &[u8], kind: &str) -> Result<Value, InvalidRecord> {
    let value: Value = serde_json::from_slice(content).map_err(|error| InvalidRecord(error.to_string()))?;
    let (found, version) = (text(&value, "kind")?, text(&value, "apiVersion")?);
    if found != kind || (version != VERSION && version != OLD_VERSION) {
        return Err(InvalidRecord(format!("{version} {found} is not {VERSION} {kind}")));
    }
    Ok(value)
}

fn text(value: &Value, name: &str) -> Result<String, InvalidRecord> {
    match value.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(InvalidRecord(format!("{name} is missing or no text"))),
    }
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], InvalidRecord> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(InvalidRecord(format!("{name} is no list"))),
    }
}
