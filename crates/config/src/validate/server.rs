//! Rules about pod sources and the server.

use std::collections::BTreeSet;

use super::{Check, field};
use crate::{configuration::SourcesAndServer, gates::Gate};

pub(super) fn check(check: &mut Check<'_>, server: &SourcesAndServer) {
    let positive = !server.sync_frequency.is_zero() && !server.sync_frequency.is_negative();
    check.rule(positive, "syncFrequency", "must be longer than zero");
    check.in_range(server.port, 1..=65535, "port");
    check.in_range(server.read_only_port, 0..=65535, "readOnlyPort");
    check.in_range(server.healthz_port, 0..=65535, "healthzPort");
    pod_logs_dir(check, &server.pod_logs_dir);
    tls(check, server);
    check.needs_gate(Gate::RotateKubeletServerCertificate, server.server_tls_bootstrap, "serverTLSBootstrap");
    check.needs_gate(Gate::NodeLogQuery, server.enable_system_log_query, "enableSystemLogQuery");
    check.rule(
        !server.enable_system_log_query || server.enable_system_log_handler,
        "enableSystemLogQuery",
        "needs enableSystemLogHandler to be true",
    );
}

fn pod_logs_dir(check: &mut Check<'_>, dir: &str) {
    const FIELD: &str = "podLogsDir";
    if dir.is_empty() {
        return check.rule(false, FIELD, "must not be empty");
    }
    check.rule(dir.starts_with('/'), FIELD, format!("{dir:?} must be an absolute path"));
    check.rule(
        is_clean(dir),
        FIELD,
        format!("{dir:?} must be written without \".\", \"..\" and extra slashes"),
    );
    // The path ends up in metrics.
    check.rule(dir.is_ascii(), FIELD, format!("{dir:?} must be ASCII"));
}

fn is_clean(path: &str) -> bool {
    let parts = path.strip_prefix('/').unwrap_or(path);
    path == "/" || parts.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn tls(check: &mut Check<'_>, server: &SourcesAndServer) {
    for (index, suite) in server.tls_cipher_suites.iter().enumerate() {
        let known = CIPHER_SUITES.contains(&suite.as_str());
        let reason = format!("{suite:?} is not a known cipher suite");
        check.rule_at(known, || field("tlsCipherSuites").index(index), reason);
    }
    let mut seen = BTreeSet::new();
    for (index, curve) in server.tls_curve_preferences.iter().enumerate() {
        let at = || field("tlsCurvePreferences").index(index);
        check.rule_at(CURVES.contains(curve), at, format!("{curve} is not a known key exchange"));
        check.rule_at(seen.insert(*curve), at, format!("{curve} is given twice"));
    }
}

/// Key exchanges by their TLS numbers: P-256, P-384, P-521, X25519, and the hybrids with ML-KEM.
const CURVES: [i32; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

/// Cipher suites by their Go names, the insecure ones included.
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
