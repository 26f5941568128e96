//! Credentials, key and kubeconfig for the first certificate of a node.

use std::io;
use std::path::{Path, PathBuf};

use kube::Client;
use model::Timestamp;
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::credential::{CredentialError, read};
use super::files::{WriteError, replace};
use super::kubeconfig::ServerAccess;
use crate::clients::{ConnectError, unlimited_client};

#[derive(Debug, thiserror::Error)]
pub(super) enum BootstrapError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Read(#[from] CredentialError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("generate key: {0}")]
    Key(#[from] rcgen::Error),
}

/// How a node without a certificate requests one.
#[derive(Clone, Debug)]
pub(super) struct Bootstrap {
    /// Contains the bootstrap credentials.
    pub(super) kubeconfig: PathBuf,
    /// Holds the pending key until the certificate is issued.
    pub(super) folder: PathBuf,
    /// The kubeconfig to write once the certificate is issued, and its `cluster` entry.
    pub(super) target: Option<(PathBuf, Value)>,
}

impl Bootstrap {
    /// Reads the credentials each time, because an administrator may have replaced them.
    pub(super) async fn client(&self) -> Result<Client, BootstrapError> {
        let access = ServerAccess::read(&self.kubeconfig).await?;
        Ok(unlimited_client(access).await?)
    }

    /// Loads or generates the key. It is stored on disk so that a restarted agent finds its pending request.
    pub(super) fn load_or_generate_key(&self) -> Result<KeyPair, BootstrapError> {
        let path = pending_key_path(&self.folder);
        match read(&path) {
            Ok(found) => {
                if let Ok(key) = KeyPair::from_pem(&String::from_utf8_lossy(&found)) {
                    return Ok(key);
                }
                tracing::warn!(file = %path.display(), "pending key is invalid; generating a new one");
            }
            Err(CredentialError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let key = KeyPair::generate()?;
        replace(&path, key.serialize_pem().as_bytes(), 0o600)?;
        Ok(key)
    }

    /// Writes the kubeconfig that refers to the stored certificate, and deletes the pending key.
    pub(super) fn finish(&self, certificate: &Path) -> Result<(), BootstrapError> {
        if let Some((path, server)) = &self.target {
            replace(path, kubeconfig(server, certificate).as_bytes(), 0o600)?;
            tracing::info!(file = %path.display(), "wrote kubeconfig");
        }
        match std::fs::remove_file(pending_key_path(&self.folder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "failed to delete the pending key");
            }
            _ => {}
        }
        Ok(())
    }
}

/// Renders a kubeconfig with upstream's entry names. The variable parts are JSON, which is valid YAML.
fn kubeconfig(cluster: &Value, certificate: &Path) -> String {
    let user = json!({"client-certificate": certificate, "client-key": certificate});
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: default-cluster\n  cluster: {cluster}\n\
         users:\n\
         - name: default-auth\n  user: {user}\n\
         contexts:\n\
         - name: default-context\n  context:\n    cluster: default-cluster\n    namespace: default\n    user: default-auth\n\
         current-context: default-context\n"
    )
}

fn pending_key_path(folder: &Path) -> PathBuf {
    folder.join("kubelet-client.key.tmp")
}

/// Returns why the kubeconfig is unusable, or `None` if it needs no bootstrap.
pub(super) async fn reason_to_bootstrap(path: &Path, now: Timestamp) -> Option<String> {
    if !path.exists() {
        return Some("it does not exist".to_owned());
    }
    let access = match ServerAccess::read(path).await {
        Ok(access) => access,
        Err(error) => return Some(with_cause(&error)),
    };
    match access.certificate.load() {
        Ok(Some(credential)) if credential.is_expired(now) => {
            Some(format!("its client certificate expired at {}", credential.not_after))
        }
        Ok(Some(_)) => None,
        Ok(None) => Some("it has no client certificate".to_owned()),
        Err(error) => Some(with_cause(&error)),
    }
}

fn with_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use base64::Engine;
    use tempfile::TempDir;

    use super::*;
    use crate::identity::test_certificates::{Authority, issued};

    const BOOTSTRAP: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443", "tls-server-name": "api",
            "certificate-authority": "ca.pem"}}]}"#;

    async fn prepared() -> (TempDir, Bootstrap) {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("ca.pem"), Authority::new().pem()).unwrap();
        let kubeconfig = folder.path().join("bootstrap");
        std::fs::write(&kubeconfig, BOOTSTRAP).unwrap();
        let server = ServerAccess::read(&kubeconfig).await.unwrap().server;
        let target = Some((folder.path().join("etc/kubeconfig"), server));
        let bootstrap = Bootstrap { kubeconfig, folder: folder.path().join("pki"), target };
        (folder, bootstrap)
    }

    #[tokio::test]
    async fn pending_key_survives_restart() {
        let (folder, bootstrap) = prepared().await;
        let key = bootstrap.load_or_generate_key().unwrap().serialize_der();
        assert_eq!(bootstrap.load_or_generate_key().unwrap().serialize_der(), key);
        let path = folder.path().join("pki/kubelet-client.key.tmp");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "damaged").unwrap();
        assert_ne!(bootstrap.load_or_generate_key().unwrap().serialize_der(), key);
        bootstrap.finish(Path::new("/pki/current.pem")).unwrap();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn written_kubeconfig_refers_to_server_and_certificate_file() {
        let (folder, bootstrap) = prepared().await;
        let (certificate, key) = issued(&Authority::new(), "system:node:n", &[], 0, 1000);
        let pem = folder.path().join("current.pem");
        std::fs::write(&pem, format!("{certificate}{key}")).unwrap();
        bootstrap.finish(&pem).unwrap();
        let path = folder.path().join("etc/kubeconfig");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let access = ServerAccess::read(&path).await.unwrap();
        assert_eq!(access.config.cluster_url, "https://api.example:6443");
        assert_eq!(access.config.tls_server_name.as_deref(), Some("api"));
        assert_eq!(access.config.root_cert_file, Some(folder.path().join("ca.pem")));
        assert!(access.config.auth_info.token.is_none());
        assert_eq!(access.certificate.load().unwrap().unwrap().names.common_name, "system:node:n");
        assert_eq!(reason_to_bootstrap(&path, Timestamp::from_secs(1000)).await, None);
        let expired = reason_to_bootstrap(&path, Timestamp::from_secs(1001)).await.unwrap();
        assert!(expired.contains("expired"), "{expired}");
    }

    #[tokio::test]
    async fn bootstraps_if_kubeconfig_is_missing_or_unusable() {
        let (folder, bootstrap) = prepared().await;
        let path = folder.path().join("kubeconfig");
        let now = Timestamp::from_secs(0);
        assert_eq!(reason_to_bootstrap(&path, now).await.unwrap(), "it does not exist");
        std::fs::write(&path, "{").unwrap();
        assert!(reason_to_bootstrap(&path, now).await.unwrap().contains("kubeconfig"));
        assert_eq!(
            reason_to_bootstrap(&bootstrap.kubeconfig, now).await.unwrap(),
            "it has no client certificate"
        );
        let damaged = base64::engine::general_purpose::STANDARD.encode("no certificate");
        let user = json!({"client-certificate-data": damaged, "client-key-data": damaged});
        std::fs::write(&path, BOOTSTRAP.replace(r#"{"token": "t"}"#, &user.to_string())).unwrap();
        assert!(reason_to_bootstrap(&path, now).await.unwrap().contains("certificate"));
    }
}
