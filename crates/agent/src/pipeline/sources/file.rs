//! Pods from a folder of manifest files, or from one file.
//!
//! The folder is read again when something in it may have changed and at least every `fileCheckFrequency`. A file is
//! parsed only when its content changed. An invalid file is reported with line and reason, and the last valid version of
//! its pods and objects stays in use until the file is corrected or removed.

mod folder;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use manifest::ManifestLocation;
use model::local_api::{FileReport, FileState};
use model::{ConfigObject, Pod, PodSource, Snapshot, SnapshotKind, Timestamp, labels};
use ports::clock::Clock;
use ports::host::folder_watch::FolderWatch;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::ManifestReader;
use crate::cluster::objects::LocalObjects;
use crate::metrics::Metrics;
use crate::pipeline::source_report::SourceReports;
use folder::{FoundFile, Listing};

pub struct FileSourceDeps {
    /// `staticPodPath`.
    pub path: PathBuf,
    /// `fileCheckFrequency`.
    pub check_frequency: Duration,
    pub reader: ManifestReader,
    pub watch: Arc<dyn FolderWatch>,
    pub snapshots: mpsc::Sender<Snapshot>,
    pub objects: Arc<LocalObjects>,
    pub reports: watch::Sender<Vec<FileReport>>,
    pub report: Arc<SourceReports>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

/// Runs until cancelled.
pub async fn run(deps: FileSourceDeps, cancel: CancellationToken) {
    let mut hints = deps.watch.watch(&deps.path);
    let mut source = FileSource {
        deps,
        files: BTreeMap::new(),
        hashes: RandomState::new(),
        missing_reported: false,
        reported_duplicates: BTreeSet::new(),
    };
    loop {
        if !source.refresh().await {
            return;
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(source.deps.check_frequency) => {}
            hint = hints.next() => match hint {
                Some(Ok(())) => {}
                Some(Err(error)) => tracing::warn!(path = %source.deps.path.display(), %error, "failed to watch manifests, relying on the periodic check"),
                None => {
                    // The watch has ended: only the periodic check remains.
                    tokio::time::sleep(source.deps.check_frequency).await;
                }
            },
        }
    }
}

/// Digest of a file's content, kept instead of the content, which may be large.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Digest {
    length: usize,
    hash: u64,
}

struct ManifestFile {
    /// `None` for a file that could not be read.
    digest: Option<Digest>,
    pods: Vec<Arc<Pod>>,
    objects: Vec<Arc<ConfigObject>>,
    report: FileReport,
}

struct FileSource {
    deps: FileSourceDeps,
    files: BTreeMap<PathBuf, ManifestFile>,
    /// Randomly keyed, so that no colliding files can be constructed.
    hashes: RandomState,
    missing_reported: bool,
    /// Messages about objects that are in two files.
    reported_duplicates: BTreeSet<String>,
}

impl FileSource {
    /// Reads the folder and sends a snapshot; returns false when the receiver has ended.
    async fn refresh(&mut self) -> bool {
        let path = self.deps.path.clone();
        let listing = tokio::task::spawn_blocking(move || folder::list(&path)).await;
        match listing {
            Ok(Ok(listing)) => self.apply_listing(listing),
            Ok(Err(error)) => {
                // It is unknown whether the files still exist, so nothing changes.
                tracing::error!(path = %self.deps.path.display(), %error, "failed to read manifests, keeping the pods as they are");
                self.deps.report.record_failure(PodSource::File, error.to_string());
                return true;
            }
            Err(error) => {
                tracing::error!(%error, "task that reads manifests panicked");
                return true;
            }
        }
        // Objects first, so that the pods find them.
        let objects = self.objects();
        self.deps.objects.set(PodSource::File, objects);
        self.publish();
        let pods: Vec<_> = self.files.values().flat_map(|file| file.pods.iter().cloned()).collect();
        if self.missing_reported {
            self.deps.report.record_failure(PodSource::File, "does not exist yet".to_owned());
        } else {
            self.deps.report.record_success(PodSource::File, pods.len());
        }
        let snapshot = Snapshot { source: PodSource::File, kind: SnapshotKind::Set, pods };
        self.deps.snapshots.send(snapshot).await.is_ok()
    }

    fn apply_listing(&mut self, listing: Listing) {
        let found = match listing {
            Listing::Missing => {
                if !std::mem::replace(&mut self.missing_reported, true) {
                    tracing::info!(path = %self.deps.path.display(), "manifest path does not exist yet, waiting for it");
                }
                self.files.clear();
                return;
            }
            Listing::Files(found) => found,
        };
        self.missing_reported = false;
        self.files.retain(|path, _| found.iter().any(|file| file.path == *path));
        for file in found {
            match file {
                FoundFile { path, content: Ok(content) } => self.apply_content(path, &content),
                FoundFile { path, content: Err(reason) } => {
                    self.keep_last_good_version(path, None, vec![reason]);
                }
            }
        }
    }

    fn apply_content(&mut self, path: PathBuf, content: &[u8]) {
        let digest = Digest { length: content.len(), hash: self.hashes.hash_one(content) };
        let last_digest = self.files.get(&path).and_then(|file| file.digest);
        if last_digest == Some(digest) && !content.is_empty() {
            return;
        }
        let location = path.to_string_lossy().into_owned();
        let reading = self.deps.reader.read(content, ManifestLocation::File(&location)).and_then(|reading| {
            let earlier = self.files.get(&path).map_or(&[][..], |file| &file.objects);
            let forbidden = reading.forbidden_changes(earlier);
            if forbidden.is_empty() { Ok(reading) } else { Err(forbidden) }
        });
        match reading {
            Ok(reading) => {
                for warning in &reading.warnings {
                    tracing::warn!(file = %path.display(), "{warning}");
                }
                let pods: Vec<_> =
                    reading.pods.into_iter().map(|pod| self.with_local_annotations(pod)).collect();
                let report = FileReport {
                    warnings: reading.warnings,
                    ..report(&path, FileState::Accepted, (&pods, &reading.objects), self.deps.clock.now())
                };
                let file = ManifestFile { digest: Some(digest), pods, objects: reading.objects, report };
                self.files.insert(path, file);
            }
            Err(problems) => self.keep_last_good_version(path, Some(digest), problems),
        }
    }

    /// Adds the local annotations here, so that the merge shares the pod instead of copying it.
    fn with_local_annotations(&self, mut pod: Arc<Pod>) -> Arc<Pod> {
        let annotations = Arc::make_mut(&mut pod).metadata.annotations.get_or_insert_default();
        annotations.insert(labels::CONFIG_SOURCE.to_owned(), PodSource::File.as_str().to_owned());
        annotations.insert(labels::CONFIG_SEEN.to_owned(), self.deps.clock.now().to_rfc3339());
        pod
    }

    /// Keeps the last valid pods and objects of a file that became invalid.
    fn keep_last_good_version(&mut self, path: PathBuf, digest: Option<Digest>, problems: Vec<String>) {
        let last = self.files.remove(&path);
        let is_reported = last.as_ref().is_some_and(|last| last.report.problems == problems);
        let since = match &last {
            Some(last) if is_reported => last.report.since,
            Some(_) | None => self.deps.clock.now(),
        };
        let (pods, objects) = last.map(|last| (last.pods, last.objects)).unwrap_or_default();
        let has_good_version = !pods.is_empty() || !objects.is_empty();
        if !is_reported {
            self.deps.metrics.sources.manifest_errors.inc();
            let suffix = if has_good_version { "; the last good version stays in use" } else { "" };
            for problem in &problems {
                tracing::error!(file = %path.display(), "{problem}{suffix}");
            }
        }
        let state = if has_good_version { FileState::LastGoodVersion } else { FileState::Rejected };
        let report = FileReport { problems, ..report(&path, state, (&pods, &objects), since) };
        self.files.insert(path, ManifestFile { digest, pods, objects, report });
    }

    /// The objects of all files. An object that is in two files is taken from the first one.
    fn objects(&mut self) -> Vec<Arc<ConfigObject>> {
        let mut unique = BTreeMap::new();
        let mut duplicates = BTreeSet::new();
        for (path, object) in
            self.files.iter().flat_map(|(path, file)| file.objects.iter().map(move |object| (path, object)))
        {
            if let Some((first, _)) = unique.get(&object.key) {
                let first: &&PathBuf = first;
                let text = format!(
                    "{} in {} is ignored: {} has one too",
                    object.key,
                    path.display(),
                    first.display()
                );
                if !self.reported_duplicates.contains(&text) {
                    tracing::warn!("{text}");
                }
                duplicates.insert(text);
            } else {
                unique.insert(&object.key, (path, object));
            }
        }
        let objects = unique.into_values().map(|(_, object)| Arc::clone(object)).collect();
        self.reported_duplicates = duplicates;
        objects
    }

    fn publish(&self) {
        let reports: Vec<FileReport> = self.files.values().map(|file| file.report.clone()).collect();
        for state in [FileState::Accepted, FileState::Rejected, FileState::LastGoodVersion] {
            let count = reports.iter().filter(|report| report.state == state).count();
            self.deps.metrics.sources.manifest_files.get([state.as_str()]).set_count(count);
        }
        self.deps.reports.send_if_modified(|current| {
            let changed = *current != reports;
            if changed {
                *current = reports;
            }
            changed
        });
    }
}

/// A report without problems and warnings.
fn report(
    path: &Path,
    state: FileState,
    (pods, objects): (&[Arc<Pod>], &[Arc<ConfigObject>]),
    since: Timestamp,
) -> FileReport {
    FileReport {
        path: path.to_owned(),
        state,
        problems: Vec::new(),
        warnings: Vec::new(),
        pods: pods.iter().map(|pod| pod.full_name.to_string()).collect(),
        objects: objects.iter().map(|object| object.key.to_string()).collect(),
        since,
    }
}

/// Whether a path may be a manifest: hidden files and temporary files of editors are not.
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
