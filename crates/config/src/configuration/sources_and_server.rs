//! Pod sources, sync frequencies and the HTTPS server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use values::duration::GoDuration;

use super::{default_if_zero, empty_is_none, is_zero};

/// Pod sources, sync frequencies and the HTTPS server.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourcesAndServer {
    #[default = true]
    pub enable_server: bool,
    /// Directory of static pod manifests, or a single manifest file; empty for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub static_pod_path: String,
    /// Root directory of the container logs.
    #[default = "/var/log/pods"]
    pub pod_logs_dir: String,
    /// Maximum time between two syncs of a pod that did not change.
    #[default(GoDuration::from_secs(60))]
    pub sync_frequency: GoDuration,
    /// How often the static pod manifests are checked for changes.
    #[default(GoDuration::from_secs(20))]
    pub file_check_frequency: GoDuration,
    /// How often the static pod URL is checked for changes.
    #[default(GoDuration::from_secs(20))]
    pub http_check_frequency: GoDuration,
    /// URL that serves a Pod or PodList; empty for none.
    #[serde(rename = "staticPodURL", skip_serializing_if = "is_zero")]
    pub static_pod_url: String,
    /// HTTP headers for the static pod URL. May contain secrets; never logged.
    #[serde(rename = "staticPodURLHeader", skip_serializing_if = "is_zero")]
    pub static_pod_url_header: BTreeMap<String, Vec<String>>,
    #[default = "0.0.0.0"]
    pub address: String,
    /// Port of the HTTPS server.
    #[default = 10250]
    pub port: i32,
    /// Port of the HTTP server without authentication; 0 disables it.
    #[serde(skip_serializing_if = "is_zero")]
    pub read_only_port: i32,
    /// File with the serving certificate; empty for a self-signed one.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_cert_file: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_private_key_file: String,
    /// Cipher suites for TLS 1.2 and older, by their Go names; empty for the default set.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_cipher_suites: Vec<String>,
    /// Key exchange groups, by their TLS numbers; empty for the default set.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_curve_preferences: Vec<i32>,
    #[serde(deserialize_with = "empty_is_none", skip_serializing_if = "Option::is_none")]
    pub tls_min_version: Option<TlsVersion>,
    /// Whether the client certificate is renewed with the CertificateSigningRequest API.
    #[serde(skip_serializing_if = "is_zero")]
    pub rotate_certificates: bool,
    /// Whether the serving certificate is requested with the CertificateSigningRequest API.
    #[serde(rename = "serverTLSBootstrap", skip_serializing_if = "is_zero")]
    pub server_tls_bootstrap: bool,
    /// Serves exec, attach, port-forward, container logs and profiling.
    #[default = true]
    pub enable_debugging_handlers: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub enable_contention_profiling: bool,
    /// Serves `/debug/pprof`.
    #[default = true]
    pub enable_profiling_handler: bool,
    /// Serves `/debug/flags/v`.
    #[default = true]
    pub enable_debug_flags_handler: bool,
    /// Serves `/logs/`.
    #[default = true]
    pub enable_system_log_handler: bool,
    /// Accepts journal queries on `/logs/`.
    pub enable_system_log_query: bool,
    /// Port of the local health check server; 0 disables it.
    #[default = 10248]
    pub healthz_port: i32,
    #[default = "127.0.0.1"]
    pub healthz_bind_address: String,
    /// Has no effect; the container runtime closes idle streams.
    #[default(GoDuration::from_secs(4 * 3600))]
    pub streaming_connection_idle_timeout: GoDuration,
}

/// A TLS version; serialized as its Go name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsVersion {
    #[serde(rename = "VersionTLS10")]
    Tls10,
    #[serde(rename = "VersionTLS11")]
    Tls11,
    #[serde(rename = "VersionTLS12")]
    Tls12,
    #[serde(rename = "VersionTLS13")]
    Tls13,
}

impl SourcesAndServer {
    pub(super) fn apply_defaults(&mut self) {
        let default = Self::default();
        default_if_zero(&mut self.pod_logs_dir, default.pod_logs_dir);
        default_if_zero(&mut self.sync_frequency, default.sync_frequency);
        default_if_zero(&mut self.file_check_frequency, default.file_check_frequency);
        default_if_zero(&mut self.http_check_frequency, default.http_check_frequency);
        default_if_zero(&mut self.address, default.address);
        default_if_zero(&mut self.port, default.port);
        default_if_zero(&mut self.healthz_bind_address, default.healthz_bind_address);
        default_if_zero(
            &mut self.streaming_connection_idle_timeout,
            default.streaming_connection_idle_timeout,
        );
    }
}
