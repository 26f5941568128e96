//! Flags for the log, the pod sources and the server.

use super::{FlagKind as Kind, FlagSpec, Status, Target, field, kept};

pub(in super::super) static LOGGING: &[FlagSpec] = &[
    FlagSpec {
        name: "v",
        short: Some('v'),
        kind: Kind::Verbosity,
        target: Target::Field("logging.verbosity"),
        status: Status::Current,
        help: "Verbosity of the log.",
    },
    kept("vmodule", Kind::Vmodule, "logging.vmodule", "Verbosity by source file pattern, text format only."),
    kept(
        "log-flush-frequency",
        Kind::Duration,
        "logging.flushFrequency",
        "Longest time a log line may wait in a buffer.",
    ),
    field("logging-format", Kind::Text, "logging.format", "Log format: text or json."),
    field(
        "log-text-split-stream",
        Kind::Bool,
        "logging.options.text.splitStream",
        "Text format: errors to standard error, the rest to standard output (alpha).",
    ),
    field(
        "log-text-info-buffer-size",
        Kind::Quantity,
        "logging.options.text.infoBufferSize",
        "Text format: buffer for all but errors (alpha).",
    ),
    field(
        "log-json-split-stream",
        Kind::Bool,
        "logging.options.json.splitStream",
        "JSON format: errors to standard error, the rest to standard output (alpha).",
    ),
    field(
        "log-json-info-buffer-size",
        Kind::Quantity,
        "logging.options.json.infoBufferSize",
        "JSON format: buffer for all but errors (alpha).",
    ),
];

pub(in super::super) static SERVER: &[FlagSpec] = &[
    field(
        "pod-manifest-path",
        Kind::Text,
        "staticPodPath",
        "Directory of static pod files, or one such file.",
    ),
    field("manifest-url", Kind::Text, "staticPodURL", "URL that serves static pods."),
    field(
        "manifest-url-header",
        Kind::Headers,
        "staticPodURLHeader",
        "HTTP headers for --manifest-url, as name:value pairs.",
    ),
    field(
        "sync-frequency",
        Kind::Duration,
        "syncFrequency",
        "Longest time between two syncs of an unchanged pod.",
    ),
    field(
        "file-check-frequency",
        Kind::Duration,
        "fileCheckFrequency",
        "How often static pod files are looked at.",
    ),
    field(
        "http-check-frequency",
        Kind::Duration,
        "httpCheckFrequency",
        "How often --manifest-url is looked at.",
    ),
    field("enable-server", Kind::Bool, "enableServer", "Run the HTTPS server."),
    field("address", Kind::Ip, "address", "Address the server listens on."),
    field("port", Kind::Int32, "port", "Port of the HTTPS server."),
    field(
        "read-only-port",
        Kind::Int32,
        "readOnlyPort",
        "Port of the plain HTTP server without authentication; 0 for none.",
    ),
    field(
        "anonymous-auth",
        Kind::Bool,
        "authentication.anonymous.enabled",
        "Let clients without credentials in as system:anonymous.",
    ),
    field(
        "authentication-token-webhook",
        Kind::Bool,
        "authentication.webhook.enabled",
        "Check bearer tokens with the API server.",
    ),
    field(
        "authentication-token-webhook-cache-ttl",
        Kind::Duration,
        "authentication.webhook.cacheTTL",
        "How long such a verdict is remembered.",
    ),
    field(
        "client-ca-file",
        Kind::Text,
        "authentication.x509.clientCAFile",
        "Authorities whose client certificates are accepted.",
    ),
    field(
        "authorization-mode",
        Kind::Text,
        "authorization.mode",
        "Who decides what clients may do: AlwaysAllow or Webhook.",
    ),
    field(
        "authorization-webhook-cache-authorized-ttl",
        Kind::Duration,
        "authorization.webhook.cacheAuthorizedTTL",
        "How long a yes of the API server is remembered.",
    ),
    field(
        "authorization-webhook-cache-unauthorized-ttl",
        Kind::Duration,
        "authorization.webhook.cacheUnauthorizedTTL",
        "How long a no of the API server is remembered.",
    ),
    field(
        "tls-cert-file",
        Kind::Text,
        "tlsCertFile",
        "Serving certificate; without it one is made in --cert-dir.",
    ),
    field("tls-private-key-file", Kind::Text, "tlsPrivateKeyFile", "Key of the serving certificate."),
    field(
        "tls-cipher-suites",
        Kind::List,
        "tlsCipherSuites",
        "Cipher suites up to TLS 1.2, by their Go names.",
    ),
    field(
        "tls-min-version",
        Kind::Text,
        "tlsMinVersion",
        "Oldest TLS version: VersionTLS10 to VersionTLS13.",
    ),
    field(
        "rotate-certificates",
        Kind::Bool,
        "rotateCertificates",
        "Renew the client certificate through the API.",
    ),
    field(
        "rotate-server-certificates",
        Kind::Bool,
        "serverTLSBootstrap",
        "Request the serving certificate through the API.",
    ),
    field(
        "enable-debugging-handlers",
        Kind::Bool,
        "enableDebuggingHandlers",
        "Serve exec, attach, port-forward and logs.",
    ),
    field("contention-profiling", Kind::Bool, "enableContentionProfiling", "Profile waiting for locks."),
    field("healthz-port", Kind::Int32, "healthzPort", "Port of the local health check; 0 for none."),
    field("healthz-bind-address", Kind::Ip, "healthzBindAddress", "Address of the local health check."),
    field(
        "streaming-connection-idle-timeout",
        Kind::Duration,
        "streamingConnectionIdleTimeout",
        "No effect.",
    ),
];
