//! Whose client certificates are believed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::User;
use ports::client_certificates::{ClientCertificates, NotBelieved};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};

use super::credential::{Credential, CredentialError, Names, provider, read};
use super::watched_files::{Reload, WatchedFiles};

/// Which credential somebody came with, for authorizers and audits.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// A certificate that is not believed.
#[derive(Debug, thiserror::Error)]
#[error("client certificate: {0}")]
pub struct Unauthenticated(String);

/// `clientCAFile`, read again when it changes.
#[derive(Clone, Debug)]
pub struct ClientAuthority {
    files: Arc<WatchedFiles<Arc<dyn ClientCertVerifier>, CredentialError>>,
}

impl ClientAuthority {
    /// # Errors
    /// When the file cannot be used now.
    pub fn from_file(path: &Path, reload: Reload) -> Result<Self, CredentialError> {
        let files = WatchedFiles::new(vec![path.to_owned()], load)?.with_reload(reload);
        Ok(Self { files: Arc::new(files) })
    }

    /// Who the owner of a certificate chain is, the leaf first: common name is the user, organizations the groups.
    ///
    /// # Errors
    /// When the chain does not end at one of our authorities, or is not valid now.
    pub fn authenticate(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Names, Unauthenticated> {
        let Some((leaf, others)) = chain.split_first() else {
            return Err(Unauthenticated("there is none".to_owned()));
        };
        let verified = self.files.current().verify_client_cert(leaf, others, now);
        verified.map_err(|error| Unauthenticated(error.to_string()))?;
        Credential::names_of(leaf).map_err(|error| Unauthenticated(error.to_string()))
    }

    /// Asks clients for certificates and checks that they have the key, no more: who does not convince by certificate
    /// may do so by token, as with upstream.
    pub(super) fn asking_verifier() -> Arc<dyn ClientCertVerifier> {
        Arc::new(AskOnly { algorithms: provider().signature_verification_algorithms })
    }
}

impl ClientCertificates for ClientAuthority {
    fn owner(&self, chain: &[&[u8]]) -> Result<User, NotBelieved> {
        let ders: Vec<CertificateDer<'_>> = chain.iter().map(|der| CertificateDer::from(*der)).collect();
        let names = self.authenticate(&ders, UnixTime::now());
        let names = names.map_err(|error| NotBelieved(error.to_string()))?;
        if names.common_name.is_empty() {
            return Err(NotBelieved("client certificate: it names nobody".to_owned()));
        }
        let id = chain.first().map(|leaf| format!("X509SHA256={}", hexadecimal(&Sha256::digest(leaf))));
        let extra = id.map(|id| (CREDENTIAL_ID.to_owned(), vec![id])).into_iter().collect();
        Ok(User { name: names.common_name, groups: names.organizations, extra, ..User::default() })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn load(paths: &[PathBuf]) -> Result<Arc<dyn ClientCertVerifier>, CredentialError> {
    let mut roots = RootCertStore::empty();
    for path in paths {
        for certificate in CertificateDer::pem_slice_iter(&read(path)?) {
            let certificate = certificate.map_err(|error| bad(&error))?;
            roots.add(certificate).map_err(|error| bad(&error))?;
        }
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    verifier.build().map_err(|error| bad(&error))
}

fn bad(error: &dyn std::error::Error) -> CredentialError {
    CredentialError::Certificate(error.to_string())
}

#[derive(Debug)]
struct AskOnly {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AskOnly {
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
