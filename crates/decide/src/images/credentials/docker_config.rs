//! Docker configuration files and pull secrets.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use model::{ConfigObject, CredentialOrigin, RegistryCredential};
use serde::Deserialize;

/// An invalid file. Never includes the content, which is secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error occurred while trying to unmarshal json")]
pub struct InvalidDockerConfig;

/// The fields of a `config.json` that are used.
#[derive(Deserialize)]
struct ConfigJson {
    auths: Option<Entries>,
}

/// Entries by location.
type Entries = BTreeMap<String, Entry>;

#[derive(Deserialize)]
struct Entry {
    username: Option<String>,
    password: Option<String>,
    email: Option<String>,
    auth: Option<String>,
}

/// Reads a `config.json` or the content of a `kubernetes.io/dockerconfigjson` secret.
///
/// # Errors
/// When the format is invalid.
pub fn read_config_json(
    text: &[u8],
    origin: &CredentialOrigin,
) -> Result<Vec<RegistryCredential>, InvalidDockerConfig> {
    let file: ConfigJson = serde_json::from_slice(text).map_err(|_| InvalidDockerConfig)?;
    credentials(file.auths, origin)
}

/// Reads a `.dockercfg` or the content of a `kubernetes.io/dockercfg` secret.
///
/// # Errors
/// When the format is invalid.
pub fn read_dockercfg(
    text: &[u8],
    origin: &CredentialOrigin,
) -> Result<Vec<RegistryCredential>, InvalidDockerConfig> {
    credentials(serde_json::from_slice(text).map_err(|_| InvalidDockerConfig)?, origin)
}

/// The entries of a pull secret; `None` for another type or invalid content.
pub fn read_secret(secret: &ConfigObject) -> Option<Vec<RegistryCredential>> {
    let origin = CredentialOrigin::Secret {
        uid: secret.uid.clone(),
        namespace: secret.key.namespace.clone(),
        name: secret.key.name.clone(),
    };
    match secret.secret_type.as_str() {
        "kubernetes.io/dockerconfigjson" => {
            read_config_json(secret.data.get(".dockerconfigjson")?, &origin).ok()
        }
        "kubernetes.io/dockercfg" => read_dockercfg(secret.data.get(".dockercfg")?, &origin).ok(),
        _ => None,
    }
}

fn credentials(
    entries: Option<Entries>,
    origin: &CredentialOrigin,
) -> Result<Vec<RegistryCredential>, InvalidDockerConfig> {
    let credential = |(location, entry): (String, Entry)| {
        let (username, password) = match entry.auth.filter(|auth| !auth.is_empty()) {
            Some(auth) => user_and_password(&auth)?,
            None => (entry.username.unwrap_or_default(), entry.password.unwrap_or_default()),
        };
        let email = entry.email.unwrap_or_default();
        Ok(RegistryCredential { location, username, password, email, origin: origin.clone() })
    };
    entries.into_iter().flatten().map(credential).collect()
}

/// `auth` is base64 of `user:password`, with or without padding.
fn user_and_password(auth: &str) -> Result<(String, String), InvalidDockerConfig> {
    let plain: String = auth.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let engine = if plain.trim().ends_with('=') { &STANDARD } else { &STANDARD_NO_PAD };
    let decoded = engine.decode(plain).map_err(|_| InvalidDockerConfig)?;
    let decoded = String::from_utf8(decoded).map_err(|_| InvalidDockerConfig)?;
    let (user, password) = decoded.split_once(':').ok_or(InvalidDockerConfig)?;
    Ok((user.to_owned(), password.to_owned()))
}
