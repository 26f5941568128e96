//! What is known of the pulls of this node, in memory and on disk: which images agents pulled, and who may use them.
//!
//! A pull is written down before it begins and again when it is done, so that an agent that is killed in between, or
//! another that takes over, never mistakes a pulled image for one that was always there.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use decide::image_access::{
    Access, Known, PulledRecord, Shown, Verification, access_by_credentials, access_without_credentials,
    file_name, permit_of, read_intent, without_tag, write_intent,
};
use model::{ImageStatus, RegistryCredential, Timestamp};
use ports::clock::Clock;
use ports::pod_folders::FileError;
use ports::pull_records::{PullRecordKind, PullRecords};
use ports::runtime::Images;
use tokio::sync::{Mutex, MutexGuard};

use crate::metrics::Metrics;

/// What the ledger needs.
pub struct Parts {
    /// Where it is kept.
    pub records: Arc<dyn PullRecords>,
    /// Which images are there.
    pub runtime: Arc<dyn Images>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Which images need credentials.
    pub policy: Verification,
}

/// The ledger. It is read from disk when it is first needed, by when the runtime answers.
pub struct PullLedger {
    parts: Parts,
    /// Memory and disk change in one step, so that the lock is held while a file is written.
    book: Mutex<Option<Book>>,
}

/// A pull under way. Whoever drops it without an outcome leaves the word on disk that a pull began.
pub struct Intent {
    image: String,
    held: Arc<()>,
}

#[derive(Default)]
struct Book {
    /// By the runtime's id of the image.
    pulled: BTreeMap<String, PulledRecord>,
    /// File names of records that say nothing.
    unreadable: BTreeSet<String>,
    /// Images that are being pulled, or whose pull was cut off, by file name.
    pulling: BTreeMap<String, Arc<()>>,
}

impl PullLedger {
    /// A ledger.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts, book: Mutex::default() }
    }

    /// Whether a pod may use an image that is present without asking the registry; `shown` is asked only where the
    /// pod's own credentials matter.
    pub async fn may_use(&self, image: &str, image_ref: &str, shown: impl Future<Output = Shown>) -> bool {
        let access = self.access(image, image_ref, shown).await;
        let (may, result) = match access {
            Access::ByPolicy => (true, "credentialPolicyAllowed"),
            Access::ByRecord | Access::Learn(_) => (true, "credentialRecordFound"),
            Access::MustPull => (false, "mustAuthenticate"),
            Access::Unclear => (false, "error"),
        };
        self.parts.metrics.images.credentials_checked(result);
        may
    }

    async fn access(&self, image: &str, image_ref: &str, shown: impl Future<Output = Shown>) -> Access {
        let record = {
            let book = match self.open().await {
                Ok(book) => book,
                Err(error) => {
                    tracing::error!(%error, source = %error.source, "records of pulls cannot be read");
                    return Access::Unclear;
                }
            };
            let Some(book) = book.as_ref() else { return Access::Unclear };
            let known = book.known(image, image_ref);
            if let Some(access) = access_without_credentials(&self.parts.policy, image, known) {
                return access;
            }
            match known {
                Known::Recorded(record) => record.clone(),
                Known::Nothing | Known::Pulled | Known::Unreadable => return Access::MustPull,
            }
        };
        let access = access_by_credentials(&record, image, &shown.await);
        if let Access::Learn(secret) = &access {
            let permit = decide::image_access::Permit { secrets: vec![secret.clone()], ..Default::default() };
            if let Err(error) = self.permit(image, image_ref, permit).await {
                tracing::warn!(image, %error, source = %error.source, "who may use the image was not written down");
            }
        }
        access
    }

    /// Writes down that a pull begins.
    ///
    /// # Errors
    /// When that could not be written: the image must not be pulled.
    pub async fn begin(&self, image: &str) -> Result<Intent, FileError> {
        let mut guard = self.open().await?;
        let name = file_name(image);
        let known = guard.as_ref().and_then(|book| book.pulling.get(&name).cloned());
        let held = match known {
            Some(held) => held,
            None => {
                self.parts.records.save(PullRecordKind::Pulling, name.clone(), write_intent(image)).await?;
                Arc::new(())
            }
        };
        if let Some(book) = guard.as_mut() {
            book.pulling.insert(name, Arc::clone(&held));
            self.count(book);
        }
        Ok(Intent { image: image.to_owned(), held })
    }

    /// Writes down that an image was pulled, and with what. A failure is logged and leaves the word that a pull began, so
    /// that the next pod has the registry asked.
    pub async fn pulled(&self, intent: Intent, image_ref: &str, used: Option<&RegistryCredential>) {
        match self.permit(&intent.image, image_ref, permit_of(used)).await {
            Ok(()) => self.end(intent).await,
            Err(error) => {
                tracing::error!(image = intent.image, %error, source = %error.source, "the pull was not written down");
            }
        }
    }

    /// The pull failed.
    pub async fn failed(&self, intent: Intent) {
        self.end(intent).await;
    }

    /// Forgets images that are gone and whose records are older than the list of those that are there.
    pub async fn prune(&self, images: &[ImageStatus], listed_at: Timestamp) {
        let Ok(mut guard) = self.open().await else { return };
        let Some(book) = guard.as_mut() else { return };
        let there: BTreeSet<&str> = images.iter().map(|image| image.id.as_str()).collect();
        let gone: Vec<String> = book
            .pulled
            .values()
            .filter(|record| record.updated < listed_at && !there.contains(record.image_ref.as_str()))
            .map(|record| record.image_ref.clone())
            .collect();
        for image_ref in gone {
            let removed = self.parts.records.remove(PullRecordKind::Pulled, file_name(&image_ref)).await;
            match removed {
                Ok(()) => drop(book.pulled.remove(&image_ref)),
                Err(error) => {
                    tracing::warn!(image = image_ref, %error, source = %error.source, "record of a pull not removed");
                }
            }
        }
        self.count(book);
    }

    async fn end(&self, intent: Intent) {
        let Ok(mut guard) = self.open().await else { return };
        let name = file_name(&intent.image);
        drop(intent.held);
        let Some(book) = guard.as_mut() else { return };
        // Another pull of the image may be under way.
        if book.pulling.get(&name).is_none_or(|held| Arc::strong_count(held) > 1) {
            return;
        }
        match self.parts.records.remove(PullRecordKind::Pulling, name.clone()).await {
            Ok(()) => drop(book.pulling.remove(&name)),
            Err(error) => {
                tracing::warn!(image = intent.image, %error, source = %error.source, "word of a pull not removed");
            }
        }
        self.count(book);
    }

    async fn permit(
        &self,
        image: &str,
        image_ref: &str,
        permit: decide::image_access::Permit,
    ) -> Result<(), FileError> {
        let Some(name) = without_tag(image) else { return Ok(()) };
        let mut guard = self.open().await?;
        let Some(book) = guard.as_mut() else { return Ok(()) };
        let now = self.parts.clock.now();
        let known = book.pulled.get(image_ref).cloned();
        let is_new = known.is_none();
        let mut record = known.unwrap_or_else(|| PulledRecord::new(image_ref, now));
        if record.permit(&name, permit, now) || is_new {
            self.write(book, record).await?;
        }
        Ok(())
    }

    async fn write(&self, book: &mut Book, record: PulledRecord) -> Result<(), FileError> {
        let name = file_name(&record.image_ref);
        self.parts.records.save(PullRecordKind::Pulled, name.clone(), record.write()).await?;
        book.unreadable.remove(&name);
        book.pulled.insert(record.image_ref.clone(), record);
        self.count(book);
        Ok(())
    }

    fn count(&self, book: &Book) {
        self.parts.metrics.images.records_kept(book.pulling.len(), book.pulled.len() + book.unreadable.len());
    }

    async fn open(&self) -> Result<MutexGuard<'_, Option<Book>>, FileError> {
        let mut guard = self.book.lock().await;
        if guard.is_none() {
            *guard = Some(self.load().await?);
        }
        Ok(guard)
    }

    async fn load(&self) -> Result<Book, FileError> {
        let mut book = Book::default();
        for (name, content) in self.parts.records.list(PullRecordKind::Pulled).await? {
            match PulledRecord::read(&content) {
                Ok(record) if file_name(&record.image_ref) == name => {
                    book.pulled.insert(record.image_ref.clone(), record);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(file = name, %error, "who may use an image is not known: the registry will be asked");
                    book.unreadable.insert(name);
                }
            }
        }
        let mut cut_off = Vec::new();
        for (name, content) in self.parts.records.list(PullRecordKind::Pulling).await? {
            cut_off.extend(read_intent(&content).ok());
            book.pulling.insert(name, Arc::new(()));
        }
        if !cut_off.is_empty() {
            self.settle(&mut book, &cut_off).await?;
        }
        self.count(&book);
        Ok(book)
    }

    /// Pulls of an agent that was killed: what they brought is there, and nobody knows with what.
    async fn settle(&self, book: &mut Book, cut_off: &[String]) -> Result<(), FileError> {
        let Ok(images) = self.parts.runtime.list_images().await else { return Ok(()) };
        let now = self.parts.clock.now();
        for image in cut_off {
            let is_it = |there: &&ImageStatus| {
                there.repo_tags.iter().chain(&there.repo_digests).any(|name| name == image)
            };
            let Some(there) = images.iter().find(is_it) else { continue };
            if !book.pulled.contains_key(&there.id) {
                self.write(book, PulledRecord::new(&there.id, now)).await?;
            }
            let name = file_name(image);
            self.parts.records.remove(PullRecordKind::Pulling, name.clone()).await?;
            book.pulling.remove(&name);
        }
        Ok(())
    }
}

impl Book {
    fn known(&self, image: &str, image_ref: &str) -> Known<'_> {
        if let Some(record) = self.pulled.get(image_ref) {
            return Known::Recorded(record);
        }
        if self.unreadable.contains(&file_name(image_ref)) {
            return Known::Unreadable;
        }
        if self.pulling.contains_key(&file_name(image)) { Known::Pulled } else { Known::Nothing }
    }
}

#[cfg(test)]
mod tests;
