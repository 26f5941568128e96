//! Certificates on disk in upstream's layout, so that a node can switch between the kubelet and Podward.
//!
//! `<prefix>-<time>.pem` holds a certificate and its key; `<prefix>-current.pem` is a symlink to the current one.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use model::Timestamp;

use super::credential::{Credential, CredentialError};
use super::files::{WriteError, replace};

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("{} is not a symlink, refusing to replace it", .0.display())]
    NotASymlink(PathBuf),
}

/// The certificates with one file name prefix.
#[derive(Clone, Debug)]
pub(crate) struct CertificateStore {
    folder: PathBuf,
    prefix: &'static str,
}

impl CertificateStore {
    pub(crate) fn new(folder: &Path, prefix: &'static str) -> Self {
        Self { folder: folder.to_owned(), prefix }
    }

    /// Path of the symlink to the current certificate.
    pub(crate) fn current_path(&self) -> PathBuf {
        self.folder.join(format!("{}-current.pem", self.prefix))
    }

    /// Loads the current certificate.
    pub(crate) fn current(&self) -> Result<Option<Credential>, CredentialError> {
        // Falls back to the `-updated` link: the kubelet may have been killed between the two steps of its update.
        for path in [self.current_path(), self.updated_path()] {
            match Credential::from_files(&path, &path) {
                Err(CredentialError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                found => return found.map(Some),
            }
        }
        Ok(None)
    }

    /// Stores a certificate with its key and makes it the current one.
    pub(crate) fn update(
        &self,
        certificate: &[u8],
        key: &[u8],
        now: Timestamp,
    ) -> Result<Credential, StoreError> {
        let credential = Credential::from_pem(certificate, key)?;
        let path = self.folder.join(format!("{}-{}.pem", self.prefix, file_time(now)));
        let mut both = certificate.to_vec();
        if !both.ends_with(b"\n") {
            both.push(b'\n');
        }
        both.extend_from_slice(key);
        replace(&path, &both, 0o600)?;
        self.point_to(&path)?;
        Ok(credential)
    }

    fn point_to(&self, target: &Path) -> Result<(), StoreError> {
        let (current, updated) = (self.current_path(), self.updated_path());
        for link in [&current, &updated] {
            if fs::symlink_metadata(link).is_ok_and(|found| !found.is_symlink()) {
                return Err(StoreError::NotASymlink(link.clone()));
            }
        }
        let change = || {
            match fs::remove_file(&updated) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            symlink(std::path::absolute(target)?, &updated)?;
            fs::rename(&updated, &current)?;
            super::files::sync_parent_folder(&current)
        };
        change().map_err(WriteError::at(&current)).map_err(StoreError::from)
    }

    fn updated_path(&self) -> PathBuf {
        self.folder.join(format!("{}-updated.pem", self.prefix))
    }
}

/// Formats a time as `2006-01-02-15-04-05`, same as upstream.
fn file_time(now: Timestamp) -> String {
    let text = now.to_rfc3339();
    text.chars().take(19).map(|c| if matches!(c, 'T' | ':') { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::test_certificates::{Authority, issued};

    #[test]
    fn stores_certificates_in_upstreams_layout() {
        let folder = tempfile::TempDir::new().unwrap();
        let store = CertificateStore::new(&folder.path().join("pki"), "kubelet-client");
        assert!(store.current().unwrap().is_none());
        let authority = Authority::new();
        for (at, name) in [(1_791_970_245, "first"), (1_791_970_246, "second")] {
            let (certificate, key) = issued(&authority, name, &[], 0, 1);
            store.update(certificate.as_bytes(), key.as_bytes(), Timestamp::from_secs(at)).unwrap();
            assert_eq!(store.current().unwrap().unwrap().names.common_name, name);
        }
        let first = folder.path().join("pki/kubelet-client-2026-10-14-09-30-45.pem");
        assert!(first.is_file(), "{first:?}");
        let link = fs::read_link(folder.path().join("pki/kubelet-client-current.pem")).unwrap();
        assert_eq!(link, folder.path().join("pki/kubelet-client-2026-10-14-09-30-46.pem"));
    }

    #[test]
    fn loads_certificate_after_interrupted_update() {
        let folder = tempfile::TempDir::new().unwrap();
        let store = CertificateStore::new(folder.path(), "kubelet-client");
        let (certificate, key) = issued(&Authority::new(), "node", &[], 0, 1);
        store.update(certificate.as_bytes(), key.as_bytes(), Timestamp::from_secs(1)).unwrap();
        fs::rename(store.current_path(), store.updated_path()).unwrap();
        assert_eq!(store.current().unwrap().unwrap().names.common_name, "node");
    }

    #[test]
    fn refuses_to_replace_a_regular_file_by_a_symlink() {
        let folder = tempfile::TempDir::new().unwrap();
        let store = CertificateStore::new(folder.path(), "kubelet-client");
        fs::write(store.current_path(), "not ours").unwrap();
        let (certificate, key) = issued(&Authority::new(), "node", &[], 0, 1);
        let stored = store.update(certificate.as_bytes(), key.as_bytes(), Timestamp::from_secs(1));
        assert!(matches!(stored, Err(StoreError::NotASymlink(_))));
        assert_eq!(fs::read_to_string(store.current_path()).unwrap(), "not ours");
    }
}
