use std::collections::BTreeMap;

use cri::v1::{Image, ImageSpec, Int64Value};

/// The fake's image store.
#[derive(Debug, Default)]
pub(crate) struct Images {
    by_id: BTreeMap<String, Image>,
    names: BTreeMap<String, String>,
    made: u64,
}

impl Images {
    /// Adds an image under this name; does not change an existing one.
    pub(crate) fn add(&mut self, name: &str) -> Image {
        if let Some(image) = self.find(name) {
            return image.clone();
        }
        self.made += 1;
        let id = format!("sha256:{:064x}", self.made);
        let name = with_tag(name);
        let pinned_by_digest = name.contains('@');
        let digest = if pinned_by_digest { name.clone() } else { format!("{}@{id}", repository(&name)) };
        let image = Image {
            id: id.clone(),
            repo_tags: if pinned_by_digest { vec![] } else { vec![name.clone()] },
            repo_digests: vec![digest.clone()],
            size: 1 << 20,
            uid: Some(Int64Value { value: 0 }),
            ..Image::default()
        };
        self.names.insert(name, id.clone());
        self.names.insert(digest, id.clone());
        self.by_id.insert(id, image.clone());
        image
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Image> {
        self.by_id.get(self.names.get(&with_tag(name)).map_or(name, String::as_str))
    }

    /// Changes an existing image.
    pub(crate) fn edit(&mut self, name: &str, change: impl FnOnce(&mut Image)) {
        if let Some(id) = self.find(name).map(|image| image.id.clone())
            && let Some(image) = self.by_id.get_mut(&id)
        {
            change(image);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(id) = self.find(name).map(|image| image.id.clone()) {
            self.by_id.remove(&id);
            self.names.retain(|_, of| *of != id);
        }
    }

    pub(crate) fn list(&self, filter: Option<&ImageSpec>) -> Vec<Image> {
        match filter {
            Some(spec) if !spec.image.is_empty() => self.find(&spec.image).cloned().into_iter().collect(),
            _ => self.by_id.values().cloned().collect(),
        }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.by_id.values().map(|image| image.size).sum()
    }
}

/// Every name of an image.
pub(crate) fn names_of(image: &Image) -> Vec<String> {
    let bare = image.repo_tags.iter().filter_map(|tag| tag.strip_suffix(":latest")).map(str::to_owned);
    image.repo_tags.iter().cloned().chain(bare).chain([image.id.clone()]).collect()
}

/// `name` with its tag, by default `latest`.
fn with_tag(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') || name.contains('@') { name.to_owned() } else { format!("{name}:latest") }
}

fn repository(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}
