//! Requests to credential provider programs and their responses.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{
    AccountIdentity, CredentialOrigin, CredentialProvider, ProviderToken, RegistryCredential, ResponseSharing,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use values::duration::GoDuration;

use super::locations_match;

/// Scope of a cached response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    Image,
    Registry,
    Global,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderResponse {
    pub entries: Vec<RegistryCredential>,
    /// The cache key; `None` when the response must not be cached.
    pub keep: Option<(String, Duration)>,
}

/// A response that cannot be used. Never includes the content, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderResponseError {
    #[error("error decoding credential provider plugin response from stdout")]
    Malformed,
    /// The version differs from the configured one.
    #[error(
        "apiVersion from credential plugin response did not match expected apiVersion:{expected}, actual apiVersion:{found}"
    )]
    Version { expected: String, found: String },
    /// The cache key type is missing or unknown.
    #[error("credential provider plugin did not return a valid cacheKeyType: {0}")]
    CacheKeyType(String),
    /// The response contains the token and would be cached for other pods than its owner.
    #[error(
        "credential provider plugin returned the service account token as the password, which needs the cacheType Token"
    )]
    EchoedToken,
}

/// A response as the program writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Response {
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    kind: Option<String>,
    cache_key_type: Option<String>,
    cache_duration: Option<GoDuration>,
    auth: Option<BTreeMap<String, Auth>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Auth {
    username: Option<String>,
    password: Option<String>,
}

/// Whether a provider is called for a repository.
pub fn handles_image(provider: &CredentialProvider, repository: &str) -> bool {
    provider.match_images.iter().any(|glob| locations_match(glob, repository))
}

/// The annotations of an account that are passed to a program; `None` when the account lacks a required one, by which accounts
/// opt in.
pub fn passed_annotations(
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

/// The possible cache keys of an earlier response, the most specific first.
pub fn cache_keys(repository: &str) -> [String; 3] {
    [CacheScope::Image, CacheScope::Registry, CacheScope::Global].map(|scope| cache_key(scope, repository))
}

/// The part of the cache key that separates accounts. Empty for a program without service account tokens.
pub fn cache_owner(provider: &CredentialProvider, account: Option<&AccountIdentity>) -> String {
    let (Some(token), Some(account)) = (&provider.token, account) else { return String::new() };
    let AccountIdentity { namespace, name, uid, annotations, token: secret } = account;
    let secret = match token.shared {
        ResponseSharing::Account => None,
        ResponseSharing::Token => Some(STANDARD.encode(Sha256::digest(secret))),
    };
    json!([namespace, name, uid, annotations, secret]).to_string()
}

/// Encodes the request.
pub fn write_request(
    provider: &CredentialProvider,
    repository: &str,
    account: Option<&AccountIdentity>,
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

/// Parses the response.
///
/// # Errors
/// When the response cannot be used.
pub fn read_response(
    provider: &CredentialProvider,
    repository: &str,
    account: Option<&AccountIdentity>,
    text: &[u8],
) -> Result<ProviderResponse, ProviderResponseError> {
    let malformed = |_| ProviderResponseError::Malformed;
    let answer: Map<String, Value> = serde_json::from_slice(text).map_err(malformed)?;
    // Another version may have other fields.
    let found = answer.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if found != provider.api_version {
        let expected = provider.api_version.clone();
        return Err(ProviderResponseError::Version { expected, found: found.to_owned() });
    }
    let response: Response = serde_json::from_value(answer.into()).map_err(malformed)?;
    if response.kind.as_deref() != Some("CredentialProviderResponse") {
        return Err(ProviderResponseError::Malformed);
    }
    let scope = match response.cache_key_type.as_deref().unwrap_or_default() {
        "Image" => CacheScope::Image,
        "Registry" => CacheScope::Registry,
        "Global" => CacheScope::Global,
        other => return Err(ProviderResponseError::CacheKeyType(other.to_owned())),
    };
    let duration = match response.cache_duration {
        None => provider.default_cache_duration,
        Some(duration) if duration.is_negative() => return Err(ProviderResponseError::Malformed),
        Some(duration) => duration.to_std(),
    };
    let keep = (!duration.is_zero()).then(|| (cache_key(scope, repository), duration));
    let entries = entries(response.auth, account);
    let shared = provider.token.as_ref().map(|token| token.shared);
    if let (Some(ResponseSharing::Account), Some(account)) = (shared, account)
        && entries.iter().any(|entry| entry.password == account.token)
    {
        return Err(ProviderResponseError::EchoedToken);
    }
    Ok(ProviderResponse { entries, keep })
}

fn cache_key(scope: CacheScope, repository: &str) -> String {
    match scope {
        CacheScope::Image => repository.to_owned(),
        CacheScope::Registry => repository.split('/').next().unwrap_or_default().to_owned(),
        // Not a valid name of an image or registry.
        CacheScope::Global => "<global>".to_owned(),
    }
}

fn entries(
    auth: Option<BTreeMap<String, Auth>>,
    account: Option<&AccountIdentity>,
) -> Vec<RegistryCredential> {
    let origin = match account {
        None => CredentialOrigin::Node,
        Some(AccountIdentity { uid, namespace, name, .. }) => {
            CredentialOrigin::Account { uid: uid.clone(), namespace: namespace.clone(), name: name.clone() }
        }
    };
    let entry = |(location, auth): (String, Auth)| RegistryCredential {
        location,
        username: auth.username.unwrap_or_default(),
        password: auth.password.unwrap_or_default(),
        email: String::new(),
        origin: origin.clone(),
    };
    auth.into_iter().flatten().map(entry).collect()
}
