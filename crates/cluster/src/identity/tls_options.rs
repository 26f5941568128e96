//! TLS options of the node's server: `tlsMinVersion`, `tlsCipherSuites` and `tlsCurvePreferences`.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use super::credential::provider;

/// Alternative names that Go accepts for cipher suites.
const GO_ALIASES: [(&str, &str); 2] = [
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
];

static TLS13_ONLY: &[&SupportedProtocolVersion] = &[&TLS13];
static TLS12_AND_TLS13: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

#[derive(Debug, thiserror::Error)]
pub enum TlsOptionsError {
    #[error(
        "tlsCipherSuites: none of {0:?} is supported; use ECDHE with AES-GCM or CHACHA20-POLY1305, or leave the field out"
    )]
    NoSuite(Vec<String>),
    #[error("tlsCurvePreferences: none of {0:?} is supported; use 29 (X25519), 23 (P-256) or 24 (P-384)")]
    NoCurve(Vec<i32>),
}

/// Versions, cipher suites and key exchanges of a server. TLS 1.2 is the minimum.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    pub only_tls13: bool,
    /// TLS 1.2 suites by their Go names; empty means all. TLS 1.3 suites are not configurable, same as in Go.
    pub cipher_suites: Vec<String>,
    /// Key exchanges by their TLS numbers, in order of preference; empty means all.
    pub curves: Vec<i32>,
}

impl TlsOptions {
    pub(super) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        if self.only_tls13 { TLS13_ONLY } else { TLS12_AND_TLS13 }
    }

    /// Returns the rustls provider, restricted to the configured suites and curves.
    pub(super) fn provider(&self) -> Result<Arc<CryptoProvider>, TlsOptionsError> {
        let mut restricted = (*provider()).clone();
        if !self.cipher_suites.is_empty() && !self.only_tls13 {
            let is_tls12 = |suite: &SupportedCipherSuite| matches!(suite, SupportedCipherSuite::Tls12(_));
            restricted.cipher_suites.retain(|suite| !is_tls12(suite) || self.includes(suite));
            if !restricted.cipher_suites.iter().any(is_tls12) && !self.has_only_tls13_suites() {
                return Err(TlsOptionsError::NoSuite(self.cipher_suites.clone()));
            }
        }
        if !self.curves.is_empty() {
            let position = |group: &&'static dyn SupportedKxGroup| {
                let number = i32::from(u16::from(group.name()));
                self.curves.iter().position(|curve| *curve == number)
            };
            restricted.kx_groups.retain(|group| position(group).is_some());
            restricted.kx_groups.sort_by_key(position);
            if restricted.kx_groups.is_empty() {
                return Err(TlsOptionsError::NoCurve(self.curves.clone()));
            }
        }
        Ok(Arc::new(restricted))
    }

    fn includes(&self, suite: &SupportedCipherSuite) -> bool {
        let name = format!("{:?}", suite.suite());
        self.cipher_suites.iter().any(|configured| {
            let alias = GO_ALIASES.iter().find(|(alias, _)| alias == configured);
            alias.map_or(configured.as_str(), |(_, real)| real) == name
        })
    }

    fn has_only_tls13_suites(&self) -> bool {
        let is_tls13 = |name: &String| !name.contains("_WITH_");
        self.cipher_suites.iter().all(is_tls13)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(names: &[&str]) -> Result<Vec<String>, TlsOptionsError> {
        let cipher_suites = names.iter().map(|name| (*name).to_owned()).collect();
        let options = TlsOptions { cipher_suites, ..TlsOptions::default() };
        let provider = options.provider()?;
        let tls12 = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none());
        Ok(tls12.map(|suite| format!("{:?}", suite.suite())).collect())
    }

    #[test]
    fn restricts_tls12_cipher_suites() {
        assert_eq!(suites(&[]).unwrap().len(), 6);
        let chosen = suites(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_RC4_128_SHA"]).unwrap();
        assert_eq!(chosen, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
        let other_name = suites(&["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"]).unwrap();
        assert_eq!(other_name, ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"]);
        assert!(suites(&["TLS_AES_128_GCM_SHA256"]).unwrap().is_empty());
        let error = suites(&["TLS_RSA_WITH_AES_128_CBC_SHA"]).unwrap_err();
        assert!(error.to_string().contains("TLS_RSA_WITH_AES_128_CBC_SHA"), "{error}");
    }

    #[test]
    fn orders_curves_by_preference() {
        let of = |curves: &[i32]| -> Result<Vec<u16>, String> {
            let options = TlsOptions { curves: curves.to_vec(), ..TlsOptions::default() };
            let provider = options.provider().map_err(|error| error.to_string())?;
            Ok(provider.kx_groups.iter().map(|group| u16::from(group.name())).collect())
        };
        assert_eq!(of(&[24, 29, 4588]), Ok(vec![24, 29]));
        assert!(of(&[25]).unwrap_err().contains("[25]"));
    }

    #[test]
    fn selects_protocol_versions() {
        let options = |only_tls13| TlsOptions { only_tls13, ..TlsOptions::default() };
        assert_eq!(options(true).versions().len(), 1);
        assert_eq!(options(false).versions().len(), 2);
    }
}
