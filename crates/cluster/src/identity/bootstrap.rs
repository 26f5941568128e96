//! The first certificate of a node.

use std::io;
use std::path::{Path, PathBuf};

use kube::Client;
use model::Timestamp;
use rcgen::KeyPair;
use serde_json::json;

use super::credential::{CredentialError, read};
use super::files::{WriteError, replace};
use super::kubeconfig::{Access, ServerStanza};
use crate::clients::{ConnectError, plain_client};

/// Why the first certificate cannot be asked for or taken up.
#[derive(Debug, thiserror::Error)]
pub(super) enum BootstrapError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Read(#[from] CredentialError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("make a key: {0}")]
    Key(#[from] rcgen::Error),
}

/// How a node that has no certificate asks for one.
#[derive(Clone, Debug)]
pub(super) struct Bootstrap {
    /// Whose credentials are used.
    pub(super) kubeconfig: PathBuf,
    /// Where the key waits for its certificate.
    pub(super) folder: PathBuf,
    /// The kubeconfig to write once there is one, and the server it is to name.
    pub(super) target: Option<(PathBuf, ServerStanza)>,
}

impl Bootstrap {
    /// Reads the credentials each time: somebody may have put better ones there.
    pub(super) async fn client(&self) -> Result<Client, BootstrapError> {
        let access = Access::read(&self.kubeconfig).await?;
        Ok(plain_client(access).await?)
    }

    /// The key, which outlives a restart, so that the request is found again.
    pub(super) fn key(&self) -> Result<KeyPair, BootstrapError> {
        let path = pending_key_path(&self.folder);
        match read(&path) {
            Ok(found) => {
                if let Ok(key) = KeyPair::from_pem(&String::from_utf8_lossy(&found)) {
                    return Ok(key);
                }
                tracing::warn!(file = %path.display(), "no usable key; making a new one");
            }
            Err(CredentialError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let key = KeyPair::generate()?;
        replace(&path, key.serialize_pem().as_bytes(), 0o600)?;
        Ok(key)
    }

    /// The certificate is stored: writes the kubeconfig that names it, and forgets the pending key.
    pub(super) fn finish(&self, certificate: &Path) -> Result<(), BootstrapError> {
        if let Some((path, server)) = &self.target {
            replace(path, kubeconfig(server, certificate).as_bytes(), 0o600)?;
            tracing::info!(file = %path.display(), "kubeconfig written");
        }
        match std::fs::remove_file(pending_key_path(&self.folder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "the key of the certificate request stays behind");
            }
            _ => {}
        }
        Ok(())
    }
}

/// A kubeconfig with upstream's names in it; the parts that vary are JSON, which YAML reads.
fn kubeconfig(server: &ServerStanza, certificate: &Path) -> String {
    let user = json!({"client-certificate": certificate, "client-key": certificate});
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: default-cluster\n  cluster: {}\n\
         users:\n\
         - name: default-auth\n  user: {user}\n\
         contexts:\n\
         - name: default-context\n  context:\n    cluster: default-cluster\n    namespace: default\n    user: default-auth\n\
         current-context: default-context\n",
        server.cluster
    )
}

fn pending_key_path(folder: &Path) -> PathBuf {
    folder.join("kubelet-client.key.tmp")
}

/// Why a kubeconfig does not do, if it does not: then the node bootstraps.
pub(super) async fn useless(path: &Path, now: Timestamp) -> Option<String> {
    if !path.exists() {
        return Some("there is none".to_owned());
    }
    let access = match Access::read(path).await {
        Ok(access) => access,
        Err(error) => return Some(with_cause(&error)),
    };
    match access.certificate.load() {
        Ok(Some(credential)) if credential.is_expired(now) => {
            Some(format!("its client certificate has expired at {}", credential.not_after))
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
        let server = Access::read(&kubeconfig).await.unwrap().server;
        let target = Some((folder.path().join("etc/kubeconfig"), server));
        let bootstrap = Bootstrap { kubeconfig, folder: folder.path().join("pki"), target };
        (folder, bootstrap)
    }

    #[tokio::test]
    async fn the_key_outlives_a_restart() {
        let (folder, bootstrap) = prepared().await;
        let key = bootstrap.key().unwrap().serialize_der();
        assert_eq!(bootstrap.key().unwrap().serialize_der(), key);
        let path = folder.path().join("pki/kubelet-client.key.tmp");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "damaged").unwrap();
        assert_ne!(bootstrap.key().unwrap().serialize_der(), key);
        bootstrap.finish(Path::new("/pki/current.pem")).unwrap();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn the_kubeconfig_names_server_and_files() {
        let (folder, bootstrap) = prepared().await;
        let (certificate, key) = issued(&Authority::new(), "system:node:n", &[], 0, 1000);
        let pem = folder.path().join("current.pem");
        std::fs::write(&pem, format!("{certificate}{key}")).unwrap();
        bootstrap.finish(&pem).unwrap();
        let path = folder.path().join("etc/kubeconfig");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let access = Access::read(&path).await.unwrap();
        assert_eq!(access.config.cluster_url, "https://api.example:6443");
        assert_eq!(access.config.tls_server_name.as_deref(), Some("api"));
        assert_eq!(access.config.root_cert_file, Some(folder.path().join("ca.pem")));
        assert!(access.config.auth_info.token.is_none());
        assert_eq!(access.certificate.load().unwrap().unwrap().names.common_name, "system:node:n");
        assert_eq!(useless(&path, Timestamp::from_secs(1000)).await, None);
        let expired = useless(&path, Timestamp::from_secs(1001)).await.unwrap();
        assert!(expired.contains("expired"), "{expired}");
    }

    #[tokio::test]
    async fn kubeconfigs_that_do_not_do() {
        let (folder, bootstrap) = prepared().await;
        let path = folder.path().join("kubeconfig");
        let now = Timestamp::from_secs(0);
        assert_eq!(useless(&path, now).await.unwrap(), "there is none");
        std::fs::write(&path, "{").unwrap();
        assert!(useless(&path, now).await.unwrap().contains("kubeconfig"));
        assert_eq!(useless(&bootstrap.kubeconfig, now).await.unwrap(), "it has no client certificate");
        let damaged = base64::engine::general_purpose::STANDARD.encode("no certificate");
        let user = json!({"client-certificate-data": damaged, "client-key-data": damaged});
        std::fs::write(&path, BOOTSTRAP.replace(r#"{"token": "t"}"#, &user.to_string())).unwrap();
        assert!(useless(&path, now).await.unwrap().contains("certificate"));
    }
}
