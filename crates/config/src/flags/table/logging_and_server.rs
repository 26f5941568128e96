//! Flags for logging, the pod sources and the server.

use super::{FlagKind as Kind, FlagSpec, Status, Target, flag_or_file, prefer_file};

pub(in super::super) static LOGGING: &[FlagSpec] = &[
    FlagSpec {
        name: "v",
        short: Some('v'),
        kind: Kind::Verbosity,
        target: Target::Field("logging.verbosity"),
        status: Status::Current,
        help: "Log verbosity; higher numbers log more.",
    },
    flag_or_file(
        "vmodule",
        Kind::Vmodule,
        "logging.vmodule",
        "Log verbosity per source file, as a comma-separated list of PATTERN=N.",
    ),
    flag_or_file(
        "log-flush-frequency",
        Kind::Duration,
        "logging.flushFrequency",
        "Maximum time that a log line stays in a buffer.",
    ),
    prefer_file("logging-format", Kind::Text, "logging.format", "Log format: \"text\" or \"json\"."),
    prefer_file(
        "log-text-split-stream",
        Kind::Bool,
        "logging.options.text.splitStream",
        "In text format, write errors to standard error and everything else to standard output (alpha).",
    ),
    prefer_file(
        "log-text-info-buffer-size",
        Kind::Quantity,
        "logging.options.text.infoBufferSize",
        "In text format, size of the buffer for everything but errors; 0 disables buffering (alpha).",
    ),
    prefer_file(
        "log-json-split-stream",
        Kind::Bool,
        "logging.options.json.splitStream",
        "In JSON format, write errors to standard error and everything else to standard output (alpha).",
    ),
    prefer_file(
        "log-json-info-buffer-size",
        Kind::Quantity,
        "logging.options.json.infoBufferSize",
        "In JSON format, size of the buffer for everything but errors; 0 disables buffering (alpha).",
    ),
];

pub(in super::super) static SERVER: &[FlagSpec] = &[
    prefer_file(
        "pod-manifest-path",
        Kind::Text,
        "staticPodPath",
        "Directory of static pod manifests, or a single manifest file.",
    ),
    prefer_file("manifest-url", Kind::Text, "staticPodURL", "URL to read static pod manifests from."),
    prefer_file(
        "manifest-url-header",
        Kind::Headers,
        "staticPodURLHeader",
        "HTTP headers for requests to --manifest-url, as a comma-separated list of NAME:VALUE. May be repeated.",
    ),
    prefer_file(
        "sync-frequency",
        Kind::Duration,
        "syncFrequency",
        "Maximum time between two syncs of a pod that did not change.",
    ),
    prefer_file(
        "file-check-frequency",
        Kind::Duration,
        "fileCheckFrequency",
        "How often to check the static pod manifests for changes.",
    ),
    prefer_file(
        "http-check-frequency",
        Kind::Duration,
        "httpCheckFrequency",
        "How often to check --manifest-url for changes.",
    ),
    prefer_file("enable-server", Kind::Bool, "enableServer", "Run the HTTPS server."),
    prefer_file("address", Kind::Ip, "address", "IP address that the HTTPS server listens on."),
    prefer_file("port", Kind::Int32, "port", "Port of the HTTPS server."),
    prefer_file(
        "read-only-port",
        Kind::Int32,
        "readOnlyPort",
        "Port of the HTTP server without authentication; 0 disables it.",
    ),
    prefer_file(
        "anonymous-auth",
        Kind::Bool,
        "authentication.anonymous.enabled",
        "Accept requests without credentials, as user system:anonymous.",
    ),
    prefer_file(
        "authentication-token-webhook",
        Kind::Bool,
        "authentication.webhook.enabled",
        "Authenticate bearer tokens with the TokenReview API.",
    ),
    prefer_file(
        "authentication-token-webhook-cache-ttl",
        Kind::Duration,
        "authentication.webhook.cacheTTL",
        "How long to cache responses of the TokenReview API.",
    ),
    prefer_file(
        "client-ca-file",
        Kind::Text,
        "authentication.x509.clientCAFile",
        "File with the certificate authorities to authenticate client certificates with.",
    ),
    prefer_file(
        "authorization-mode",
        Kind::Text,
        "authorization.mode",
        "How to authorize requests: \"AlwaysAllow\", or \"Webhook\" to use the SubjectAccessReview API.",
    ),
    prefer_file(
        "authorization-webhook-cache-authorized-ttl",
        Kind::Duration,
        "authorization.webhook.cacheAuthorizedTTL",
        "How long to cache \"authorized\" responses of the SubjectAccessReview API.",
    ),
    prefer_file(
        "authorization-webhook-cache-unauthorized-ttl",
        Kind::Duration,
        "authorization.webhook.cacheUnauthorizedTTL",
        "How long to cache \"unauthorized\" responses of the SubjectAccessReview API.",
    ),
    prefer_file(
        "tls-cert-file",
        Kind::Text,
        "tlsCertFile",
        "File with the serving certificate. Without it, a self-signed certificate is created in --cert-dir.",
    ),
    prefer_file(
        "tls-private-key-file",
        Kind::Text,
        "tlsPrivateKeyFile",
        "File with the private key of the serving certificate.",
    ),
    prefer_file(
        "tls-cipher-suites",
        Kind::List,
        "tlsCipherSuites",
        "Allowed cipher suites for TLS 1.2 and older, by their Go names. If empty, the default set is used.",
    ),
    prefer_file(
        "tls-min-version",
        Kind::Text,
        "tlsMinVersion",
        "Minimum TLS version: \"VersionTLS10\", \"VersionTLS11\", \"VersionTLS12\" or \"VersionTLS13\".",
    ),
    prefer_file(
        "rotate-certificates",
        Kind::Bool,
        "rotateCertificates",
        "Renew the client certificate with the CertificateSigningRequest API before it expires.",
    ),
    prefer_file(
        "rotate-server-certificates",
        Kind::Bool,
        "serverTLSBootstrap",
        "Request and renew the serving certificate with the CertificateSigningRequest API.",
    ),
    prefer_file(
        "enable-debugging-handlers",
        Kind::Bool,
        "enableDebuggingHandlers",
        "Serve the endpoints for exec, attach, port-forward, container logs and profiling.",
    ),
    prefer_file("contention-profiling", Kind::Bool, "enableContentionProfiling", "Enable block profiling."),
    prefer_file(
        "healthz-port",
        Kind::Int32,
        "healthzPort",
        "Port of the local health check server; 0 disables it.",
    ),
    prefer_file(
        "healthz-bind-address",
        Kind::Ip,
        "healthzBindAddress",
        "IP address that the local health check server listens on.",
    ),
    prefer_file(
        "streaming-connection-idle-timeout",
        Kind::Duration,
        "streamingConnectionIdleTimeout",
        "Maximum idle time of a streaming connection.",
    ),
];
