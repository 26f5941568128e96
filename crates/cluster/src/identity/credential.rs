//! Parses a certificate chain with its private key.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{part}: {reason}")]
    Pem {
        /// `certificate`, `private key` or the kubeconfig field.
        part: &'static str,
        reason: String,
    },
    #[error("certificate: {0}")]
    Certificate(String),
    /// The key is invalid or does not match the certificate.
    #[error("private key")]
    Key(#[source] rustls::Error),
}

/// A certificate chain with its private key. The key matches the leaf certificate.
#[derive(Debug)]
pub struct Credential {
    pub key: Arc<CertifiedKey>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub names: CertificateNames,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

impl Credential {
    /// Parses PEM. Both arguments may be the same text if it contains certificate and key.
    ///
    /// # Errors
    /// If the certificate or key is invalid, or they do not match.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CredentialError> {
        let pem = |part| {
            move |error: rustls::pki_types::pem::Error| CredentialError::Pem {
                part,
                reason: error.to_string(),
            }
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let chain = chain.map_err(pem("certificate"))?;
        let Some(leaf) = chain.first() else {
            return Err(CredentialError::Pem {
                part: "certificate",
                reason: "no certificate found".to_owned(),
            });
        };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(pem("private key"))?;
        let (_, parsed) = X509Certificate::from_der(leaf)
            .map_err(|error| CredentialError::Certificate(error.to_string()))?;
        let not_before = Timestamp::from_secs(parsed.validity().not_before.timestamp());
        let not_after = Timestamp::from_secs(parsed.validity().not_after.timestamp());
        let names = names(&parsed);
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(CredentialError::Key)?;
        Ok(Self { key: Arc::new(key), not_before, not_after, names })
    }

    /// Reads PEM files. Both paths may be the same file.
    ///
    /// # Errors
    /// If a file cannot be read, or as for [`Self::from_pem`].
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, CredentialError> {
        Self::from_pem(&read(certificate)?, &read(key)?)
    }

    /// Returns the subject and subject alternative names of a certificate.
    ///
    /// # Errors
    /// If the certificate cannot be parsed.
    pub fn names_of(certificate: &CertificateDer<'_>) -> Result<CertificateNames, CredentialError> {
        let parsed = X509Certificate::from_der(certificate);
        parsed
            .map(|(_, parsed)| names(&parsed))
            .map_err(|error| CredentialError::Certificate(error.to_string()))
    }

    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now > self.not_after
    }
}

/// The process-wide rustls provider, or ring if none is installed.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    match CryptoProvider::get_default() {
        Some(provider) => provider.clone(),
        None => Arc::new(rustls::crypto::ring::default_provider()),
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, CredentialError> {
    std::fs::read(path).map_err(|source| CredentialError::Read { path: path.to_owned(), source })
}

fn names(certificate: &X509Certificate<'_>) -> CertificateNames {
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        attribute.as_str().map(str::to_owned).unwrap_or_default()
    };
    let subject = certificate.subject();
    let mut names = CertificateNames {
        common_name: subject.iter_common_name().next().map(text).unwrap_or_default(),
        organizations: subject.iter_organization().map(text).collect(),
        ..CertificateNames::default()
    };
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    for name in alternatives.iter().flat_map(|extension| &extension.value.general_names) {
        match name {
            GeneralName::DNSName(name) => names.dns.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
            _ => {}
        }
    }
    names
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::test_certificates::{Authority, issued};

    #[test]
    fn parses_names_and_validity() {
        let authority = Authority::new();
        let (certificate, key) =
            issued(&authority, "system:node:a", &["a.example", "10.0.0.7", "fd00::7"], 100, 200);
        let both = format!("{certificate}{key}");
        let credential = Credential::from_pem(both.as_bytes(), both.as_bytes()).unwrap();
        let expected = CertificateNames {
            common_name: "system:node:a".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            dns: vec!["a.example".to_owned()],
            addresses: vec!["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()],
        };
        assert_eq!(credential.names, expected);
        assert_eq!(credential.not_before, Timestamp::from_secs(100));
        assert_eq!(credential.not_after, Timestamp::from_secs(200));
        assert!(
            !credential.is_expired(Timestamp::from_secs(200))
                && credential.is_expired(Timestamp::from_secs(201))
        );
    }

    #[test]
    fn rejects_missing_or_mismatched_certificate_and_key() {
        let authority = Authority::new();
        let (certificate, key) = issued(&authority, "a", &[], 0, 1);
        let (other, _) = issued(&authority, "b", &[], 0, 1);
        let cases: [(&str, &str, &str); 4] = [
            (&other, &key, "private key"),
            ("", &key, "certificate: no certificate found"),
            (&certificate, "", "private key: no items found"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &key, "certificate: "),
        ];
        for (certificate, key, expected) in cases {
            let error = Credential::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}
