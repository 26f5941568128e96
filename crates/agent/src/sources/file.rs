//! Pods from a folder of manifest files, or from one file.
//!
//! The folder is read again when something in it may have changed and at least each `fileCheckFrequency`. A file
//! is parsed only when its content changed. A bad file is reported with line and reason, and the last good
//! version of its pods and objects stays wanted until the file is mended or removed.

mod folder;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use manifest::Place;
use model::{ConfigObject, Pod, PodSource, Snapshot, SnapshotKind, labels};
use ports::clock::Clock;
use ports::folder_watch::FolderWatch;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::ManifestReader;
use crate::file_report::{FileReport, FileState};
use crate::metrics::Metrics;
use crate::objects::LocalObjects;
use crate::source_report::SourceReports;
use folder::{FoundFile, Listing};

/// What the source needs.
pub struct Parts {
    /// `staticPodPath`.
    pub path: PathBuf,
    /// `fileCheckFrequency`.
    pub check_frequency: Duration,
    /// Reads manifests.
    pub reader: ManifestReader,
    /// Tells of changes.
    pub watch: Arc<dyn FolderWatch>,
    /// Where snapshots go.
    pub snapshots: mpsc::Sender<Snapshot>,
    /// Where ConfigMaps and Secrets go.
    pub objects: Arc<LocalObjects>,
    /// The state of every file, for whoever asks.
    pub reports: watch::Sender<Vec<FileReport>>,
    /// How the source is, for whoever asks.
    pub report: Arc<SourceReports>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// Runs until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    let mut hints = parts.watch.watch(&parts.path);
    let mut source = FileSource {
        parts,
        files: BTreeMap::new(),
        hashes: RandomState::new(),
        missing_told: false,
        told_twice: BTreeSet::new(),
    };
    loop {
        if !source.refresh().await {
            return;
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(source.parts.check_frequency) => {}
            hint = hints.next() => match hint {
                Some(Ok(())) => {}
                Some(Err(error)) => tracing::warn!(path = %source.parts.path.display(), %error, "changes of manifests are not noticed at once; relying on the periodic check"),
                None => {
                    // Without hints the period remains.
                    tokio::time::sleep(source.parts.check_frequency).await;
                }
            },
        }
    }
}

/// Stands for the content of a file: manifests of many pods are large, and nobody reads them twice.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Digest {
    length: usize,
    hash: u64,
}

/// What is known of one file.
struct KnownFile {
    /// Of its content; `None` for one that could not be read.
    digest: Option<Digest>,
    pods: Vec<Arc<Pod>>,
    objects: Vec<Arc<ConfigObject>>,
    report: FileReport,
}

struct FileSource {
    parts: Parts,
    files: BTreeMap<PathBuf, KnownFile>,
    /// Keyed by chance, so that no two files can be made that pass for each other.
    hashes: RandomState,
    missing_told: bool,
    /// Objects of which two files have one, as they were told.
    told_twice: BTreeSet<String>,
}

impl FileSource {
    /// Reads the folder and sends what it wants; false when nobody listens any more.
    async fn refresh(&mut self) -> bool {
        let path = self.parts.path.clone();
        let listing = tokio::task::spawn_blocking(move || folder::list(&path)).await;
        match listing {
            Ok(Ok(listing)) => self.take(listing),
            Ok(Err(error)) => {
                // Whether the files are gone cannot be told, so nothing changes.
                tracing::error!(path = %self.parts.path.display(), %error, "manifests cannot be read; keeping the pods as they are");
                self.parts.report.failing(PodSource::File, error.to_string());
                return true;
            }
            Err(error) => {
                tracing::error!(%error, "reading manifests broke off");
                return true;
            }
        }
        // Objects first, so that the pods find them.
        let objects = self.objects();
        self.parts.objects.set(PodSource::File, objects);
        self.publish();
        let pods: Vec<_> = self.files.values().flat_map(|file| file.pods.iter().cloned()).collect();
        if self.missing_told {
            self.parts.report.failing(PodSource::File, "does not exist yet".to_owned());
        } else {
            self.parts.report.good(PodSource::File, pods.len());
        }
        let snapshot = Snapshot { source: PodSource::File, kind: SnapshotKind::Set, pods };
        self.parts.snapshots.send(snapshot).await.is_ok()
    }

    fn take(&mut self, listing: Listing) {
        let found = match listing {
            Listing::Missing => {
                if !std::mem::replace(&mut self.missing_told, true) {
                    tracing::info!(path = %self.parts.path.display(), "the manifest path does not exist yet; waiting for it");
                }
                self.files.clear();
                return;
            }
            Listing::Files(found) => found,
        };
        self.missing_told = false;
        self.files.retain(|path, _| found.iter().any(|file| file.path == *path));
        for file in found {
            match file {
                FoundFile { path, content: Ok(content) } => self.take_content(path, &content),
                FoundFile { path, content: Err(reason) } => self.take_problem(path, None, vec![reason]),
            }
        }
    }

    fn take_content(&mut self, path: PathBuf, content: &[u8]) {
        let digest = Digest { length: content.len(), hash: self.hashes.hash_one(content) };
        let known = self.files.get(&path).and_then(|known| known.digest);
        if known == Some(digest) && !content.is_empty() {
            return;
        }
        let place = path.to_string_lossy().into_owned();
        let reading = self.parts.reader.read(content, Place::File(&place)).and_then(|reading| {
            let earlier = self.files.get(&path).map_or(&[][..], |known| &known.objects);
            let forbidden = reading.forbidden_changes(earlier);
            if forbidden.is_empty() { Ok(reading) } else { Err(forbidden) }
        });
        match reading {
            Ok(reading) => {
                for warning in &reading.warnings {
                    tracing::warn!(file = %path.display(), "{warning}");
                }
                let pods: Vec<_> = reading.pods.into_iter().map(|pod| self.marked(pod)).collect();
                let names = pods.iter().map(|pod| pod.full_name.to_string()).collect();
                let report = FileReport {
                    path: path.clone(),
                    state: FileState::Accepted,
                    problems: Vec::new(),
                    warnings: reading.warnings,
                    pods: names,
                    objects: names_of(&reading.objects),
                    since: self.parts.clock.now(),
                };
                let known = KnownFile { digest: Some(digest), pods, objects: reading.objects, report };
                self.files.insert(path, known);
            }
            Err(problems) => self.take_problem(path, Some(digest), problems),
        }
    }

    /// Adds the local annotations here, so that the merge shares the pod instead of copying it.
    fn marked(&self, mut pod: Arc<Pod>) -> Arc<Pod> {
        let annotations = Arc::make_mut(&mut pod).metadata.annotations.get_or_insert_default();
        annotations.insert(labels::CONFIG_SOURCE.to_owned(), PodSource::File.as_str().to_owned());
        annotations.insert(labels::CONFIG_SEEN.to_owned(), self.parts.clock.now().to_rfc3339());
        pod
    }

    /// Keeps the last good pods of a file that turned bad.
    fn take_problem(&mut self, path: PathBuf, digest: Option<Digest>, problems: Vec<String>) {
        let known = self.files.remove(&path);
        let told = known.as_ref().is_some_and(|known| known.report.problems == problems);
        let since = match &known {
            Some(known) if told => known.report.since,
            Some(_) | None => self.parts.clock.now(),
        };
        let (pods, objects) = known.map(|known| (known.pods, known.objects)).unwrap_or_default();
        let has_good_version = !pods.is_empty() || !objects.is_empty();
        if !told {
            self.parts.metrics.sources.manifest_errors.inc();
            let kept = if has_good_version { "; the last good version stays in use" } else { "" };
            for problem in &problems {
                tracing::error!(file = %path.display(), "{problem}{kept}");
            }
        }
        let report = FileReport {
            path: path.clone(),
            state: if has_good_version { FileState::LastGoodVersion } else { FileState::Rejected },
            problems,
            warnings: Vec::new(),
            pods: pods.iter().map(|pod| pod.full_name.to_string()).collect(),
            objects: names_of(&objects),
            since,
        };
        self.files.insert(path, KnownFile { digest, pods, objects, report });
    }

    /// The objects of all files; of those that two files have, the first file's.
    fn objects(&mut self) -> Vec<Arc<ConfigObject>> {
        let mut known = BTreeMap::new();
        let mut twice = BTreeSet::new();
        for (path, object) in
            self.files.iter().flat_map(|(path, file)| file.objects.iter().map(move |object| (path, object)))
        {
            if let Some((first, _)) = known.get(&object.key) {
                let first: &&PathBuf = first;
                let text = format!(
                    "{} in {} is ignored: {} has one too",
                    object.key,
                    path.display(),
                    first.display()
                );
                if !self.told_twice.contains(&text) {
                    tracing::warn!("{text}");
                }
                twice.insert(text);
            } else {
                known.insert(&object.key, (path, object));
            }
        }
        let objects = known.into_values().map(|(_, object)| Arc::clone(object)).collect();
        self.told_twice = twice;
        objects
    }

    fn publish(&self) {
        let reports: Vec<FileReport> = self.files.values().map(|file| file.report.clone()).collect();
        for state in [FileState::Accepted, FileState::Rejected, FileState::LastGoodVersion] {
            let count = reports.iter().filter(|report| report.state == state).count();
            self.parts.metrics.sources.manifests(state.as_str(), count);
        }
        self.parts.reports.send_if_modified(|current| {
            let changed = *current != reports;
            if changed {
                *current = reports;
            }
            changed
        });
    }
}

fn names_of(objects: &[Arc<ConfigObject>]) -> Vec<String> {
    objects.iter().map(|object| object.key.to_string()).collect()
}

/// Whether a path may hold a manifest: hidden files and what editors leave behind do not.
#[must_use]
pub fn is_manifest_name(path: &Path) -> bool {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy()) else {
        return false;
    };
    let leftovers = [".swp", ".swo", ".swx", ".bak", ".tmp", ".orig"];
    let lower = name.to_lowercase();
    let emacs = name.starts_with('#') && name.ends_with('#');
    !(name.starts_with('.')
        || name.ends_with('~')
        || emacs
        || leftovers.iter().any(|end| lower.ends_with(end)))
}

#[cfg(test)]
mod tests;
