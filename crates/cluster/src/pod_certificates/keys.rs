//! Keys of pods' certificates, each with a request that proves that we have it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use p521::ecdsa::signature::RandomizedSigner;
use p521::pkcs8::{EncodePrivateKey, EncodePublicKey};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, SignatureAlgorithm};
use rsa::RsaPrivateKey;
use rsa::rand_core::OsRng;
use rustls::pki_types::PrivatePkcs8KeyDer;

/// ecdsa-with-SHA512, as an `AlgorithmIdentifier`.
const ECDSA_WITH_SHA512: &[u8] = &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04];
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
/// Version 0, and no subject.
const VERSION_AND_SUBJECT: &[u8] = &[0x02, 0x01, 0x00, 0x30, 0x00];
/// No attributes.
const ATTRIBUTES: &[u8] = &[0xa0, 0x00];
const LINE: usize = 64;

/// A new key.
pub(super) struct Made {
    /// PKCS #8 in PEM form.
    pub(super) key: String,
    /// A PKCS #10 request without names, signed with it.
    pub(super) proof: Vec<u8>,
}

/// Makes a key of an API type; large ones take seconds.
///
/// # Errors
/// What went wrong, or that there is no such type.
pub(super) fn make(key_type: &str) -> Result<Made, String> {
    let made = match key_type {
        "ECDSAP256" => generated(&rcgen::PKCS_ECDSA_P256_SHA256),
        "ECDSAP384" => generated(&rcgen::PKCS_ECDSA_P384_SHA384),
        "ECDSAP521" => p521_key(),
        "ED25519" => generated(&rcgen::PKCS_ED25519),
        "RSA3072" => rsa_key(3072),
        "RSA4096" => rsa_key(4096),
        other => return Err(format!("unknown key type {other:?}")),
    };
    made.map_err(|error| format!("while generating keypair: {error}"))
}

/// Whether a key of a type takes seconds: only for those are large primes looked for.
pub(super) fn takes_long(key_type: &str) -> bool {
    key_type.starts_with("RSA")
}

fn generated(kind: &'static SignatureAlgorithm) -> Result<Made, String> {
    proven(&KeyPair::generate_for(kind).map_err(text)?)
}

fn proven(key: &KeyPair) -> Result<Made, String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(key).map_err(text)?;
    Ok(Made { key: key.serialize_pem(), proof: request.der().to_vec() })
}

/// ring signs with RSA keys, but makes none.
fn rsa_key(bits: usize) -> Result<Made, String> {
    let key = RsaPrivateKey::new(&mut OsRng, bits).map_err(text)?;
    let der = rsa::pkcs8::EncodePrivateKey::to_pkcs8_der(&key).map_err(text)?;
    let der = PrivatePkcs8KeyDer::from(der.as_bytes());
    proven(&KeyPair::from_pkcs8_der_and_sign_algo(&der, &rcgen::PKCS_RSA_SHA256).map_err(text)?)
}

/// ring does not know this curve, so the request is put together here.
fn p521_key() -> Result<Made, String> {
    let secret = p521::SecretKey::random(&mut OsRng);
    let public = secret.public_key().to_public_key_der().map_err(text)?;
    let named = element(SEQUENCE, &[VERSION_AND_SUBJECT, public.as_bytes(), ATTRIBUTES]);
    let signing = p521::ecdsa::SigningKey::from_bytes(&secret.to_bytes()).map_err(text)?;
    let signature: p521::ecdsa::Signature = signing.try_sign_with_rng(&mut OsRng, &named).map_err(text)?;
    let signature = element(BIT_STRING, &[&[0], signature.to_der().as_bytes()]);
    let proof = element(SEQUENCE, &[&named, ECDSA_WITH_SHA512, &signature]);
    let der = secret.to_pkcs8_der().map_err(text)?;
    Ok(Made { key: pem(der.as_bytes()), proof })
}

/// An element of DER.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let bytes = length.to_be_bytes();
    let bytes: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut made = vec![tag];
    match bytes.as_slice() {
        [] => made.push(0),
        [short @ ..0x80] => made.push(*short),
        // Of eight bytes at most.
        long => made.extend(
            std::iter::once(0x80 | u8::try_from(long.len()).unwrap_or(8)).chain(long.iter().copied()),
        ),
    }
    parts.iter().for_each(|part| made.extend_from_slice(part));
    made
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, next) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = next;
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    pem
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

    use super::*;

    fn der_of(key: &str) -> Vec<u8> {
        let body: String = key.lines().filter(|line| !line.starts_with("-----")).collect();
        STANDARD.decode(body).unwrap()
    }

    /// Makes a key, and checks that its request names nobody and is signed in this way.
    fn check(key_type: &str, oid: &str, verify: impl Fn(&[u8], &[u8], &[u8])) -> (Made, Vec<u8>) {
        let made = make(key_type).unwrap();
        assert!(made.key.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{key_type}");
        assert!(made.key.trim_end().ends_with("-----END PRIVATE KEY-----"), "{key_type}");
        let (rest, request) = X509CertificationRequest::from_der(&made.proof).unwrap();
        assert!(rest.is_empty());
        let info = &request.certification_request_info;
        assert_eq!((info.subject.iter().count(), info.iter_attributes().count()), (0, 0), "{key_type}");
        assert_eq!(request.signature_algorithm.algorithm.to_id_string(), oid, "{key_type}");
        verify(&info.subject_pki.subject_public_key.data, info.raw, &request.signature_value.data);
        let public = info.subject_pki.raw.to_vec();
        (made, public)
    }

    fn by_ring(algorithm: &'static dyn VerificationAlgorithm) -> impl Fn(&[u8], &[u8], &[u8]) {
        move |key, message, signature| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).unwrap();
        }
    }

    #[test]
    fn keys_of_all_types_are_read_again_and_prove_themselves_in_upstreams_way() {
        let kinds: [(&str, &str, &'static dyn VerificationAlgorithm); 5] = [
            ("ECDSAP256", "1.2.840.10045.4.3.2", &ECDSA_P256_SHA256_ASN1),
            ("ECDSAP384", "1.2.840.10045.4.3.3", &ECDSA_P384_SHA384_ASN1),
            ("ED25519", "1.3.101.112", &ED25519),
            ("RSA3072", "1.2.840.113549.1.1.11", &RSA_PKCS1_2048_8192_SHA256),
            ("RSA4096", "1.2.840.113549.1.1.11", &RSA_PKCS1_2048_8192_SHA256),
        ];
        for (kind, oid, algorithm) in kinds {
            let (made, public) = check(kind, oid, by_ring(algorithm));
            let own = KeyPair::from_pem(&made.key).unwrap();
            assert_eq!(rcgen::PublicKeyData::subject_public_key_info(&own), public, "{kind}");
            if let Some(bits) = kind.strip_prefix("RSA") {
                let der = der_of(&made.key);
                let key = <RsaPrivateKey as rsa::pkcs8::DecodePrivateKey>::from_pkcs8_der(&der).unwrap();
                assert_eq!(rsa::traits::PublicKeyParts::n(&key).bits().to_string(), bits);
                key.validate().unwrap();
            }
        }
    }

    #[test]
    fn a_key_of_the_largest_curve_is_read_again_and_proves_itself() {
        let (made, public) = check("ECDSAP521", "1.2.840.10045.4.3.4", |key, message, signature| {
            let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(key).unwrap();
            let signature = p521::ecdsa::Signature::from_der(signature).unwrap();
            key.verify(message, &signature).unwrap();
        });
        let own = p521::SecretKey::from_pkcs8_der(&der_of(&made.key)).unwrap();
        assert_eq!(own.public_key().to_public_key_der().unwrap().as_bytes(), public);
    }

    #[test]
    fn there_are_no_other_types() {
        for kind in ["RSA2048", "X", ""] {
            assert!(make(kind).is_err_and(|message| message.contains(&format!("{kind:?}"))), "{kind}");
        }
    }

    #[test]
    fn lengths_of_elements_are_der() {
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
            let made = element(SEQUENCE, &[&content]);
            assert_eq!(made, [vec![SEQUENCE], expected, content].concat(), "{length}");
        }
    }
}
