//! A client of the node's HTTPS API: any method, with a token or a certificate.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use testkit::poll::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

#[derive(Clone, Debug)]
pub struct NodeAnswer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl NodeAnswer {
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("no JSON: {} {}", self.status, self.body))
    }

    /// A header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<String> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut found = pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim().to_owned())
    }
}

/// A client with its credentials.
#[derive(Clone, Debug)]
pub struct NodeClient {
    port: u16,
    config: Arc<ClientConfig>,
    token: Option<String>,
}

impl NodeClient {
    pub fn anonymous(port: u16) -> Result<Self> {
        Ok(Self { port, config: Arc::new(config(None)?), token: None })
    }

    pub fn with_token(port: u16, token: &str) -> Result<Self> {
        Ok(Self { token: Some(token.to_owned()), ..Self::anonymous(port)? })
    }

    /// A client with the client certificate of a kubeconfig.
    pub fn with_kubeconfig(port: u16, kubeconfig: &Path) -> Result<Self> {
        let text = std::fs::read(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
        let document: Value = serde_json::from_slice(&text).context("read a kubeconfig")?;
        let part = |name: &str| {
            let text = document.pointer(&format!("/users/0/user/{name}")).and_then(Value::as_str);
            STANDARD.decode(text.with_context(|| format!("no {name}"))?).context("decode a credential")
        };
        let pair = (part("client-certificate-data")?, part("client-key-data")?);
        Ok(Self { port, config: Arc::new(config(Some(pair))?), token: None })
    }

    /// Waits until the port responds, with any status.
    pub async fn answering(self) -> Result<Self> {
        eventually("the node's API responds", Duration::from_secs(30), async || {
            self.get("/healthz").await.map(drop)
        })
        .await?;
        Ok(self)
    }

    pub async fn get(&self, path: &str) -> Result<NodeAnswer> {
        self.ask("GET", path, &[], "").await
    }

    /// Sends a request and reads the response.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<NodeAnswer> {
        let exchange = async {
            let mut stream = self.open(method, path, headers, body).await?;
            let mut bytes = Vec::new();
            match stream.read_to_end(&mut bytes).await {
                // Closed without close_notify: the received data counts.
                Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(error),
                Ok(_) | Err(_) => Ok(bytes),
            }
        };
        let bytes = tokio::time::timeout(Duration::from_secs(60), exchange)
            .await
            .with_context(|| format!("{method} {path}: no answer in time"))?
            .with_context(|| format!("{method} {path}"))?;
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) =
            text.split_once("\r\n\r\n").with_context(|| format!("no HTTP response: {text}"))?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
        Ok(NodeAnswer { status, head: head.to_owned(), body: body.to_owned() })
    }
}

impl NodeClient {
    /// Sends a request; the caller reads the response, including its header.
    pub async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut text =
            format!("{method} {path} HTTP/1.0\r\nHost: node\r\nContent-Length: {}\r\n", body.len());
        if let Some(token) = &self.token {
            text.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("node").map_err(std::io::Error::other)?;
        let mut stream = TlsConnector::from(self.config.clone()).connect(name, stream).await?;
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).await?;
        Ok(stream)
    }
}

fn config(pair: Option<(Vec<u8>, Vec<u8>)>) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)));
    let Some((certificate, key)) = pair else { return Ok(builder.with_no_client_auth()) };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
    let key = PrivateKeyDer::from_pem_slice(&key).context("read a key")?;
    builder.with_client_auth_cert(chain.context("read a certificate")?, key).context("use a certificate")
}

/// The node's certificate is self-signed; its identity does not matter here.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
