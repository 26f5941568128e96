//! Where pods come from, how often they are looked at, and the server that answers for them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{empty_is_none, is_zero, unless_set};
use crate::duration::GoDuration;

/// Pod sources, sync cadence and the HTTPS server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourcesAndServer {
    /// Whether the server runs.
    pub enable_server: bool,
    /// Directory of static pod files, or one such file; empty for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub static_pod_path: String,
    /// Root of the container log tree.
    pub pod_logs_dir: String,
    /// Longest time between two syncs of a pod that did not change.
    pub sync_frequency: GoDuration,
    /// How often static pod files are looked at.
    pub file_check_frequency: GoDuration,
    /// How often the static pod URL is looked at.
    pub http_check_frequency: GoDuration,
    /// URL that serves a Pod or PodList; empty for none.
    #[serde(rename = "staticPodURL", skip_serializing_if = "is_zero")]
    pub static_pod_url: String,
    /// HTTP headers for the static pod URL; secret, never logged.
    #[serde(rename = "staticPodURLHeader", skip_serializing_if = "is_zero")]
    pub static_pod_url_header: BTreeMap<String, Vec<String>>,
    /// Address the server listens on.
    pub address: String,
    /// Port of the HTTPS server.
    pub port: i32,
    /// Port of the plain HTTP server without authentication; 0 for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub read_only_port: i32,
    /// Serving certificate; empty for a self-signed one.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_cert_file: String,
    /// Key of the serving certificate.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_private_key_file: String,
    /// Cipher suites up to TLS 1.2, by their Go names; empty for the default set.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_cipher_suites: Vec<String>,
    /// Key exchange groups, by their TLS numbers; empty for the default set.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_curve_preferences: Vec<i32>,
    /// Oldest TLS version accepted.
    #[serde(deserialize_with = "empty_is_none", skip_serializing_if = "Option::is_none")]
    pub tls_min_version: Option<TlsVersion>,
    /// Whether the client certificate is renewed through the API.
    #[serde(skip_serializing_if = "is_zero")]
    pub rotate_certificates: bool,
    /// Whether the serving certificate is requested through the API.
    #[serde(rename = "serverTLSBootstrap", skip_serializing_if = "is_zero")]
    pub server_tls_bootstrap: bool,
    /// Whether exec, attach, port-forward, logs and profiling are served.
    pub enable_debugging_handlers: bool,
    /// Whether block profiling is on.
    #[serde(skip_serializing_if = "is_zero")]
    pub enable_contention_profiling: bool,
    /// Whether `/debug/pprof` is served.
    pub enable_profiling_handler: bool,
    /// Whether `/debug/flags/v` is served.
    pub enable_debug_flags_handler: bool,
    /// Whether `/logs/` is served.
    pub enable_system_log_handler: bool,
    /// Whether `/logs/` answers journal queries.
    pub enable_system_log_query: bool,
    /// Port of the local health check; 0 for none.
    pub healthz_port: i32,
    /// Address of the local health check.
    pub healthz_bind_address: String,
    /// Has no effect; the runtime decides when an idle stream ends.
    pub streaming_connection_idle_timeout: GoDuration,
}

/// A TLS version by its Go name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.0.
    #[serde(rename = "VersionTLS10")]
    Tls10,
    /// TLS 1.1.
    #[serde(rename = "VersionTLS11")]
    Tls11,
    /// TLS 1.2.
    #[serde(rename = "VersionTLS12")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "VersionTLS13")]
    Tls13,
}

impl Default for SourcesAndServer {
    fn default() -> Self {
        Self {
            enable_server: true,
            static_pod_path: String::new(),
            pod_logs_dir: "/var/log/pods".to_owned(),
            sync_frequency: GoDuration::from_secs(60),
            file_check_frequency: GoDuration::from_secs(20),
            http_check_frequency: GoDuration::from_secs(20),
            static_pod_url: String::new(),
            static_pod_url_header: BTreeMap::new(),
            address: "0.0.0.0".to_owned(),
            port: 10250,
            read_only_port: 0,
            tls_cert_file: String::new(),
            tls_private_key_file: String::new(),
            tls_cipher_suites: Vec::new(),
            tls_curve_preferences: Vec::new(),
            tls_min_version: None,
            rotate_certificates: false,
            server_tls_bootstrap: false,
            enable_debugging_handlers: true,
            enable_contention_profiling: false,
            enable_profiling_handler: true,
            enable_debug_flags_handler: true,
            enable_system_log_handler: true,
            enable_system_log_query: false,
            healthz_port: 10248,
            healthz_bind_address: "127.0.0.1".to_owned(),
            streaming_connection_idle_timeout: GoDuration::from_secs(4 * 3600),
        }
    }
}

impl SourcesAndServer {
    pub(super) fn complete(&mut self) {
        let default = Self::default();
        unless_set(&mut self.pod_logs_dir, default.pod_logs_dir);
        unless_set(&mut self.sync_frequency, default.sync_frequency);
        unless_set(&mut self.file_check_frequency, default.file_check_frequency);
        unless_set(&mut self.http_check_frequency, default.http_check_frequency);
        unless_set(&mut self.address, default.address);
        unless_set(&mut self.port, default.port);
        unless_set(&mut self.healthz_bind_address, default.healthz_bind_address);
        unless_set(&mut self.streaming_connection_idle_timeout, default.streaming_connection_idle_timeout);
    }
}
