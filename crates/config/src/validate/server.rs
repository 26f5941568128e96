//! Rules for pod sources and the server.

use std::collections::BTreeSet;

use super::{Checker, field};
use crate::{configuration::SourcesAndServer, gates::Gate};

pub(super) fn check(checker: &mut Checker<'_>, server: &SourcesAndServer) {
    let positive = !server.sync_frequency.is_zero() && !server.sync_frequency.is_negative();
    checker.rule(positive, "syncFrequency", "must be greater than zero");
    checker.in_range(server.port, 1..=65535, "port");
    checker.in_range(server.read_only_port, 0..=65535, "readOnlyPort");
    checker.in_range(server.healthz_port, 0..=65535, "healthzPort");
    check_pod_logs_dir(checker, &server.pod_logs_dir);
    check_tls(checker, server);
    checker.requires_gate(
        Gate::RotateKubeletServerCertificate,
        server.server_tls_bootstrap,
        "serverTLSBootstrap",
    );
    checker.requires_gate(Gate::NodeLogQuery, server.enable_system_log_query, "enableSystemLogQuery");
    checker.rule(
        !server.enable_system_log_query || server.enable_system_log_handler,
        "enableSystemLogQuery",
        "requires enableSystemLogHandler to be true",
    );
}

fn check_pod_logs_dir(checker: &mut Checker<'_>, dir: &str) {
    const FIELD: &str = "podLogsDir";
    if dir.is_empty() {
        return checker.rule(false, FIELD, "must not be empty");
    }
    checker.rule(dir.starts_with('/'), FIELD, format!("{dir:?} must be an absolute path"));
    checker.rule(is_clean(dir), FIELD, format!("{dir:?} must not contain \".\", \"..\" or extra slashes"));
    // The path is used in metrics.
    checker.rule(dir.is_ascii(), FIELD, format!("{dir:?} must contain only ASCII characters"));
}

fn is_clean(path: &str) -> bool {
    let parts = path.strip_prefix('/').unwrap_or(path);
    path == "/" || parts.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn check_tls(checker: &mut Checker<'_>, server: &SourcesAndServer) {
    for (index, suite) in server.tls_cipher_suites.iter().enumerate() {
        let known = CIPHER_SUITES.contains(&suite.as_str());
        let reason = format!("{suite:?} is not a known cipher suite");
        checker.rule_at(known, || field("tlsCipherSuites").index(index), reason);
    }
    let mut seen = BTreeSet::new();
    for (index, curve) in server.tls_curve_preferences.iter().enumerate() {
        let path = || field("tlsCurvePreferences").index(index);
        checker.rule_at(CURVES.contains(curve), path, format!("{curve} is not a known key exchange group"));
        checker.rule_at(seen.insert(*curve), path, format!("{curve} is listed twice"));
    }
}

/// Key exchange groups by their TLS numbers: P-256, P-384, P-521, X25519, and the hybrids with ML-KEM.
const CURVES: [i32; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

/// Cipher suites by their Go names, including the insecure ones.
const CIPHER_SUITES: [&str; 27] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];
