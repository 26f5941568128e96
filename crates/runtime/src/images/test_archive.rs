//! Archives of images, right and wrong ones.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::images::digest::Digest;

#[derive(Clone, Default)]
pub(crate) struct Archive {
    name: String,
    layers: Vec<Vec<u8>>,
    config: Value,
    layer_type: Option<String>,
    damaged: bool,
}

impl Archive {
    pub(crate) fn image(mut self, name: &str, layers: &[Vec<u8>], config: &Value) -> Self {
        let architecture = std::env::consts::ARCH;
        let diff_ids: Vec<_> = layers.iter().map(|layer| Digest::of(layer)).collect();
        let rootfs = json!({"type": "layers", "diff_ids": diff_ids});
        self.config =
            json!({"os": "linux", "architecture": architecture, "config": config, "rootfs": rootfs});
        self.name = name.to_owned();
        self.layers = layers.to_vec();
        self
    }

    pub(crate) fn replace_in_config(mut self, field: &str, value: &Value) -> Self {
        self.config["rootfs"][field] = value.clone();
        self
    }

    pub(crate) fn with_layer_type(mut self, media_type: &str) -> Self {
        self.layer_type = Some(media_type.to_owned());
        self
    }

    /// The content of the first layer no longer has its digest.
    pub(crate) fn damage_layer(mut self) -> Self {
        self.damaged = true;
        self
    }

    pub(crate) fn oci(&self) -> Vec<u8> {
        let mut blobs = BTreeMap::new();
        let mut add = |content: Vec<u8>, media_type: &str| {
            let digest = Digest::of(&content);
            let descriptor = json!({"mediaType": media_type, "digest": digest, "size": content.len()});
            blobs.insert(format!("blobs/sha256/{}", digest.hex()), content);
            descriptor
        };
        let layer_type = self.layer_type.as_deref().unwrap_or("application/vnd.oci.image.layer.v1.tar");
        let layers: Vec<_> = self.layers.iter().map(|layer| add(layer.clone(), layer_type)).collect();
        let config =
            add(serde_json::to_vec(&self.config).unwrap(), "application/vnd.oci.image.config.v1+json");
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
        let mut entry =
            add(serde_json::to_vec(&manifest).unwrap(), "application/vnd.oci.image.manifest.v1+json");
        entry["annotations"] = json!({"io.containerd.image.name": self.name});
        if self.damaged {
            let path = format!("blobs/sha256/{}", Digest::of(&self.layers[0]).hex());
            *blobs.get_mut(&path).unwrap().last_mut().unwrap() ^= 1;
        }
        let index = json!({"schemaVersion": 2, "manifests": [entry]});
        blobs.insert("index.json".to_owned(), serde_json::to_vec(&index).unwrap());
        write(&blobs)
    }

    pub(crate) fn docker(&self) -> Vec<u8> {
        let mut files = BTreeMap::new();
        let mut layers = Vec::new();
        for (number, layer) in self.layers.iter().enumerate() {
            files.insert(format!("{number}/layer.tar"), layer.clone());
            layers.push(format!("{number}/layer.tar"));
        }
        files.insert("config.json".to_owned(), serde_json::to_vec(&self.config).unwrap());
        let manifest = json!([{"Config": "config.json", "RepoTags": [self.name], "Layers": layers}]);
        files.insert("manifest.json".to_owned(), serde_json::to_vec(&manifest).unwrap());
        write(&files)
    }
}

/// A layer of folders, whose names end with `/`, and files.
pub(crate) fn layer(entries: &[(&str, &str)]) -> Vec<u8> {
    let files = entries.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec()));
    write(&files.collect::<Vec<_>>())
}

fn write<'a>(files: impl IntoIterator<Item = impl Into<Item<'a>>>) -> Vec<u8> {
    let mut tar = ::tar::Builder::new(Vec::new());
    for file in files {
        let Item(path, content) = file.into();
        let mut header = ::tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        header.set_entry_type(if path.ends_with('/') {
            ::tar::EntryType::Directory
        } else {
            ::tar::EntryType::Regular
        });
        tar.append_data(&mut header, path, content).unwrap();
    }
    tar.into_inner().unwrap()
}

struct Item<'a>(&'a str, &'a [u8]);

impl<'a> From<(&'a String, &'a Vec<u8>)> for Item<'a> {
    fn from((path, content): (&'a String, &'a Vec<u8>)) -> Self {
        Self(path, content)
    }
}

impl<'a> From<&'a (String, Vec<u8>)> for Item<'a> {
    fn from((path, content): &'a (String, Vec<u8>)) -> Self {
        Self(path, content)
    }
}
