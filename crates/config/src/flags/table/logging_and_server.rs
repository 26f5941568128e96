//! Flags for logging, the pod sources and the server.

use super::{FlagSpec, flag_or_file, prefer_file};

pub(in super::super) static LOGGING: &[FlagSpec] = flags! {
    /// Log verbosity; higher numbers log more.
    "v" | 'v': Verbosity = flag_or_file("logging.verbosity"),
    /// Log verbosity per source file, as a comma-separated list of PATTERN=N.
    "vmodule": Vmodule = flag_or_file("logging.vmodule"),
    /// Maximum time that a log line stays in a buffer.
    "log-flush-frequency": Duration = flag_or_file("logging.flushFrequency"),
    /// Log format: "text" or "json".
    "logging-format": Text = prefer_file("logging.format"),
    /// In text format, write errors to standard error and everything else to standard output (alpha).
    "log-text-split-stream": Bool = prefer_file("logging.options.text.splitStream"),
    /// In text format, size of the buffer for everything but errors; 0 disables buffering (alpha).
    "log-text-info-buffer-size": Quantity = prefer_file("logging.options.text.infoBufferSize"),
    /// In JSON format, write errors to standard error and everything else to standard output (alpha).
    "log-json-split-stream": Bool = prefer_file("logging.options.json.splitStream"),
    /// In JSON format, size of the buffer for everything but errors; 0 disables buffering (alpha).
    "log-json-info-buffer-size": Quantity = prefer_file("logging.options.json.infoBufferSize"),
};

pub(in super::super) static SERVER: &[FlagSpec] = flags! {
    /// Directory of static pod manifests, or a single manifest file.
    "pod-manifest-path": Text = prefer_file("staticPodPath"),
    /// URL to read static pod manifests from.
    "manifest-url": Text = prefer_file("staticPodURL"),
    /// HTTP headers for requests to --manifest-url, as a comma-separated list of NAME:VALUE. May be repeated.
    "manifest-url-header": Headers = prefer_file("staticPodURLHeader"),
    /// Maximum time between two syncs of a pod that did not change.
    "sync-frequency": Duration = prefer_file("syncFrequency"),
    /// How often to check the static pod manifests for changes.
    "file-check-frequency": Duration = prefer_file("fileCheckFrequency"),
    /// How often to check --manifest-url for changes.
    "http-check-frequency": Duration = prefer_file("httpCheckFrequency"),
    /// Run the HTTPS server.
    "enable-server": Bool = prefer_file("enableServer"),
    /// IP address that the HTTPS server listens on.
    "address": Ip = prefer_file("address"),
    /// Port of the HTTPS server.
    "port": Int32 = prefer_file("port"),
    /// Port of the HTTP server without authentication; 0 disables it.
    "read-only-port": Int32 = prefer_file("readOnlyPort"),
    /// Accept requests without credentials, as user system:anonymous.
    "anonymous-auth": Bool = prefer_file("authentication.anonymous.enabled"),
    /// Authenticate bearer tokens with the TokenReview API.
    "authentication-token-webhook": Bool = prefer_file("authentication.webhook.enabled"),
    /// How long to cache responses of the TokenReview API.
    "authentication-token-webhook-cache-ttl": Duration = prefer_file("authentication.webhook.cacheTTL"),
    /// File with the certificate authorities to authenticate client certificates with.
    "client-ca-file": Text = prefer_file("authentication.x509.clientCAFile"),
    /// How to authorize requests: "AlwaysAllow", or "Webhook" to use the SubjectAccessReview API.
    "authorization-mode": Text = prefer_file("authorization.mode"),
    /// How long to cache "authorized" responses of the SubjectAccessReview API.
    "authorization-webhook-cache-authorized-ttl": Duration = prefer_file("authorization.webhook.cacheAuthorizedTTL"),
    /// How long to cache "unauthorized" responses of the SubjectAccessReview API.
    "authorization-webhook-cache-unauthorized-ttl": Duration = prefer_file("authorization.webhook.cacheUnauthorizedTTL"),
    /// File with the serving certificate. Without it, a self-signed certificate is created in --cert-dir.
    "tls-cert-file": Text = prefer_file("tlsCertFile"),
    /// File with the private key of the serving certificate.
    "tls-private-key-file": Text = prefer_file("tlsPrivateKeyFile"),
    /// Allowed cipher suites for TLS 1.2 and older, by their Go names. If empty, the default set is used.
    "tls-cipher-suites": List = prefer_file("tlsCipherSuites"),
    /// Minimum TLS version: "VersionTLS10", "VersionTLS11", "VersionTLS12" or "VersionTLS13".
    "tls-min-version": Text = prefer_file("tlsMinVersion"),
    /// Renew the client certificate with the CertificateSigningRequest API before it expires.
    "rotate-certificates": Bool = prefer_file("rotateCertificates"),
    /// Request and renew the serving certificate with the CertificateSigningRequest API.
    "rotate-server-certificates": Bool = prefer_file("serverTLSBootstrap"),
    /// Serve the endpoints for exec, attach, port-forward, container logs and profiling.
    "enable-debugging-handlers": Bool = prefer_file("enableDebuggingHandlers"),
    /// Enable block profiling.
    "contention-profiling": Bool = prefer_file("enableContentionProfiling"),
    /// Port of the local health check server; 0 disables it.
    "healthz-port": Int32 = prefer_file("healthzPort"),
    /// IP address that the local health check server listens on.
    "healthz-bind-address": Ip = prefer_file("healthzBindAddress"),
    /// Maximum idle time of a streaming connection.
    "streaming-connection-idle-timeout": Duration = prefer_file("streamingConnectionIdleTimeout"),
};
