//! What is said to a credential provider program, and what it answers.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{
    AccountProof, AnswerSharing, CredentialOrigin, CredentialProvider, ProviderToken, RegistryCredential,
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::locations_match;
use crate::go_duration;

/// What else an answer is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// The image it was asked about.
    Image,
    /// Its registry.
    Registry,
    /// Everything.
    Global,
}

/// A provider's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderAnswer {
    /// The credentials.
    pub entries: Vec<RegistryCredential>,
    /// The key they may be kept under; `None` when they may not be kept.
    pub keep: Option<(String, Duration)>,
}

/// An answer that cannot be used. It says nothing of the content, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderAnswerError {
    /// It is not the object it should be.
    Malformed,
    /// It is of another version than the configuration says.
    Version {
        /// The version it should have.
        expected: String,
        /// The version it has.
        found: String,
    },
    /// It does not say what it is good for.
    CacheKeyType(String),
    /// It hands the token back, and would be kept for others than the token's owner.
    EchoedToken,
}

impl std::fmt::Display for ProviderAnswerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed => f.write_str("error decoding credential provider plugin response from stdout"),
            Self::Version { expected, found } => write!(
                f,
                "apiVersion from credential plugin response did not match expected apiVersion:{expected}, actual apiVersion:{found}"
            ),
            Self::CacheKeyType(found) => {
                write!(f, "credential provider plugin did not return a valid cacheKeyType: {found}")
            }
            Self::EchoedToken => f.write_str(
                "credential provider plugin returned the service account token as the password, which needs the cacheType Token",
            ),
        }
    }
}

impl std::error::Error for ProviderAnswerError {}

/// Whether a provider is asked about a repository.
#[must_use]
pub fn is_asked_about(provider: &CredentialProvider, repository: &str) -> bool {
    provider.match_images.iter().any(|glob| locations_match(glob, repository))
}

/// The annotations of an account that a program is told of; `None` when the account lacks one that it must have, by
/// which accounts opt in.
#[must_use]
pub fn told_annotations(
    token: &ProviderToken,
    annotations: &BTreeMap<String, String>,
) -> Option<BTreeMap<String, String>> {
    if token.required_annotations.iter().any(|key| !annotations.contains_key(key)) {
        return None;
    }
    let keys = token.required_annotations.iter().chain(&token.optional_annotations);
    Some(
        keys.filter_map(|key| annotations.get_key_value(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

/// The keys under which an earlier answer may have been kept, the narrowest first.
#[must_use]
pub fn cache_keys(repository: &str) -> [String; 3] {
    [CacheScope::Image, CacheScope::Registry, CacheScope::Global].map(|scope| cache_key(scope, repository))
}

/// For whom an answer is kept: nobody else gets it. Empty for a program that is not told of accounts.
#[must_use]
pub fn kept_for(provider: &CredentialProvider, account: Option<&AccountProof>) -> String {
    let (Some(token), Some(account)) = (&provider.token, account) else { return String::new() };
    let AccountProof { namespace, name, uid, annotations, token: secret } = account;
    let secret = match token.shared {
        AnswerSharing::Account => None,
        AnswerSharing::Token => Some(STANDARD.encode(Sha256::digest(secret))),
    };
    json!([namespace, name, uid, annotations, secret]).to_string()
}

/// The request, as the program reads it.
#[must_use]
pub fn write_request(
    provider: &CredentialProvider,
    repository: &str,
    account: Option<&AccountProof>,
) -> Vec<u8> {
    let mut request = json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": provider.api_version,
        "image": repository,
    });
    if let Some(account) = account {
        request["serviceAccountToken"] = json!(account.token);
        if !account.annotations.is_empty() {
            request["serviceAccountAnnotations"] = json!(account.annotations);
        }
    }
    let mut text = request.to_string().into_bytes();
    text.push(b'\n');
    text
}

/// Reads what the program printed.
///
/// # Errors
/// When it cannot be used.
pub fn read_answer(
    provider: &CredentialProvider,
    repository: &str,
    account: Option<&AccountProof>,
    text: &[u8],
) -> Result<ProviderAnswer, ProviderAnswerError> {
    let value: Value = serde_json::from_slice(text).map_err(|_| ProviderAnswerError::Malformed)?;
    let answer = value.as_object().ok_or(ProviderAnswerError::Malformed)?;
    let found = text_of(answer, "apiVersion")?;
    if found != provider.api_version {
        let expected = provider.api_version.clone();
        return Err(ProviderAnswerError::Version { expected, found: found.to_owned() });
    }
    let known = ["apiVersion", "kind", "cacheKeyType", "cacheDuration", "auth"];
    if text_of(answer, "kind")? != "CredentialProviderResponse"
        || answer.keys().any(|key| !known.contains(&key.as_str()))
    {
        return Err(ProviderAnswerError::Malformed);
    }
    let scope = match text_of(answer, "cacheKeyType")? {
        "Image" => CacheScope::Image,
        "Registry" => CacheScope::Registry,
        "Global" => CacheScope::Global,
        other => return Err(ProviderAnswerError::CacheKeyType(other.to_owned())),
    };
    let duration = match answer.get("cacheDuration") {
        None | Some(Value::Null) => provider.default_cache_duration,
        Some(Value::String(text)) => go_duration::parse(text).ok_or(ProviderAnswerError::Malformed)?,
        Some(_) => return Err(ProviderAnswerError::Malformed),
    };
    let keep = (!duration.is_zero()).then(|| (cache_key(scope, repository), duration));
    let entries = entries(answer.get("auth"), account)?;
    let shared = provider.token.as_ref().map(|token| token.shared);
    if let (Some(AnswerSharing::Account), Some(account)) = (shared, account)
        && entries.iter().any(|entry| entry.password == account.token)
    {
        return Err(ProviderAnswerError::EchoedToken);
    }
    Ok(ProviderAnswer { entries, keep })
}

fn cache_key(scope: CacheScope, repository: &str) -> String {
    match scope {
        CacheScope::Image => repository.to_owned(),
        CacheScope::Registry => repository.split('/').next().unwrap_or_default().to_owned(),
        // No image or registry is called so.
        CacheScope::Global => "<global>".to_owned(),
    }
}

fn entries(
    auth: Option<&Value>,
    account: Option<&AccountProof>,
) -> Result<Vec<RegistryCredential>, ProviderAnswerError> {
    let auth = match auth {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(auth)) => auth,
        Some(_) => return Err(ProviderAnswerError::Malformed),
    };
    let origin = match account {
        None => CredentialOrigin::Node,
        Some(AccountProof { uid, namespace, name, .. }) => {
            CredentialOrigin::Account { uid: uid.clone(), namespace: namespace.clone(), name: name.clone() }
        }
    };
    let entry = |(location, fields): (&String, &Value)| {
        let fields = fields.as_object().ok_or(ProviderAnswerError::Malformed)?;
        if fields.keys().any(|key| key != "username" && key != "password") {
            return Err(ProviderAnswerError::Malformed);
        }
        Ok(RegistryCredential {
            location: location.clone(),
            username: text_of(fields, "username")?.to_owned(),
            password: text_of(fields, "password")?.to_owned(),
            email: String::new(),
            origin: origin.clone(),
        })
    };
    auth.iter().map(entry).collect()
}

fn text_of<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a str, ProviderAnswerError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(ProviderAnswerError::Malformed),
    }
}
