//! Imports of archives: OCI layouts and the format of `docker save`.
//!
//! The archive is unpacked like a layer, into a staging folder; its files are then opened beneath that folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use serde::Deserialize;

use super::blobs::{read_bounded, verify};
use super::disk::{OnPath, StoreError, make_folder, remove};
use super::records::Record;
use super::{ImageStore, LayerSource, StoredImage};
use crate::images::decompress::decompress;
use crate::images::digest::Digest;
use crate::images::extract::extract;
use crate::images::manifest::{
    ConfigFile, Descriptor, Document, MAX_DOCUMENT_SIZE, Manifest, ManifestError, parse_config,
    parse_document,
};
use crate::images::platform::{Platform, candidates, runs_on};
use crate::images::reference::{Reference, Version};

const CONTAINERD_NAME: &str = "io.containerd.image.name";
const OCI_NAME: &str = "org.opencontainers.image.ref.name";
/// Indexes inside of indexes.
const MAX_DEPTH: usize = 4;

/// Images of an archive.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    pub images: Vec<StoredImage>,
    /// Names of images that have no manifest for this machine.
    pub skipped: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl ImageStore {
    /// Imports all images of an archive, which may be compressed.
    pub fn import(&self, archive: impl Read) -> Result<Imported, StoreError> {
        let _use = self.begin_use()?;
        let staged = self.inner.folders.staged();
        make_folder(&staged, 0o700)?;
        let imported = self.unpack_archive(archive, &staged).and_then(|()| self.import_folder(&staged));
        let removed = remove(&staged);
        imported.and_then(|imported| removed.map(|()| imported))
    }

    fn unpack_archive(&self, archive: impl Read, staged: &Path) -> Result<(), StoreError> {
        let invalid = |source| StoreError::Unpack { digest: "of the archive".to_owned(), source };
        let archive = decompress(BufReader::new(archive)).on_path("decompress archive into", staged)?;
        extract(archive, staged, &[], self.inner.limits).map_err(invalid).map(drop)
    }

    fn import_folder(&self, staged: &Path) -> Result<Imported, StoreError> {
        let folder = rustix::fs::open(staged, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let content = Content { folder: folder.on_path("open", staged)? };
        if let Some(index) = content.optional("index.json")? {
            let Document::Index(entries) = parse_document(&index, "")? else {
                return Err(StoreError::Archive("index.json is no index".to_owned()));
            };
            return self.import_layout(&content, &entries);
        }
        let Some(list) = content.optional("manifest.json")? else { return Err(StoreError::NoImages) };
        let list: Vec<DockerImage> = serde_json::from_slice(&list)
            .map_err(|source| ManifestError::Parse { what: "manifest.json", source })?;
        let mut imported = Imported::default();
        for image in list {
            imported.images.push(self.import_docker(&content, &image)?);
        }
        Ok(imported)
    }

    fn import_layout(&self, content: &Content, entries: &[Descriptor]) -> Result<Imported, StoreError> {
        let mut imported = Imported::default();
        for entry in entries {
            let reference = name_of(&entry.annotations)?;
            let Some(found) = content.find_image(entry, &Platform::host(), 0)? else {
                let name = reference.map_or_else(|| entry.digest.to_string(), |reference| reference.text());
                imported.skipped.push(name);
                continue;
            };
            imported.images.push(self.import_manifest(content, entry, &found, reference.as_ref())?);
        }
        Ok(imported)
    }

    fn import_manifest(
        &self,
        content: &Content,
        entry: &Descriptor,
        found: &FoundImage,
        reference: Option<&Reference>,
    ) -> Result<StoredImage, StoreError> {
        let FoundImage { descriptor: found, manifest, config } = found;
        manifest.check_layers()?;
        let mut layers = Vec::new();
        for (descriptor, diff_id) in manifest.layers.iter().zip(&config.diff_ids) {
            let mut file = content.blob(&descriptor.digest)?;
            let source = LayerSource { content: &mut file, verify: Some(descriptor), diff_id };
            layers.push(self.unpack(source, &layers)?);
        }
        let mut blobs = Vec::new();
        for descriptor in [found, &manifest.config] {
            blobs.push(self.blobs().put_document(&content.document(descriptor)?)?);
        }
        let digests = reference.map(|reference| reference.digest_text(&entry.digest));
        self.commit(Record {
            version: 0,
            id: manifest.config.digest.clone(),
            tags: reference.and_then(Reference::tag_text).into_iter().collect(),
            digests: digests.into_iter().collect(),
            size: found.size.saturating_add(manifest.content_size()),
            config: config.config.clone(),
            layers,
            blobs,
        })
    }

    fn import_docker(&self, content: &Content, image: &DockerImage) -> Result<StoredImage, StoreError> {
        let missing = |path: &str| StoreError::Archive(format!("{path:?} is missing"));
        let text = content.optional(&image.config)?.ok_or_else(|| missing(&image.config))?;
        let config = parse_config(&text, image.layers.len())?;
        let mut size = text.len() as u64;
        let mut layers = Vec::new();
        for (path, diff_id) in image.layers.iter().zip(&config.diff_ids) {
            let mut file = content.open(path)?.ok_or_else(|| missing(path))?;
            size += file.metadata().on_path("stat", Path::new(path))?.len();
            let source = LayerSource { content: &mut file, verify: None, diff_id };
            layers.push(self.unpack(source, &layers)?);
        }
        let mut tags = Vec::new();
        for name in image.repo_tags.iter().flatten() {
            tags.extend(Reference::parse(name)?.tag_text());
        }
        let id = self.blobs().put_document(&text)?;
        let blobs = vec![id.clone()];
        let config = config.config;
        self.commit(Record { version: 0, id, tags, digests: Vec::new(), size, config, layers, blobs })
    }
}

/// A full name in one of the annotations. A bare tag has no repository to belong to.
fn name_of(annotations: &BTreeMap<String, String>) -> Result<Option<Reference>, StoreError> {
    let Some(name) = annotations.get(CONTAINERD_NAME).or_else(|| annotations.get(OCI_NAME)) else {
        return Ok(None);
    };
    if !name.contains(['/', ':']) {
        return Ok(None);
    }
    let reference = Reference::parse(name)?;
    Ok(matches!(reference.version, Version::Tag(_)).then_some(reference))
}

/// The manifest for this machine.
struct FoundImage {
    descriptor: Descriptor,
    manifest: Manifest,
    config: ConfigFile,
}

/// Files of an archive, by descriptor of its folder.
struct Content {
    folder: OwnedFd,
}

impl Content {
    /// Opens a regular file. Links are followed within the archive.
    fn open(&self, path: &str) -> Result<Option<File>, StoreError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(&self.folder, OsStr::new(path), flags, Mode::empty(), resolve);
        let file = match opened {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            file => file.on_path("open file of the archive", Path::new(path))?,
        };
        let stat = rustix::fs::fstat(&file).on_path("stat", Path::new(path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(StoreError::Archive(format!("{path:?} is not a regular file")));
        }
        Ok(Some(file.into()))
    }

    fn optional(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(file) = self.open(path)? else { return Ok(None) };
        let content = read_bounded(file).on_path("read file of the archive", Path::new(path))?;
        if content.len() as u64 > MAX_DOCUMENT_SIZE {
            return Err(ManifestError::TooLarge { what: "document", size: content.len() as u64 }.into());
        }
        Ok(Some(content))
    }

    fn blob(&self, digest: &Digest) -> Result<File, StoreError> {
        let path = format!("blobs/sha256/{}", digest.hex());
        self.open(&path)?.ok_or_else(|| StoreError::Archive(format!("blob {digest} is missing")))
    }

    fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>, StoreError> {
        let path = Path::new(descriptor.digest.hex());
        let content = read_bounded(self.blob(&descriptor.digest)?).on_path("read blob", path)?;
        verify("document", descriptor, &content)?;
        Ok(content)
    }

    /// The manifest for this machine and its configuration.
    fn find_image(
        &self,
        entry: &Descriptor,
        host: &Platform,
        depth: usize,
    ) -> Result<Option<FoundImage>, StoreError> {
        if depth > MAX_DEPTH {
            return Err(StoreError::Archive("indexes are nested too deeply".to_owned()));
        }
        match parse_document(&self.document(entry)?, &entry.media_type)? {
            Document::Manifest(manifest) => {
                let config = parse_config(&self.document(&manifest.config)?, manifest.layers.len())?;
                let runs = runs_on(host, &config.platform);
                Ok(runs.then(|| FoundImage { descriptor: entry.clone(), manifest, config }))
            }
            Document::Index(entries) => {
                for candidate in candidates(host, &entries) {
                    if let Some(found) = self.find_image(candidate, host, depth + 1)? {
                        return Ok(Some(found));
                    }
                }
                Ok(None)
            }
        }
    }
}
