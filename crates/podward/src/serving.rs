//! Certificates and TLS settings of the main port.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use cluster::Clients;
use cluster::identity::{
    ClientAuthority, Reload, RequiredNames, ServingCertificate, ServingCertificateManager, TlsOptions,
};
use config::configuration::TlsVersion;
use config::{Gate, LoadedConfig};
use k8s_openapi::api::core::v1::NodeAddress;
use node_api::{ProfilingDeps, ZPagesDeps};
use ports::clock::{Clock, SystemClock};
use ports::served::client_certificates::ClientCertificates;
use ports::telemetry::certificate_meter::CertificateMeter;
use tokio::sync::watch;

use crate::wire::Serving;

/// The certificate and TLS configuration of the main port, and the task that renews a requested certificate.
///
/// # Errors
/// When a file cannot be used, or when the settings exclude every cipher suite.
pub fn serving(
    loaded: &LoadedConfig,
    clients: Option<(&Clients, Arc<dyn CertificateMeter>)>,
    (node, node_addresses): (&str, &[IpAddr]),
    (about, profiling): (ZPagesDeps, ProfilingDeps),
) -> anyhow::Result<(Serving, Option<ServingCertificateManager>)> {
    let server = &loaded.config.server;
    let authority = match loaded.config.access.authentication.x509.client_ca_file.as_str() {
        "" => None,
        file => Some(
            ClientAuthority::from_file(Path::new(file), reload(loaded, Gate::ReloadKubeletClientCAFile))
                .with_context(|| format!("authentication.x509.clientCAFile: {file}"))?,
        ),
    };
    let folder = &loaded.flags.cert_dir;
    let named = !server.tls_cert_file.is_empty() && !server.tls_private_key_file.is_empty();
    let files = named.then(|| (Path::new(&server.tls_cert_file), Path::new(&server.tls_private_key_file)));
    // Without an API server no certificate can be requested, but files can still be served.
    let bootstrap = server.server_tls_bootstrap && (clients.is_some() || files.is_none());
    let (certificate, addresses, upkeep) = if bootstrap {
        let (clients, meter) = clients.context(
            "serverTLSBootstrap: requesting a certificate needs an API server (--kubeconfig); set it to false",
        )?;
        let (addresses, watched) = watch::channel(Vec::<NodeAddress>::new());
        let clock = Arc::new(SystemClock);
        let naming = if loaded.gates.enabled(Gate::AllowDNSOnlyNodeCSR) {
            RequiredNames::IpAddressOrDns
        } else {
            RequiredNames::IpAddress
        };
        let (certificate, upkeep) =
            ServingCertificate::requested(clients, (folder, files), node, (watched, naming), (clock, meter));
        (certificate, Some(addresses), Some(upkeep))
    } else {
        let certificate = match (server.tls_cert_file.as_str(), server.tls_private_key_file.as_str()) {
            ("", "") => ServingCertificate::self_signed(folder, node, node_addresses, SystemClock.now())
                .with_context(|| format!("--cert-dir {}", folder.display()))?,
            (certificate, key) => {
                let reload = reload(loaded, Gate::ReloadKubeletServerCertificateFile);
                ServingCertificate::from_files(Path::new(certificate), Path::new(key), reload)
                    .with_context(|| format!("tlsCertFile {certificate:?} and tlsPrivateKeyFile {key:?}"))?
            }
        };
        (certificate, None, None)
    };
    let tls = certificate.server_config(authority.as_ref(), &tls_options(loaded))?;
    let certificates = authority.map(|authority| Arc::new(authority) as Arc<dyn ClientCertificates>);
    Ok((Serving { tls: Arc::new(tls), certificates, addresses, about, profiling }, upkeep))
}

fn reload(loaded: &LoadedConfig, gate: Gate) -> Reload {
    if loaded.gates.enabled(gate) { Reload::OnChange } else { Reload::Never }
}

fn tls_options(loaded: &LoadedConfig) -> TlsOptions {
    let server = &loaded.config.server;
    if let Some(old @ (TlsVersion::Tls10 | TlsVersion::Tls11)) = server.tls_min_version {
        tracing::warn!(tlsMinVersion = ?old, "TLS versions before 1.2 are not supported, using 1.2");
    }
    TlsOptions {
        only_tls13: server.tls_min_version == Some(TlsVersion::Tls13),
        cipher_suites: server.tls_cipher_suites.clone(),
        curves: server.tls_curve_preferences.clone(),
    }
}
