//! Authentication and authorization of the server's clients.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use values::duration::GoDuration;

use super::{default_if_zero, empty_is_default, is_zero};

/// Authentication and authorization of the server's clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Access {
    pub authentication: Authentication,
    pub authorization: Authorization,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authentication {
    pub x509: X509,
    /// Bearer tokens.
    pub webhook: WebhookAuthentication,
    /// Requests without credentials.
    pub anonymous: Anonymous,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct X509 {
    /// File with the accepted certificate authorities; empty to reject client certificates.
    #[serde(rename = "clientCAFile", skip_serializing_if = "is_zero")]
    pub client_ca_file: String,
}

/// Authentication of bearer tokens with the TokenReview API.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookAuthentication {
    #[default = true]
    pub enabled: bool,
    /// How long responses are cached.
    #[serde(rename = "cacheTTL")]
    #[default(GoDuration::from_secs(120))]
    pub cache_ttl: GoDuration,
}

/// Requests without credentials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Anonymous {
    /// Whether such requests are accepted as user `system:anonymous`.
    pub enabled: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authorization {
    #[serde(deserialize_with = "empty_is_default")]
    pub mode: AuthorizationMode,
    pub webhook: WebhookAuthorization,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthorizationMode {
    /// Authenticated clients may do everything.
    AlwaysAllow,
    /// The API server decides (SubjectAccessReview).
    #[default]
    Webhook,
}

#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookAuthorization {
    /// How long "authorized" responses are cached.
    #[serde(rename = "cacheAuthorizedTTL")]
    #[default(GoDuration::from_secs(300))]
    pub cache_authorized_ttl: GoDuration,
    /// How long "unauthorized" responses are cached.
    #[serde(rename = "cacheUnauthorizedTTL")]
    #[default(GoDuration::from_secs(30))]
    pub cache_unauthorized_ttl: GoDuration,
}

impl Access {
    pub(super) fn apply_defaults(&mut self) {
        let default = Self::default();
        default_if_zero(&mut self.authentication.webhook.cache_ttl, default.authentication.webhook.cache_ttl);
        let (webhook, default) = (&mut self.authorization.webhook, default.authorization.webhook);
        default_if_zero(&mut webhook.cache_authorized_ttl, default.cache_authorized_ttl);
        default_if_zero(&mut webhook.cache_unauthorized_ttl, default.cache_unauthorized_ttl);
    }
}
