//! Which TLS the node speaks: `tlsMinVersion`, `tlsCipherSuites` and `tlsCurvePreferences`.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use super::credential::provider;

/// Names that Go gives to suites beside their real ones.
const OTHER_NAMES: [(&str, &str); 2] = [
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
];

static NEW: &[&SupportedProtocolVersion] = &[&TLS13];
static ALL: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// Why nobody could connect.
#[derive(Debug, thiserror::Error)]
pub enum TlsChoiceError {
    /// All suites are too weak to be built in.
    #[error(
        "tlsCipherSuites: none of {0:?} is supported; use ECDHE with AES-GCM or CHACHA20-POLY1305, or leave the field out"
    )]
    NoSuite(Vec<String>),
    /// No key exchange is left.
    #[error("tlsCurvePreferences: none of {0:?} is supported; use 29 (X25519), 23 (P-256) or 24 (P-384)")]
    NoCurve(Vec<i32>),
}

/// What a server may speak. Nothing older than TLS 1.2 is ever spoken.
#[derive(Clone, Debug, Default)]
pub struct TlsChoices {
    /// TLS 1.3 only.
    pub only_tls13: bool,
    /// Suites of TLS 1.2 by their Go names; none means all. Those of TLS 1.3 cannot be chosen, as with Go.
    pub cipher_suites: Vec<String>,
    /// Key exchanges by their TLS numbers; none means all.
    pub curves: Vec<i32>,
}

impl TlsChoices {
    pub(super) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        if self.only_tls13 { NEW } else { ALL }
    }

    /// The cryptography with nothing but what was chosen.
    pub(super) fn provider(&self) -> Result<Arc<CryptoProvider>, TlsChoiceError> {
        let mut chosen = (*provider()).clone();
        if !self.cipher_suites.is_empty() && !self.only_tls13 {
            let is_old = |suite: &SupportedCipherSuite| matches!(suite, SupportedCipherSuite::Tls12(_));
            chosen.cipher_suites.retain(|suite| !is_old(suite) || self.names(suite));
            if !chosen.cipher_suites.iter().any(is_old) && !self.names_new_only() {
                return Err(TlsChoiceError::NoSuite(self.cipher_suites.clone()));
            }
        }
        if !self.curves.is_empty() {
            let place = |group: &&'static dyn SupportedKxGroup| {
                let number = i32::from(u16::from(group.name()));
                self.curves.iter().position(|curve| *curve == number)
            };
            chosen.kx_groups.retain(|group| place(group).is_some());
            chosen.kx_groups.sort_by_key(place);
            if chosen.kx_groups.is_empty() {
                return Err(TlsChoiceError::NoCurve(self.curves.clone()));
            }
        }
        Ok(Arc::new(chosen))
    }

    fn names(&self, suite: &SupportedCipherSuite) -> bool {
        let name = format!("{:?}", suite.suite());
        self.cipher_suites.iter().any(|asked| {
            let other = OTHER_NAMES.iter().find(|(other, _)| other == asked);
            other.map_or(asked.as_str(), |(_, real)| real) == name
        })
    }

    fn names_new_only(&self) -> bool {
        let new = |name: &String| !name.contains("_WITH_");
        self.cipher_suites.iter().all(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(names: &[&str]) -> Result<Vec<String>, TlsChoiceError> {
        let cipher_suites = names.iter().map(|name| (*name).to_owned()).collect();
        let choices = TlsChoices { cipher_suites, ..TlsChoices::default() };
        let provider = choices.provider()?;
        let old = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none());
        Ok(old.map(|suite| format!("{:?}", suite.suite())).collect())
    }

    #[test]
    fn only_chosen_suites_are_spoken() {
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
    fn curves_are_in_the_order_asked_for() {
        let of = |curves: &[i32]| -> Result<Vec<u16>, String> {
            let choices = TlsChoices { curves: curves.to_vec(), ..TlsChoices::default() };
            let provider = choices.provider().map_err(|error| error.to_string())?;
            Ok(provider.kx_groups.iter().map(|group| u16::from(group.name())).collect())
        };
        assert_eq!(of(&[24, 29, 4588]), Ok(vec![24, 29]));
        assert!(of(&[25]).unwrap_err().contains("[25]"));
    }

    #[test]
    fn old_versions_are_never_spoken() {
        let choices = |only_tls13| TlsChoices { only_tls13, ..TlsChoices::default() };
        assert_eq!(choices(true).versions().len(), 1);
        assert_eq!(choices(false).versions().len(), 2);
    }
}
