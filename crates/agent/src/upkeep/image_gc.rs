//! Garbage collection of images: by age, by disk use, and on a reclaim order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use decide::images::image_gc::{
    Candidate, ImageGcPolicy, ImageRecord, ImageRecords, candidates, detect, images_in_use,
    normalize_handlers, shortage, still_short,
};
use model::{EventSubject, EventType, ImageSpec, ImageStatus, Pod, RecordedEvent, Timestamp};
use ports::clock::Clock;
use ports::host::checkpoints::Checkpoints;
use ports::host::filesystems::{DiskSpace, Filesystems};
use ports::runtime::Runtime;
use ports::served::event_recorder::EventRecorder;
use ports::telemetry::trace::TARGET;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use values::duration::GoDuration;

use crate::images::pull_ledger::PullLedger;
use crate::metrics::Metrics;
use crate::pipeline::messages::ReclaimOrder;
use crate::pipeline::observation::Observer;
use crate::pipeline::tables::Reader;
use crate::state_format::{IMAGE_USE, StateError};

const PERIOD: Duration = Duration::from_secs(300);
/// Time between two checks for the first relist.
const FIRST_RELIST_POLL: Duration = Duration::from_millis(500);

#[derive(Serialize, Deserialize)]
struct SavedRecords {
    version: u32,
    /// When each image was first detected and last used, in nanoseconds since 1970.
    images: BTreeMap<String, (i64, i64)>,
}

pub struct ImageGcDeps {
    pub runtime: Arc<dyn Runtime>,
    pub filesystems: Arc<dyn Filesystems>,
    pub observer: Observer,
    pub desired: Reader<Pod>,
    pub checkpoints: Arc<dyn Checkpoints>,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub node: String,
    pub ledger: Option<Arc<PullLedger>>,
    pub policy: ImageGcPolicy,
    pub orders: mpsc::Receiver<ReclaimOrder>,
}

/// Runs until cancelled.
pub async fn run(deps: ImageGcDeps, cancel: CancellationToken) {
    let is_off = deps.policy.is_off();
    let mut collector = Collector { records: load(&*deps.checkpoints).await, deps, failed_before: false };
    // Images in use are known only after the first relist.
    while !collector.deps.observer.has_listed() {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(FIRST_RELIST_POLL) => {}
        }
    }
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let order = tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => None,
            Some(order) = collector.deps.orders.recv() => Some(order),
        };
        match order {
            // The ages of images must be known before a reclaim order.
            None if is_off => drop(collector.update_records().await),
            None => {
                let collected = collector.collect().instrument(span()).await;
                collector.report(collected);
            }
            Some(order) => {
                if let Err(error) = collector.remove_unused().instrument(span()).await {
                    tracing::warn!(%error, "failed to remove all unused images");
                }
                // The sender may have timed out.
                let _ = order.done.send(());
            }
        }
        collector.save().await;
    }
}

/// Upstream's name.
fn span() -> tracing::Span {
    tracing::info_span!(target: TARGET, "Images/GarbageCollect")
}

struct Collector {
    deps: ImageGcDeps,
    records: ImageRecords,
    failed_before: bool,
}

impl Collector {
    /// Updates the records; returns the unused images.
    async fn update_records(&mut self) -> Result<Vec<Candidate>, String> {
        let now = self.deps.clock.now();
        let images = self.deps.runtime.list_images().await.map_err(|error| error.to_string())?;
        if let Some(ledger) = &self.deps.ledger {
            ledger.prune(&images, now).await;
        }
        let images = normalize_handlers(images, &self.deps.policy);
        let in_use = self.in_use(&images);
        detect(&mut self.records, &images, &in_use, now);
        Ok(candidates(&self.records, &images, &in_use))
    }

    /// Removes all unused images.
    async fn remove_unused(&mut self) -> Result<(), String> {
        let (unused, now) = (self.update_records().await?, self.deps.clock.now());
        let freed = self.free_space(&unused, i64::MAX.unsigned_abs(), now).await?;
        tracing::info!(bytes = freed, "removed unused images to free disk space");
        Ok(())
    }

    async fn collect(&mut self) -> Result<(), String> {
        let now = self.deps.clock.now();
        let candidates = self.update_records().await?;
        let rest = self.remove_old(candidates, now).await?;
        let space = self.space().await?;
        if space.capacity == 0 {
            let message = "invalid capacity 0 on image filesystem".to_owned();
            self.event("InvalidDiskCapacity", message.clone());
            return Err(message);
        }
        let Some(short) = shortage(space.capacity, space.available, &self.deps.policy) else {
            return Ok(());
        };
        tracing::info!(
            used_percent = short.used_percent,
            bytes = short.bytes,
            "image file system is above its threshold"
        );
        let freed = self.free_space(&rest, short.bytes, now).await?;
        if freed < short.bytes {
            let message = still_short(short, space.capacity, freed);
            self.event("FreeDiskSpaceFailed", message.clone());
            return Err(message);
        }
        Ok(())
    }

    fn in_use(&self, images: &[ImageStatus]) -> BTreeSet<String> {
        let (observed, desired) = (self.deps.observer.all(), self.deps.desired.all());
        let (observed, desired) = (observed.iter().map(AsRef::as_ref), desired.iter().map(AsRef::as_ref));
        images_in_use(images, observed, desired, &self.deps.policy)
    }

    /// Removes images above the maximum age; returns the others.
    async fn remove_old(
        &mut self,
        candidates: Vec<Candidate>,
        now: Timestamp,
    ) -> Result<Vec<Candidate>, String> {
        let policy = self.deps.policy;
        let (old, rest): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|candidate| candidate.is_too_old(&policy, now));
        let mut failures = Vec::new();
        for candidate in &old {
            if let Err(error) = self.remove(candidate, "age").await {
                failures.push(error);
            }
        }
        if failures.is_empty() {
            return Ok(rest);
        }
        let age = GoDuration::from(policy.max_age).truncated_to_millis();
        let failures = failures.join(", ");
        Err(format!(
            "wanted to free images older than {age}, encountered errors in image deletion: {failures}"
        ))
    }

    /// Removes images until enough bytes are freed; returns the freed bytes.
    async fn free_space(
        &mut self,
        rest: &[Candidate],
        bytes_to_free: u64,
        now: Timestamp,
    ) -> Result<u64, String> {
        let policy = self.deps.policy;
        let (mut freed, mut failures) = (0_u64, Vec::new());
        for candidate in rest.iter().filter(|candidate| candidate.may_be_removed_for_space(&policy, now)) {
            match self.remove(candidate, "space").await {
                Ok(()) => freed = freed.saturating_add(candidate.size),
                Err(error) => failures.push(error),
            }
            if freed >= bytes_to_free {
                break;
            }
        }
        if failures.is_empty() {
            return Ok(freed);
        }
        let failures = failures.join(", ");
        Err(format!(
            "wanted to free {bytes_to_free} bytes, but freed {freed} bytes space with errors in image deletion: {failures}"
        ))
    }

    async fn remove(&mut self, candidate: &Candidate, reason: &str) -> Result<(), String> {
        let spec = ImageSpec { image: candidate.id.clone(), ..ImageSpec::default() };
        self.deps.runtime.remove_image(&spec).await.map_err(|error| error.message)?;
        tracing::info!(image = %candidate.id, bytes = candidate.size, reason, "removed image");
        self.records.remove(&candidate.key);
        self.deps.metrics.images.removed.inc([reason]);
        Ok(())
    }

    async fn space(&self) -> Result<DiskSpace, String> {
        let filesystems = self.deps.runtime.image_filesystems().await.map_err(|error| error.to_string())?;
        let first = filesystems.images.first().ok_or("the runtime names no image filesystem")?;
        let space = self.deps.filesystems.space(&first.mount_point).await;
        space.map_err(|error| error.text())
    }

    /// Logs a first failure; the second in a row is an error and an event.
    fn report(&mut self, collected: Result<(), String>) {
        let Err(message) = collected else {
            self.failed_before = false;
            return;
        };
        if self.failed_before {
            tracing::error!(error = %message, "image garbage collection failed again");
            self.event("ImageGCFailed", message);
        } else {
            tracing::warn!(error = %message, "image garbage collection failed");
        }
        self.failed_before = true;
    }

    fn event(&self, reason: &str, message: String) {
        let (subject, now) = (EventSubject::Node(self.deps.node.clone()), self.deps.clock.now());
        self.deps.events.record(RecordedEvent::new(subject, EventType::Warning, reason, message, now));
    }

    async fn save(&self) {
        let times = |record: &ImageRecord| (record.first_detected.as_nanos(), record.last_used.as_nanos());
        let images = self.records.iter().map(|(id, record)| (id.clone(), times(record))).collect();
        // Cannot fail: all map keys are strings.
        let content =
            serde_json::to_vec(&SavedRecords { version: IMAGE_USE.version(), images }).unwrap_or_default();
        if let Err(error) = self.deps.checkpoints.save(IMAGE_USE.name, content).await {
            tracing::warn!(%error, source = %error.source, "failed to save image usage");
        }
    }
}

/// Loads the checkpoint; without it images seem younger than they are.
async fn load(checkpoints: &dyn Checkpoints) -> ImageRecords {
    match checkpoints.load(IMAGE_USE.name).await {
        Ok(None) => ImageRecords::new(),
        Ok(Some(content)) => parse(&content).unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to decode image usage, images seem new");
            ImageRecords::new()
        }),
        Err(error) => {
            tracing::warn!(%error, source = %error.source, "failed to load image usage");
            ImageRecords::new()
        }
    }
}

fn parse(content: &[u8]) -> Result<ImageRecords, StateError> {
    let saved: SavedRecords = IMAGE_USE.decode(content)?;
    let record = |(first_detected, last_used)| ImageRecord {
        first_detected: Timestamp::from_nanos(first_detected),
        last_used: Timestamp::from_nanos(last_used),
    };
    Ok(saved.images.into_iter().map(|(id, times)| (id, record(times))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_known_checkpoint_versions() {
        let text = br#"{"version": 1, "images": {"sha256:a": [5, 7]}}"#;
        let record = parse(text).unwrap()["sha256:a"];
        assert_eq!((record.first_detected.as_nanos(), record.last_used.as_nanos()), (5, 7));
        for bad in [r#"{"version": 2, "images": {}}"#, r#"{"version": 1, "images": {"a": [1]}}"#, "x"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
