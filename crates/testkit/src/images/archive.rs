//! The archive format: blobs by digest, `index.json`, `oci-layout`, `manifest.json`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Image, ImageFile};

pub fn write_archive(images: &[Image], to: impl Write) -> Result<()> {
    let mut blobs = Blobs::default();
    let mut manifests = Vec::new();
    let mut docker = Vec::new();
    for image in images {
        let layer = blobs.add(layer(image).with_context(|| format!("write the layer of {}", image.name))?);
        let config = blobs.add_json(&config(image, &layer.digest))?;
        let manifest = blobs.add_json(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
        }))?;
        let mut entry = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
        entry["annotations"] = json!({
            "io.containerd.image.name": image.name,
            "org.opencontainers.image.ref.name": image.name,
        });
        manifests.push(entry);
        docker.push(json!({"Config": config.path(), "RepoTags": [image.name], "Layers": [layer.path()]}));
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": manifests,
    });
    let mut tar = tar::Builder::new(to);
    append(&mut tar, "oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    append(&mut tar, "index.json", 0o644, &serde_json::to_vec(&index)?)?;
    append(&mut tar, "manifest.json", 0o644, &serde_json::to_vec(&docker)?)?;
    for (digest, content) in &blobs.by_digest {
        append(&mut tar, &format!("blobs/sha256/{digest}"), 0o644, content)?;
    }
    tar.into_inner()?.flush().context("write the archive")
}

#[derive(Default)]
struct Blobs {
    by_digest: BTreeMap<String, Vec<u8>>,
}

struct Blob {
    digest: String,
    size: usize,
}

impl Blobs {
    fn add(&mut self, content: Vec<u8>) -> Blob {
        let digest = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let size = content.len();
        self.by_digest.insert(digest.clone(), content);
        Blob { digest, size }
    }

    fn add_json(&mut self, content: &Value) -> Result<Blob> {
        Ok(self.add(serde_json::to_vec(content)?))
    }
}

impl Blob {
    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": format!("sha256:{}", self.digest), "size": self.size})
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }
}

fn config(image: &Image, layer_digest: &str) -> Value {
    json!({
        "architecture": architecture(),
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "config": {
            "User": image.user,
            "Entrypoint": image.entrypoint,
            "Env": image.env,
            "Labels": image.labels,
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]},
        "history": [{"created": "2026-01-01T00:00:00Z", "created_by": "podward testkit"}],
    })
}

/// The word of image configurations for the programs of this machine.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn layer(image: &Image) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for file in &image.files {
        match file {
            ImageFile::Program(path, source) => append_program(&mut tar, path, 0o755, source)?,
            ImageFile::SetuidProgram(path, source) => append_program(&mut tar, path, 0o4755, source)?,
            ImageFile::Script(path, text) => append(&mut tar, path, 0o755, text.as_bytes())?,
            ImageFile::Text(path, text) => append(&mut tar, path, 0o644, text.as_bytes())?,
            ImageFile::Folder(path, mode) => {
                let mut header = header(tar::EntryType::Directory, *mode, 0);
                tar.append_data(&mut header, format!("{path}/"), std::io::empty())?;
            }
            ImageFile::Link(path, target) => {
                let mut header = header(tar::EntryType::Symlink, 0o777, 0);
                tar.append_link(&mut header, path, target)?;
            }
            ImageFile::HardLink(path, target) => {
                let mut header = header(tar::EntryType::Link, 0o755, 0);
                tar.append_link(&mut header, path, target)?;
            }
        }
    }
    Ok(tar.into_inner()?)
}

fn append_program(tar: &mut tar::Builder<impl Write>, path: &str, mode: u32, source: &Path) -> Result<()> {
    let content = std::fs::read(source).with_context(|| format!("read {}", source.display()))?;
    append(tar, path, mode, &content)
}

fn append(tar: &mut tar::Builder<impl Write>, path: &str, mode: u32, content: &[u8]) -> Result<()> {
    let mut header = header(tar::EntryType::Regular, mode, content.len() as u64);
    tar.append_data(&mut header, path, content).with_context(|| format!("append {path}"))
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_767_225_600);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str) -> Image {
        let files = vec![
            ImageFile::Folder("etc".to_owned(), 0o755),
            ImageFile::Text("etc/motd".to_owned(), "hi\n".to_owned()),
            ImageFile::Link("motd".to_owned(), "etc/motd".to_owned()),
        ];
        Image { name: name.to_owned(), files, ..Image::default() }
    }

    #[test]
    fn every_blob_is_stored_under_its_own_digest_once() {
        let mut bytes = Vec::new();
        write_archive(&[image("a.test/x:1"), image("a.test/x:2")], &mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut blobs = 0;
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
            if let Some(digest) = path.strip_prefix("blobs/sha256/") {
                blobs += 1;
                let real: String =
                    Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(digest, real);
            }
        }
        // Layer, config and manifest are equal for both names.
        assert_eq!(blobs, 3);
    }

    #[test]
    fn same_input_gives_same_bytes() {
        let write = || {
            let mut bytes = Vec::new();
            write_archive(&[image("a.test/x:1")], &mut bytes).unwrap();
            bytes
        };
        assert_eq!(write(), write());
    }
}
