//! Garbage collection of images: by disk use and by age.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{ImageStatus, ObservedPod, Pod, Timestamp};

use crate::images::image_pull::parse_image_name;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageGcPolicy {
    /// Disk use in percent that starts garbage collection.
    pub high_percent: u64,
    /// Disk use in percent that ends it.
    pub low_percent: u64,
    /// Younger images are not removed to free space.
    pub min_age: Duration,
    /// Images that were unused for longer are always removed; zero disables this.
    pub max_age: Duration,
    /// Whether images are tracked per runtime handler (`RuntimeClassInImageCriApi`).
    pub by_handler: bool,
}

impl ImageGcPolicy {
    pub fn is_off(&self) -> bool {
        self.high_percent >= 100 && self.max_age.is_zero()
    }
}

/// Usage times of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRecord {
    pub first_detected: Timestamp,
    /// Zero if it was never in use.
    pub last_used: Timestamp,
}

/// Records by image key.
pub type ImageRecords = BTreeMap<String, ImageRecord>;

/// An unused image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: String,
    /// Key of its record.
    pub key: String,
    pub size: u64,
    pub record: ImageRecord,
}

impl Candidate {
    /// Whether it was unused for longer than the maximum age. An image that was never in use counts from its first detection.
    pub fn is_too_old(&self, policy: &ImageGcPolicy, now: Timestamp) -> bool {
        let used = self.record.last_used.max(self.record.first_detected);
        !policy.max_age.is_zero() && now.since(used) > policy.max_age
    }

    /// Whether it may be removed to free space. A young image may have been pulled for a container that is about to be created.
    pub fn may_be_removed_for_space(&self, policy: &ImageGcPolicy, now: Timestamp) -> bool {
        self.record.last_used < now && now.since(self.record.first_detected) >= policy.min_age
    }
}

/// Removes the runtime handlers from images unless they are tracked per handler.
#[must_use]
pub fn normalize_handlers(mut images: Vec<ImageStatus>, policy: &ImageGcPolicy) -> Vec<ImageStatus> {
    if !policy.by_handler {
        images.iter_mut().for_each(|image| image.runtime_handler.clear());
    }
    images
}

/// Key of an image: ID and runtime handler.
fn key(image: &ImageStatus) -> String {
    match image.runtime_handler.as_str() {
        "" => image.id.clone(),
        handler => format!("{},{handler}", image.id),
    }
}

/// The keys of images in use by containers, including dead ones, and by image volumes of desired pods.
pub fn images_in_use<'a>(
    images: &[ImageStatus],
    observed: impl IntoIterator<Item = &'a ObservedPod>,
    desired: impl IntoIterator<Item = &'a Pod>,
    policy: &ImageGcPolicy,
) -> BTreeSet<String> {
    let mut named: BTreeSet<(&str, &str)> = BTreeSet::new();
    for container in observed.into_iter().flat_map(|pod| &pod.containers) {
        let handler = if policy.by_handler { container.image_handler.as_str() } else { "" };
        named.extend([(container.image_id.as_str(), handler), (container.image_ref.as_str(), handler)]);
    }
    let mounted: BTreeSet<String> = desired
        .into_iter()
        .flat_map(|pod| pod.spec.volumes.iter().flatten())
        .filter_map(|volume| normal_name(volume.image.as_ref()?.reference.as_deref()?))
        .collect();
    let in_use = |image: &&ImageStatus| {
        let mut names = image.repo_tags.iter().chain(&image.repo_digests);
        let is_named = |name: &str| named.contains(&(name, image.runtime_handler.as_str()));
        is_named(&image.id)
            || names.clone().any(|name| is_named(name))
            || names.any(|name| normal_name(name).is_some_and(|name| mounted.contains(&name)))
    };
    images.iter().filter(in_use).map(key).collect()
}

/// Updates the records with the present images.
pub fn detect(records: &mut ImageRecords, images: &[ImageStatus], in_use: &BTreeSet<String>, now: Timestamp) {
    let present: BTreeSet<String> = images.iter().map(key).collect();
    records.retain(|key, _| present.contains(key));
    for image in images {
        let new = ImageRecord { first_detected: now, last_used: Timestamp::ZERO };
        let record = records.entry(key(image)).or_insert(new);
        if in_use.contains(&key(image)) {
            record.last_used = now;
        }
    }
}

/// The unused images in the order of removal: the least recently used first, then the first detected. Images in use and pinned
/// images are left out.
pub fn candidates(
    records: &ImageRecords,
    images: &[ImageStatus],
    in_use: &BTreeSet<String>,
) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = images
        .iter()
        .filter(|image| !image.pinned && !in_use.contains(&key(image)))
        .filter_map(|image| {
            let key = key(image);
            let record = *records.get(&key)?;
            Some(Candidate { id: image.id.clone(), key, size: image.size, record })
        })
        .collect();
    found.sort_by_key(|candidate| (candidate.record.last_used, candidate.record.first_detected));
    found
}

/// How much a file system is above its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub used_percent: u64,
    pub bytes: u64,
}

/// The bytes to free if the high threshold is exceeded.
pub fn shortage(capacity: u64, available: u64, policy: &ImageGcPolicy) -> Option<Shortage> {
    let (capacity, available) = (u128::from(capacity), u128::from(available.min(capacity)));
    let used = 100 - u64::try_from((available * 100).checked_div(capacity)?).unwrap_or(100);
    if used < policy.high_percent {
        return None;
    }
    let target = capacity * u128::from(100_u64.saturating_sub(policy.low_percent)) / 100;
    let bytes = u64::try_from(target.saturating_sub(available)).unwrap_or(u64::MAX);
    Some(Shortage { used_percent: used, bytes })
}

/// Event message when garbage collection did not free enough space.
pub fn still_short(shortage: Shortage, capacity: u64, freed: u64) -> String {
    format!(
        "Insufficient free disk space on the node's image filesystem ({}% of {} used). Failed to free sufficient space by deleting unused images (freed {freed} bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
        shortage.used_percent,
        size_text(capacity)
    )
}

#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
fn size_text(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// Registry, path and tag or digest, so that different spellings compare.
fn normal_name(reference: &str) -> Option<String> {
    let name = parse_image_name(reference).ok()?;
    Some(match (name.digest, name.tag) {
        (Some(digest), _) => format!("{}@{digest}", name.repository),
        (None, Some(tag)) => format!("{}:{tag}", name.repository),
        (None, None) => format!("{}:latest", name.repository),
    })
}

#[cfg(test)]
mod tests;
