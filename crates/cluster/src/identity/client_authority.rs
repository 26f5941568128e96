//! Verifies client certificates against `clientCAFile`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::User;
use ports::served::client_certificates::{ClientCertificates, UntrustedCertificate};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};

use super::credential::{CertificateNames, Credential, CredentialError, provider, read};
use super::watched_files::{Reload, WatchedFiles};

/// Key in a user's `extra` that identifies the credential, for authorizers and audit logs.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

#[derive(Debug, thiserror::Error)]
#[error("client certificate: {0}")]
pub struct ClientCertificateError(String);

/// The certificate authorities in `clientCAFile`, reloaded when the file changes.
#[derive(Clone, Debug)]
pub struct ClientAuthority {
    files: Arc<WatchedFiles<Arc<dyn ClientCertVerifier>, CredentialError>>,
}

impl ClientAuthority {
    /// # Errors
    /// If the file cannot be read or has an invalid certificate.
    pub fn from_file(path: &Path, reload: Reload) -> Result<Self, CredentialError> {
        let files = WatchedFiles::new(vec![path.to_owned()], reload, load)?;
        Ok(Self { files: Arc::new(files) })
    }

    /// Verifies a certificate chain, leaf first. The common name is the user, the organizations are the groups.
    ///
    /// # Errors
    /// If the chain does not lead to one of the authorities, or is not valid at `now`.
    pub fn authenticate(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<CertificateNames, ClientCertificateError> {
        let Some((leaf, others)) = chain.split_first() else {
            return Err(ClientCertificateError("not presented".to_owned()));
        };
        let verified = self.files.current().verify_client_cert(leaf, others, now);
        verified.map_err(|error| ClientCertificateError(error.to_string()))?;
        Credential::names_of(leaf).map_err(|error| ClientCertificateError(error.to_string()))
    }

    /// Requests client certificates in the TLS handshake and only checks possession of the key: a client whose
    /// certificate is not trusted may still authenticate with a token, same as upstream.
    pub(super) fn key_possession_verifier() -> Arc<dyn ClientCertVerifier> {
        Arc::new(KeyPossessionVerifier { algorithms: provider().signature_verification_algorithms })
    }
}

impl ClientCertificates for ClientAuthority {
    fn owner(&self, chain: &[&[u8]]) -> Result<User, UntrustedCertificate> {
        let ders: Vec<CertificateDer<'_>> = chain.iter().map(|der| CertificateDer::from(*der)).collect();
        let names = self.authenticate(&ders, UnixTime::now());
        let names = names.map_err(|error| UntrustedCertificate(error.to_string()))?;
        if names.common_name.is_empty() {
            return Err(UntrustedCertificate("client certificate: the common name is empty".to_owned()));
        }
        let id = chain.first().map(|leaf| format!("X509SHA256={}", to_hex(&Sha256::digest(leaf))));
        let extra = id.map(|id| (CREDENTIAL_ID.to_owned(), vec![id])).into_iter().collect();
        Ok(User { name: names.common_name, groups: names.organizations, extra, ..User::default() })
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn load(paths: &[PathBuf]) -> Result<Arc<dyn ClientCertVerifier>, CredentialError> {
    let mut roots = RootCertStore::empty();
    for path in paths {
        for certificate in CertificateDer::pem_slice_iter(&read(path)?) {
            let certificate = certificate.map_err(|error| invalid_certificate(&error))?;
            roots.add(certificate).map_err(|error| invalid_certificate(&error))?;
        }
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    verifier.build().map_err(|error| invalid_certificate(&error))
}

fn invalid_certificate(error: &dyn std::error::Error) -> CredentialError {
    CredentialError::Certificate(error.to_string())
}

#[derive(Debug)]
struct KeyPossessionVerifier {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for KeyPossessionVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
