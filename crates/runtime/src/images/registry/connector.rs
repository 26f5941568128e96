//! Connections to registries.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::{Endpoint, RegistryError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A client that trusts the machine's certificate authorities and those of the endpoint. Blocks on their files.
pub(super) fn client(endpoint: &Endpoint) -> Result<HttpClient, RegistryError> {
    let tls_error = |problem: String| RegistryError::Tls { base: endpoint.base.clone(), problem };
    let mut roots = RootCertStore::empty();
    // Certificates that cannot be read only make their servers untrusted.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for path in &endpoint.certificates {
        let shown = path.display();
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| tls_error(format!("{shown}: {error}")))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| tls_error(format!("{shown}: {error}")))?;
            roots.add(certificate).map_err(|error| tls_error(format!("{shown}: {error}")))?;
        }
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| tls_error(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    Ok(Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_TIMEOUT).build(connector))
}
