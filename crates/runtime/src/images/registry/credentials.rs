//! Credentials of a pull.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

const DEFAULT_REGISTRY: &str = "docker.io";
/// Configuration files are written with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

/// Proof of identity for a registry.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    Password {
        user: String,
        password: String,
    },
    /// A refresh token, which is exchanged for a token of the registry.
    IdentityToken(String),
    /// Sent as it is.
    RegistryToken(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { user, .. } => {
                f.debug_struct("Password").field("user", user).finish_non_exhaustive()
            }
            Self::IdentityToken(_) => f.write_str("IdentityToken"),
            Self::RegistryToken(_) => f.write_str("RegistryToken"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("invalid credentials: the field auth is not base64 of user and password")]
pub struct InvalidCredentials;

impl Credentials {
    /// Reads the credentials of a CRI request for images of `registry`. `None` if they are for another registry.
    pub(crate) fn from_request(
        auth: &cri::v1::AuthConfig,
        registry: &str,
    ) -> Result<Option<Self>, InvalidCredentials> {
        if !auth.server_address.is_empty() && host_of(&auth.server_address) != host_of(registry) {
            return Ok(None);
        }
        if !auth.username.is_empty() {
            return Ok(Some(Self::Password { user: auth.username.clone(), password: auth.password.clone() }));
        }
        if !auth.identity_token.is_empty() {
            return Ok(Some(Self::IdentityToken(auth.identity_token.clone())));
        }
        if !auth.auth.is_empty() {
            let decoded = LENIENT.decode(auth.auth.trim()).map_err(|_| InvalidCredentials)?;
            let text = String::from_utf8(decoded).map_err(|_| InvalidCredentials)?;
            let (user, password) = text.split_once(':').ok_or(InvalidCredentials)?;
            let password = password.trim_end_matches('\0').to_owned();
            return Ok(Some(Self::Password { user: user.to_owned(), password }));
        }
        let token = &auth.registry_token;
        Ok((!token.is_empty()).then(|| Self::RegistryToken(token.clone())))
    }

    /// The header for a registry that asks for Basic authentication.
    pub(super) fn basic(&self) -> Option<String> {
        match self {
            Self::Password { user, password } => {
                Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
            }
            Self::IdentityToken(_) | Self::RegistryToken(_) => None,
        }
    }
}

/// The registry's host in a name or address; Docker Hub has several.
fn host_of(address: &str) -> &str {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    match address.split('/').next().unwrap_or_default() {
        "index.docker.io" | "registry-1.docker.io" => DEFAULT_REGISTRY,
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cri::v1::AuthConfig;

    fn read(auth: &AuthConfig) -> Option<Credentials> {
        Credentials::from_request(auth, "registry.example:5000").unwrap()
    }

    #[test]
    fn credentials_of_another_registry_are_not_used() {
        let auth = |address: &str| AuthConfig {
            username: "ann".into(),
            server_address: address.into(),
            ..AuthConfig::default()
        };
        assert!(read(&auth("https://registry.example:5000/v1/")).is_some());
        assert!(read(&auth("")).is_some());
        assert!(read(&auth("registry.example")).is_none());
        let hub = auth("https://index.docker.io/v1/");
        assert!(Credentials::from_request(&hub, "docker.io").unwrap().is_some());
    }

    #[test]
    fn encoded_user_and_password_are_split() {
        for text in ["YW5uOnNlY3JldA==", "YW5uOnNlY3JldA", "YW5uOnNlY3JldAA="] {
            let auth = AuthConfig { auth: text.into(), ..AuthConfig::default() };
            let expected = Credentials::Password { user: "ann".into(), password: "secret".into() };
            assert_eq!(read(&auth), Some(expected), "{text}");
        }
        let broken = AuthConfig { auth: "%%%".into(), ..AuthConfig::default() };
        assert!(Credentials::from_request(&broken, "a.example").is_err());
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let credentials = Credentials::Password { user: "ann".into(), password: "hunter2".into() };
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
