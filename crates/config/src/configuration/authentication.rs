//! Who may use the server, and for what.

use serde::{Deserialize, Serialize};

use super::{empty_is_default, is_zero, unless_set};
use crate::duration::GoDuration;

/// Authentication and authorization of the server's clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Access {
    /// How clients prove who they are.
    pub authentication: Authentication,
    /// What they may do.
    pub authorization: Authorization,
}

/// How clients prove who they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authentication {
    /// Client certificates.
    pub x509: X509,
    /// Bearer tokens, checked with the API server.
    pub webhook: WebhookAuthentication,
    /// Clients without credentials.
    pub anonymous: Anonymous,
}

/// Client certificates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct X509 {
    /// Authorities whose certificates are accepted; empty for none.
    #[serde(rename = "clientCAFile", skip_serializing_if = "is_zero")]
    pub client_ca_file: String,
}

/// Bearer tokens, checked with TokenReview.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookAuthentication {
    /// Whether tokens are accepted.
    pub enabled: bool,
    /// How long a verdict is remembered.
    #[serde(rename = "cacheTTL")]
    pub cache_ttl: GoDuration,
}

/// Clients without credentials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Anonymous {
    /// Whether they are let in as `system:anonymous`.
    pub enabled: bool,
}

/// What clients may do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authorization {
    /// Who decides.
    #[serde(deserialize_with = "empty_is_default")]
    pub mode: AuthorizationMode,
    /// Settings for asking the API server.
    pub webhook: WebhookAuthorization,
}

/// Who decides what a client may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthorizationMode {
    /// Everyone who is authenticated may do everything.
    AlwaysAllow,
    /// The API server is asked with SubjectAccessReview.
    #[default]
    Webhook,
}

/// Settings for asking the API server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookAuthorization {
    /// How long a yes is remembered.
    #[serde(rename = "cacheAuthorizedTTL")]
    pub cache_authorized_ttl: GoDuration,
    /// How long a no is remembered.
    #[serde(rename = "cacheUnauthorizedTTL")]
    pub cache_unauthorized_ttl: GoDuration,
}

impl Default for WebhookAuthentication {
    fn default() -> Self {
        Self { enabled: true, cache_ttl: GoDuration::from_secs(120) }
    }
}

impl Default for WebhookAuthorization {
    fn default() -> Self {
        Self {
            cache_authorized_ttl: GoDuration::from_secs(300),
            cache_unauthorized_ttl: GoDuration::from_secs(30),
        }
    }
}

impl Access {
    pub(super) fn complete(&mut self) {
        let default = Self::default();
        unless_set(&mut self.authentication.webhook.cache_ttl, default.authentication.webhook.cache_ttl);
        let (mine, default) = (&mut self.authorization.webhook, default.authorization.webhook);
        unless_set(&mut mine.cache_authorized_ttl, default.cache_authorized_ttl);
        unless_set(&mut mine.cache_unauthorized_ttl, default.cache_unauthorized_ttl);
    }
}
