//! Manifests, indexes and configurations of images: bounded JSON from outside becomes values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::platform::Platform;

/// Largest manifest, index or configuration that is read.
pub(crate) const MAX_DOCUMENT_SIZE: u64 = 4 * 1024 * 1024;
/// More than any real image; each layer costs an overlay directory.
const MAX_LAYERS: usize = 400;
const MAX_INDEX_ENTRIES: usize = 1000;

const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1";

/// The media types that a registry is asked for.
pub(crate) const ACCEPTED: [&str; 4] = [DOCKER_MANIFEST, DOCKER_LIST, OCI_MANIFEST, OCI_INDEX];

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("failed to parse {what}")]
    Parse { what: &'static str, source: serde_json::Error },
    #[error("{what} has {size} bytes, more than the limit of {MAX_DOCUMENT_SIZE}")]
    TooLarge { what: &'static str, size: u64 },
    #[error("docker schema 1 manifests are not supported")]
    Schema1,
    #[error("manifest has both layers and manifests")]
    Ambiguous,
    #[error("manifest has neither layers nor manifests")]
    Empty,
    #[error("media type {inner:?} inside the manifest differs from {outer:?}, by which it was found")]
    MediaTypeMismatch { inner: String, outer: String },
    #[error("{what} has {count} entries, more than the limit of {limit}")]
    TooMany { what: &'static str, count: usize, limit: usize },
    #[error("unsupported media type {0:?} of a layer")]
    UnsupportedLayer(String),
    #[error("manifest has {layers} layers, but the configuration has {diff_ids}")]
    LayerCount { layers: usize, diff_ids: usize },
    #[error("root file system type {0:?} is not supported")]
    RootFsType(String),
    #[error("no match for platform in manifest: the image is not available for {wanted}")]
    NoPlatform { wanted: String },
}

/// A reference to a blob by digest and size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A document that a reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    Manifest(Manifest),
    Index(Vec<Descriptor>),
}

/// The parts of one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDocument {
    #[serde(default)]
    schema_version: u32,
    #[serde(default)]
    media_type: String,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    fs_layers: Option<serde::de::IgnoredAny>,
}

/// Reads a manifest or an index. `media_type` is the one by which it was found; empty if unknown.
pub fn parse_document(content: &[u8], media_type: &str) -> Result<Document, ManifestError> {
    let raw: RawDocument = parse(content, "manifest")?;
    if raw.schema_version == 1 || raw.fs_layers.is_some() || media_type.starts_with(DOCKER_SCHEMA_1) {
        return Err(ManifestError::Schema1);
    }
    let is_known = ACCEPTED.contains(&media_type);
    if is_known && !raw.media_type.is_empty() && raw.media_type != media_type {
        return Err(ManifestError::MediaTypeMismatch { inner: raw.media_type, outer: media_type.to_owned() });
    }
    let media_type = if raw.media_type.is_empty() { media_type } else { raw.media_type.as_str() };
    let is_index = [OCI_INDEX, DOCKER_LIST].contains(&media_type);
    match (raw.config, raw.layers, raw.manifests) {
        (None, None, Some(manifests)) if !is_manifest(media_type) => {
            limit("index", manifests.len(), MAX_INDEX_ENTRIES)?;
            Ok(Document::Index(manifests))
        }
        (Some(config), layers, None) if !is_index => {
            let layers = layers.unwrap_or_default();
            limit("list of layers", layers.len(), MAX_LAYERS)?;
            Ok(Document::Manifest(Manifest { config, layers }))
        }
        (None, None, None) => Err(ManifestError::Empty),
        _ => Err(ManifestError::Ambiguous),
    }
}

fn is_manifest(media_type: &str) -> bool {
    [OCI_MANIFEST, DOCKER_MANIFEST].contains(&media_type)
}

impl Manifest {
    /// Bytes of configuration and compressed layers.
    pub(crate) fn content_size(&self) -> u64 {
        self.layers.iter().fold(self.config.size, |sum, layer| sum.saturating_add(layer.size))
    }

    /// Fails unless every layer is a tar archive.
    pub(crate) fn check_layers(&self) -> Result<(), ManifestError> {
        match self.layers.iter().find(|layer| !is_tar_layer(&layer.media_type)) {
            Some(layer) => Err(ManifestError::UnsupportedLayer(layer.media_type.clone())),
            None => Ok(()),
        }
    }
}

fn is_tar_layer(media_type: &str) -> bool {
    let docker = media_type.strip_prefix("application/vnd.docker.image.rootfs.");
    if let Some(kind) = docker {
        return matches!(
            kind,
            "diff.tar" | "diff.tar.gzip" | "diff.tar.zstd" | "foreign.diff.tar" | "foreign.diff.tar.gzip"
        );
    }
    let Some(kind) = media_type.strip_prefix("application/vnd.oci.image.layer.") else { return false };
    let kind = kind.strip_prefix("nondistributable.").unwrap_or(kind);
    matches!(kind, "v1.tar" | "v1.tar+gzip" | "v1.tar+zstd")
}

/// The settings of a container that its image provides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    pub user: String,
    pub env: Vec<String>,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    pub working_dir: String,
    /// Paths in the container.
    pub volumes: Vec<String>,
    pub stop_signal: String,
    pub labels: BTreeMap<String, String>,
}

/// The configuration blob of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    pub platform: Platform,
    pub config: ImageConfig,
    pub diff_ids: Vec<Digest>,
}

#[derive(Deserialize)]
struct RawConfigFile {
    #[serde(flatten)]
    platform: Platform,
    config: Option<RawConfig>,
    rootfs: RawRootFs,
}

#[derive(Deserialize)]
struct RawRootFs {
    #[serde(default, rename = "type")]
    kind: String,
    diff_ids: Option<Vec<Digest>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct RawConfig {
    user: Option<String>,
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    working_dir: Option<String>,
    volumes: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    stop_signal: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

/// Reads the configuration of an image whose manifest has `layers` layers.
pub fn parse_config(content: &[u8], layers: usize) -> Result<ConfigFile, ManifestError> {
    let raw: RawConfigFile = parse(content, "image configuration")?;
    if !matches!(raw.rootfs.kind.as_str(), "" | "layers") {
        return Err(ManifestError::RootFsType(raw.rootfs.kind));
    }
    let diff_ids = raw.rootfs.diff_ids.unwrap_or_default();
    if diff_ids.len() != layers {
        return Err(ManifestError::LayerCount { layers, diff_ids: diff_ids.len() });
    }
    let config = raw.config.unwrap_or_default();
    Ok(ConfigFile {
        platform: raw.platform.normalized(),
        config: ImageConfig {
            user: config.user.unwrap_or_default(),
            env: config.env.unwrap_or_default(),
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
            working_dir: config.working_dir.unwrap_or_default(),
            volumes: config.volumes.unwrap_or_default().into_keys().collect(),
            stop_signal: config.stop_signal.unwrap_or_default(),
            labels: config.labels.unwrap_or_default(),
        },
        diff_ids,
    })
}

fn parse<'a, T: Deserialize<'a>>(content: &'a [u8], what: &'static str) -> Result<T, ManifestError> {
    let size = content.len() as u64;
    if size > MAX_DOCUMENT_SIZE {
        return Err(ManifestError::TooLarge { what, size });
    }
    serde_json::from_slice(content).map_err(|source| ManifestError::Parse { what, source })
}

fn limit(what: &'static str, count: usize, limit: usize) -> Result<(), ManifestError> {
    if count > limit { Err(ManifestError::TooMany { what, count, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
