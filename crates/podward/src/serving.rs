//! From certificates and TLS settings to what the main port answers with.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use cluster::Clients;
use cluster::identity::{ClientAuthority, Naming, Reload, ServingCertificate, ServingUpkeep, TlsChoices};
use config::configuration::TlsVersion;
use config::{Gate, Loaded};
use k8s_openapi::api::core::v1::NodeAddress;
use node_api::{About, ProfilingParts};
use ports::certificate_meter::CertificateMeter;
use ports::client_certificates::ClientCertificates;
use ports::clock::{Clock, SystemClock};
use tokio::sync::watch;

use crate::wire::Serving;

/// Certificates and TLS of the main port, and what keeps a requested certificate good.
///
/// # Errors
/// When a file cannot be used, or the settings leave nothing to speak.
pub fn serving(
    loaded: &Loaded,
    clients: Option<(&Clients, Arc<dyn CertificateMeter>)>,
    (node, node_addresses): (&str, &[IpAddr]),
    (about, profiling): (About, ProfilingParts),
) -> anyhow::Result<(Serving, Option<ServingUpkeep>)> {
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
    // Without an API server nothing can be asked for; what is in files can be answered with all the same.
    let bootstrap = server.server_tls_bootstrap && (clients.is_some() || files.is_none());
    let (certificate, addresses, upkeep) = if bootstrap {
        let (clients, meter) = clients.context(
            "serverTLSBootstrap: there is no API server to ask for a certificate (no --kubeconfig); set it to false",
        )?;
        let (addresses, watched) = watch::channel(Vec::<NodeAddress>::new());
        let clock = Arc::new(SystemClock);
        let naming = if loaded.gates.enabled(Gate::AllowDNSOnlyNodeCSR) {
            Naming::ByAnyName
        } else {
            Naming::ByAddress
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
    let tls = certificate.server_config(authority.as_ref(), &choices(loaded))?;
    let certificates = authority.map(|authority| Arc::new(authority) as Arc<dyn ClientCertificates>);
    Ok((Serving { tls: Arc::new(tls), certificates, addresses, about, profiling }, upkeep))
}

fn reload(loaded: &Loaded, gate: Gate) -> Reload {
    if loaded.gates.enabled(gate) { Reload::OnChange } else { Reload::Never }
}

fn choices(loaded: &Loaded) -> TlsChoices {
    let server = &loaded.config.server;
    if let Some(old @ (TlsVersion::Tls10 | TlsVersion::Tls11)) = server.tls_min_version {
        tracing::warn!(tlsMinVersion = ?old, "TLS before 1.2 is not spoken; the oldest version is 1.2");
    }
    TlsChoices {
        only_tls13: server.tls_min_version == Some(TlsVersion::Tls13),
        cipher_suites: server.tls_cipher_suites.clone(),
        curves: server.tls_curve_preferences.clone(),
    }
}
