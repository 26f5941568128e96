//! From a reference to the manifest and configuration for this machine.

use super::{Pull, PullError, blocking};
use crate::images::digest::Digest;
use crate::images::manifest::{
    ConfigFile, Descriptor, Document, MAX_DOCUMENT_SIZE, Manifest, ManifestError, parse_config,
    parse_document,
};
use crate::images::platform::{Platform, candidates, runs_on};
use crate::images::reference::{Reference, Version};
use crate::images::registry::FetchedDocument;

/// Indexes inside of indexes.
const MAX_DEPTH: usize = 4;
/// Manifests that are fetched until one runs on this machine.
const MAX_FETCHED: usize = 32;

/// The manifest and configuration that a reference resolved to.
pub(super) struct Resolved {
    /// Digest that the reference names: of the index, if there is one.
    pub(super) top: Digest,
    pub(super) manifest_digest: Digest,
    pub(super) manifest_size: u64,
    pub(super) manifest: Manifest,
    pub(super) config: ConfigFile,
}

impl Pull {
    pub(super) async fn resolve(
        &self,
        reference: &Reference,
        host: &Platform,
    ) -> Result<Resolved, PullError> {
        let first = match &reference.version {
            Version::Tag(tag) => self.session.document(tag, None).await?,
            Version::Digest(digest) => self.session.document(digest.as_str(), Some(digest)).await?,
        };
        let top = first.digest.clone();
        let mut next = Some((first, 0));
        let mut pending: Vec<(Descriptor, usize)> = Vec::new();
        for _ in 0..MAX_FETCHED {
            let Some((fetched, depth)) = next.take() else { break };
            match parse_document(&fetched.content, &fetched.media_type)? {
                Document::Manifest(manifest) => {
                    let config = self.fetch_config(&manifest).await?;
                    // A reference to a single manifest is taken as it is, like upstream's runtime does.
                    if depth == 0 || runs_on(host, &config.platform) {
                        return self.resolved(top, fetched, manifest, config).await;
                    }
                }
                Document::Index(entries) if depth < MAX_DEPTH => {
                    // The last one is taken first.
                    let best_last = candidates(host, &entries).into_iter().rev();
                    pending.extend(best_last.map(|entry| (entry.clone(), depth + 1)));
                }
                Document::Index(_) => {}
            }
            next = match pending.pop() {
                Some((entry, depth)) => Some((self.fetch_entry(&entry).await?, depth)),
                None => None,
            };
        }
        Err(ManifestError::NoPlatform { wanted: host.text() }.into())
    }

    async fn fetch_entry(&self, entry: &Descriptor) -> Result<FetchedDocument, PullError> {
        let mut fetched = self.session.document(entry.digest.as_str(), Some(&entry.digest)).await?;
        if !entry.media_type.is_empty() {
            fetched.media_type.clone_from(&entry.media_type);
        }
        Ok(fetched)
    }

    async fn fetch_config(&self, manifest: &Manifest) -> Result<ConfigFile, PullError> {
        manifest.check_layers()?;
        let descriptor = manifest.config.clone();
        if descriptor.size > MAX_DOCUMENT_SIZE {
            let what = "image configuration";
            return Err(ManifestError::TooLarge { what, size: descriptor.size }.into());
        }
        self.download(&descriptor, None).await?;
        let blobs = self.store.blobs();
        let content = blocking(move || blobs.document(&descriptor)).await??;
        Ok(parse_config(&content, manifest.layers.len())?)
    }

    async fn resolved(
        &self,
        top: Digest,
        fetched: FetchedDocument,
        manifest: Manifest,
        config: ConfigFile,
    ) -> Result<Resolved, PullError> {
        let manifest_size = fetched.content.len() as u64;
        let blobs = self.store.blobs();
        let manifest_digest = blocking(move || blobs.put_document(&fetched.content)).await??;
        Ok(Resolved { top, manifest_digest, manifest_size, manifest, config })
    }
}
