//! Docker configuration files and pull secrets.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use model::{ConfigObject, CredentialOrigin, RegistryCredential};
use serde_json::Value;

/// An invalid file. Never includes the content, which is secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDockerConfig;

impl std::fmt::Display for InvalidDockerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("error occurred while trying to unmarshal json")
    }
}

impl std::error::Error for InvalidDockerConfig {}

/// Reads a `config.json` or the content of a `kubernetes.io/dockerconfigjson` secret.
///
/// # Errors
/// When the format is invalid.
pub fn read_config_json(
    text: &[u8],
    origin: &CredentialOrigin,
) -> Result<Vec<RegistryCredential>, InvalidDockerConfig> {
    let value: Value = serde_json::from_slice(text).map_err(|_| InvalidDockerConfig)?;
    if !value.is_object() {
        return Err(InvalidDockerConfig);
    }
    entries(value.get("auths").unwrap_or(&Value::Null), origin)
}

/// Reads a `.dockercfg` or the content of a `kubernetes.io/dockercfg` secret.
///
/// # Errors
/// When the format is invalid.
pub fn read_dockercfg(
    text: &[u8],
    origin: &CredentialOrigin,
) -> Result<Vec<RegistryCredential>, InvalidDockerConfig> {
    entries(&serde_json::from_slice(text).map_err(|_| InvalidDockerConfig)?, origin)
}

/// The entries of a pull secret; `None` for another type or invalid content.
#[must_use]
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

fn entries(value: &Value, origin: &CredentialOrigin) -> Result<Vec<RegistryCredential>, InvalidDockerConfig> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Object(entries) => {
            entries.iter().map(|(location, fields)| entry(location, fields, origin)).collect()
        }
        _ => Err(InvalidDockerConfig),
    }
}

fn entry(
    location: &str,
    fields: &Value,
    origin: &CredentialOrigin,
) -> Result<RegistryCredential, InvalidDockerConfig> {
    if !fields.is_object() {
        return Err(InvalidDockerConfig);
    }
    let text = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(InvalidDockerConfig),
    };
    let (mut username, mut password) = (text("username")?, text("password")?);
    let auth = text("auth")?;
    if !auth.is_empty() {
        (username, password) = user_and_password(&auth)?;
    }
    Ok(RegistryCredential {
        location: location.to_owned(),
        username,
        password,
        email: text("email")?,
        origin: origin.clone(),
    })
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
