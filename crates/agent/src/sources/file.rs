//! Pods from a folder of manifest files, or from one file.
//!
//! The folder is read again when something in it may have changed and at least each `fileCheckFrequency`. A file
//! is parsed only when its content changed. A bad file is reported with line and reason, and the last good
//! version of its pods stays wanted until the file is mended or removed.

mod folder;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use manifest::Place;
use model::{Pod, PodSource, Snapshot, SnapshotKind, labels};
use ports::clock::Clock;
use ports::folder_watch::FolderWatch;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::ManifestReader;
use crate::file_report::{FileReport, FileState};
use crate::metrics::Metrics;
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
    /// The state of every file, for whoever asks.
    pub reports: watch::Sender<Vec<FileReport>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// Runs until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    let mut hints = parts.watch.watch(&parts.path);
    let mut source = FileSource { parts, files: BTreeMap::new(), missing_told: false };
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

/// What is known of one file.
struct KnownFile {
    content: Vec<u8>,
    pods: Vec<Arc<Pod>>,
    report: FileReport,
}

struct FileSource {
    parts: Parts,
    files: BTreeMap<PathBuf, KnownFile>,
    missing_told: bool,
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
                return true;
            }
            Err(error) => {
                tracing::error!(%error, "reading manifests broke off");
                return true;
            }
        }
        self.publish();
        let pods = self.files.values().flat_map(|file| file.pods.iter().cloned()).collect();
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
                FoundFile { path, content: Ok(content) } => self.take_content(path, content),
                FoundFile { path, content: Err(reason) } => self.take_problem(path, Vec::new(), vec![reason]),
            }
        }
    }

    fn take_content(&mut self, path: PathBuf, content: Vec<u8>) {
        if self.files.get(&path).is_some_and(|known| known.content == content && !content.is_empty()) {
            return;
        }
        let place = path.to_string_lossy().into_owned();
        match self.parts.reader.read(&content, Place::File(&place)) {
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
                    since: self.parts.clock.now(),
                };
                self.files.insert(path, KnownFile { content, pods, report });
            }
            Err(problems) => self.take_problem(path, content, problems),
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
    fn take_problem(&mut self, path: PathBuf, content: Vec<u8>, problems: Vec<String>) {
        let known = self.files.remove(&path);
        let told = known.as_ref().is_some_and(|known| known.report.problems == problems);
        let since = match &known {
            Some(known) if told => known.report.since,
            Some(_) | None => self.parts.clock.now(),
        };
        let pods = known.map(|known| known.pods).unwrap_or_default();
        if !told {
            self.parts.metrics.manifest_errors.inc();
            let kept = if pods.is_empty() { "" } else { "; the last good version keeps running" };
            for problem in &problems {
                tracing::error!(file = %path.display(), "{problem}{kept}");
            }
        }
        let report = FileReport {
            path: path.clone(),
            state: if pods.is_empty() { FileState::Rejected } else { FileState::LastGoodVersion },
            problems,
            warnings: Vec::new(),
            pods: pods.iter().map(|pod| pod.full_name.to_string()).collect(),
            since,
        };
        self.files.insert(path, KnownFile { content, pods, report });
    }

    fn publish(&self) {
        let reports: Vec<FileReport> = self.files.values().map(|file| file.report.clone()).collect();
        for state in [FileState::Accepted, FileState::Rejected, FileState::LastGoodVersion] {
            let count = reports.iter().filter(|report| report.state == state).count();
            self.parts.metrics.manifests(state.as_str(), count);
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
