//! The cluster's certificate authority and the certificates that it signs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use time::OffsetDateTime;

/// Subject of a certificate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'a> {
    pub(super) name: &'a str,
    pub(super) group: Option<&'a str>,
    /// Names and addresses of a server; empty for a client certificate.
    pub(super) hosts: &'a [&'a str],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Validity {
    Now,
    Past,
    Later,
}

/// A certificate and its key, both PEM.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// The PEM certificate of a new authority that no component trusts yet.
pub fn unknown_authority() -> Result<String> {
    Ok(Authority::create()?.certificate)
}

/// Signs pod certificates.
#[derive(Debug)]
pub struct PodSigner {
    authority: Authority,
}

#[derive(Debug)]
pub struct SignedForPod {
    pub certificate: String,
    /// Start of the validity, in seconds since 1970.
    pub not_before: i64,
    pub not_after: i64,
}

impl PodSigner {
    /// Creates a signer with a new authority.
    pub fn create() -> Result<Self> {
        Ok(Self { authority: Authority::create()? })
    }

    /// Signs a request (PKCS#10, DER), valid for a day.
    pub fn sign(&self, request: &[u8]) -> Result<SignedForPod> {
        let mut request =
            CertificateSigningRequestParams::from_der(&request.into()).context("read the request")?;
        let now = OffsetDateTime::now_utc().replace_nanosecond(0)?;
        let (not_before, not_after) = (now, now + Duration::from_secs(24 * 3600));
        request.params.not_before = not_before;
        request.params.not_after = not_after;
        request.params.distinguished_name.push(DnType::CommonName, "a pod");
        let signed = request.signed_by(&self.authority.issuer).context("sign the request")?;
        let (not_before, not_after) = (not_before.unix_timestamp(), not_after.unix_timestamp());
        Ok(SignedForPod { certificate: signed.pem(), not_before, not_after })
    }
}

/// Signs all certificates of the cluster.
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) certificate: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn create() -> Result<Self> {
        let key = KeyPair::generate().context("make a key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "podward-test-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).context("sign the authority")?.pem();
        Ok(Self { certificate, key: key.serialize_pem(), issuer: Issuer::new(params, key) })
    }

    pub(super) fn issue(&self, identity: &Identity<'_>) -> Result<Issued> {
        self.issue_valid(identity, Validity::Now)
    }

    pub(super) fn issue_valid(&self, identity: &Identity<'_>, validity: Validity) -> Result<Issued> {
        let key = KeyPair::generate().context("make a key")?;
        let hosts: Vec<String> = identity.hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).context("read host names")?;
        params.distinguished_name.push(DnType::CommonName, identity.name);
        if let Some(group) = identity.group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        match validity {
            // rcgen's default, valid from 1975 to 4096.
            Validity::Now => {}
            Validity::Past => params.not_after = date_time_ymd(2001, 1, 1),
            Validity::Later => params.not_before = date_time_ymd(2090, 1, 1),
        }
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let client = identity.hosts.is_empty();
        params.extended_key_usages = vec![match client {
            true => ExtendedKeyUsagePurpose::ClientAuth,
            false => ExtendedKeyUsagePurpose::ServerAuth,
        }];
        let signed = params.signed_by(&key, &self.issuer);
        let certificate = signed.with_context(|| format!("sign {}", identity.name))?.pem();
        Ok(Issued { certificate, key: key.serialize_pem() })
    }

    /// Writes the files that the components read: the authority, the API server's certificates and the service account
    /// key.
    pub(super) fn write_all(&self, folder: &Path) -> Result<()> {
        let server = self.issue(&Identity {
            name: "kube-apiserver",
            group: None,
            hosts: &["127.0.0.1", "10.96.0.1", "localhost", "kubernetes", "kubernetes.default.svc"],
        })?;
        let towards_nodes = self.issue(&Identity {
            name: "kube-apiserver-kubelet-client",
            group: Some("system:masters"),
            hosts: &[],
        })?;
        let accounts = KeyPair::generate().context("make a key")?;
        for (name, text) in [
            ("ca.crt", &self.certificate),
            ("ca.key", &self.key),
            ("apiserver.crt", &server.certificate),
            ("apiserver.key", &server.key),
            ("kubelet-client.crt", &towards_nodes.certificate),
            ("kubelet-client.key", &towards_nodes.key),
            ("service-accounts.key", &accounts.serialize_pem()),
            ("service-accounts.pub", &accounts.public_key_pem()),
        ] {
            fs::write(folder.join(name), text).with_context(|| format!("write {name}"))?;
        }
        Ok(())
    }
}
