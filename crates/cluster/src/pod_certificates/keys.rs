//! Generates private keys of pod certificates, each with a PKCS #10 request that proves possession.

use p521::ecdsa::signature::RandomizedSigner;
use p521::pkcs8::{EncodePrivateKey, EncodePublicKey};
use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, SignatureAlgorithm};
use rsa::RsaPrivateKey;
use rsa::rand_core::OsRng;
use rustls::pki_types::PrivatePkcs8KeyDer;

/// DER of the `AlgorithmIdentifier` of ecdsa-with-SHA512.
const ECDSA_WITH_SHA512: &[u8] = &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04];
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
/// DER of version 0 and an empty subject.
const VERSION_AND_SUBJECT: &[u8] = &[0x02, 0x01, 0x00, 0x30, 0x00];
/// DER of an empty attribute set.
const ATTRIBUTES: &[u8] = &[0xa0, 0x00];

pub(super) struct GeneratedKey {
    /// PKCS #8 in PEM form.
    pub(super) key: String,
    /// PKCS #10 request without names, signed with the key.
    pub(super) request: Vec<u8>,
}

/// Generates a key of a `keyType` of the API. RSA keys take seconds.
///
/// # Errors
/// A message if the type is unknown or generation fails.
pub(super) fn generate(key_type: &str) -> Result<GeneratedKey, String> {
    let generated = match key_type {
        "ECDSAP256" => generate_with_ring(&rcgen::PKCS_ECDSA_P256_SHA256),
        "ECDSAP384" => generate_with_ring(&rcgen::PKCS_ECDSA_P384_SHA384),
        "ECDSAP521" => p521_key(),
        "ED25519" => generate_with_ring(&rcgen::PKCS_ED25519),
        "RSA3072" => rsa_key(3072),
        "RSA4096" => rsa_key(4096),
        other => return Err(format!("unknown key type {other:?}")),
    };
    generated.map_err(|error| format!("while generating keypair: {error}"))
}

/// Whether generation takes seconds. True for RSA, which searches for large primes.
pub(super) fn is_slow(key_type: &str) -> bool {
    key_type.starts_with("RSA")
}

fn generate_with_ring(kind: &'static SignatureAlgorithm) -> Result<GeneratedKey, String> {
    with_request(&KeyPair::generate_for(kind).map_err(text)?)
}

fn with_request(key: &KeyPair) -> Result<GeneratedKey, String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(key).map_err(text)?;
    Ok(GeneratedKey { key: key.serialize_pem(), request: request.der().to_vec() })
}

/// ring can sign with RSA keys but cannot generate them.
fn rsa_key(bits: usize) -> Result<GeneratedKey, String> {
    let key = RsaPrivateKey::new(&mut OsRng, bits).map_err(text)?;
    let der = rsa::pkcs8::EncodePrivateKey::to_pkcs8_der(&key).map_err(text)?;
    let der = PrivatePkcs8KeyDer::from(der.as_bytes());
    with_request(&KeyPair::from_pkcs8_der_and_sign_algo(&der, &rcgen::PKCS_RSA_SHA256).map_err(text)?)
}

/// ring does not support this curve, so the request is encoded here.
fn p521_key() -> Result<GeneratedKey, String> {
    let secret = p521::SecretKey::random(&mut OsRng);
    let public = secret.public_key().to_public_key_der().map_err(text)?;
    let info = element(SEQUENCE, &[VERSION_AND_SUBJECT, public.as_bytes(), ATTRIBUTES]);
    let signing = p521::ecdsa::SigningKey::from_bytes(&secret.to_bytes()).map_err(text)?;
    let signature: p521::ecdsa::Signature = signing.try_sign_with_rng(&mut OsRng, &info).map_err(text)?;
    let signature = element(BIT_STRING, &[&[0], signature.to_der().as_bytes()]);
    let request = element(SEQUENCE, &[&info, ECDSA_WITH_SHA512, &signature]);
    let der = secret.to_pkcs8_der().map_err(text)?;
    let key = Pem::new("PRIVATE KEY", der.as_bytes());
    let key = pem::encode_config(&key, EncodeConfig::new().set_line_ending(LineEnding::LF));
    Ok(GeneratedKey { key, request })
}

/// Encodes a DER element.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let bytes = length.to_be_bytes();
    let bytes: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut encoded = vec![tag];
    match bytes.as_slice() {
        [] => encoded.push(0),
        [short @ ..0x80] => encoded.push(*short),
        // At most eight bytes.
        long => encoded.extend(
            std::iter::once(0x80 | u8::try_from(long.len()).unwrap_or(8)).chain(long.iter().copied()),
        ),
    }
    parts.iter().for_each(|part| encoded.extend_from_slice(part));
    encoded
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use p521::ecdsa::signature::Verifier;
    use p521::pkcs8::DecodePrivateKey;
    use ring::signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256,
        UnparsedPublicKey, VerificationAlgorithm,
    };
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::prelude::FromDer;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn der_of(key: &str) -> Vec<u8> {
        let body: String = key.lines().filter(|line| !line.starts_with("-----")).collect();
        STANDARD.decode(body).unwrap()
    }

    /// Generates a key, and checks that its request has no names and the expected signature.
    fn check(key_type: &str, oid: &str, verify: impl Fn(&[u8], &[u8], &[u8])) -> (GeneratedKey, Vec<u8>) {
        let generated = generate(key_type).unwrap();
        assert!(generated.key.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{key_type}");
        assert!(generated.key.trim_end().ends_with("-----END PRIVATE KEY-----"), "{key_type}");
        let (rest, request) = X509CertificationRequest::from_der(&generated.request).unwrap();
        assert!(rest.is_empty());
        let info = &request.certification_request_info;
        assert_eq!((info.subject.iter().count(), info.iter_attributes().count()), (0, 0), "{key_type}");
        assert_eq!(request.signature_algorithm.algorithm.to_id_string(), oid, "{key_type}");
        verify(&info.subject_pki.subject_public_key.data, info.raw, &request.signature_value.data);
        let public = info.subject_pki.raw.to_vec();
        (generated, public)
    }

    fn verify_with_ring(algorithm: &'static dyn VerificationAlgorithm) -> impl Fn(&[u8], &[u8], &[u8]) {
        move |key, message, signature| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).unwrap();
        }
    }

    #[test]
    fn generates_valid_keys_and_requests_of_each_type() {
        let kinds: [(&str, &str, &'static dyn VerificationAlgorithm); 5] = [
            ("ECDSAP256", "1.2.840.10045.4.3.2", &ECDSA_P256_SHA256_ASN1),
            ("ECDSAP384", "1.2.840.10045.4.3.3", &ECDSA_P384_SHA384_ASN1),
            ("ED25519", "1.3.101.112", &ED25519),
            ("RSA3072", "1.2.840.113549.1.1.11", &RSA_PKCS1_2048_8192_SHA256),
            ("RSA4096", "1.2.840.113549.1.1.11", &RSA_PKCS1_2048_8192_SHA256),
        ];
        for (kind, oid, algorithm) in kinds {
            let (generated, public) = check(kind, oid, verify_with_ring(algorithm));
            let parsed = KeyPair::from_pem(&generated.key).unwrap();
            assert_eq!(rcgen::PublicKeyData::subject_public_key_info(&parsed), public, "{kind}");
            if let Some(bits) = kind.strip_prefix("RSA") {
                let der = der_of(&generated.key);
                let key = <RsaPrivateKey as rsa::pkcs8::DecodePrivateKey>::from_pkcs8_der(&der).unwrap();
                assert_eq!(rsa::traits::PublicKeyParts::n(&key).bits().to_string(), bits);
                key.validate().unwrap();
            }
        }
    }

    #[test]
    fn generates_valid_p521_key_and_request() {
        let (generated, public) = check("ECDSAP521", "1.2.840.10045.4.3.4", |key, message, signature| {
            let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(key).unwrap();
            let signature = p521::ecdsa::Signature::from_der(signature).unwrap();
            key.verify(message, &signature).unwrap();
        });
        let parsed = p521::SecretKey::from_pkcs8_der(&der_of(&generated.key)).unwrap();
        assert_eq!(parsed.public_key().to_public_key_der().unwrap().as_bytes(), public);
    }

    #[test]
    fn rejects_unknown_key_types() {
        for kind in ["RSA2048", "X", ""] {
            assert!(generate(kind).is_err_and(|message| message.contains(&format!("{kind:?}"))), "{kind}");
        }
    }

    #[test]
    fn encodes_der_lengths() {
        for (length, expected) in [
            (0, vec![0]),
            (1, vec![1]),
            (0x7f, vec![0x7f]),
            (0x80, vec![0x81, 0x80]),
            (0xff, vec![0x81, 0xff]),
            (0x100, vec![0x82, 1, 0]),
            (0x1234, vec![0x82, 0x12, 0x34]),
        ] {
            let content = vec![7; length];
            let encoded = element(SEQUENCE, &[&content]);
            assert_eq!(encoded, [vec![SEQUENCE], expected, content].concat(), "{length}");
        }
    }
}
