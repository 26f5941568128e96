//! Removes images that nobody has used for long, or when the disk is full or somebody needs the room.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use decide::image_gc::{
    Candidate, ImageGcPolicy, ImageRecord, ImageRecords, candidates, detect, images_in_use, shortage,
    still_short, told_apart,
};
use model::{EventSubject, EventType, ImageSpec, ImageStatus, Pod, RecordedEvent, Timestamp};
use ports::checkpoints::Checkpoints;
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::filesystems::{DiskSpace, Filesystems};
use ports::runtime::Runtime;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::messages::ReclaimOrder;
use crate::metrics::Metrics;
use crate::observation::Observer;
use crate::published::Reader;
use crate::pull_ledger::PullLedger;

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(300);
/// Wait for the first list of what runs.
const NOT_LISTED: Duration = Duration::from_millis(500);
/// Name of the checkpoint.
const CHECKPOINT: &str = "image-use";
const VERSION: u64 = 1;

/// What the collector needs.
pub struct Parts {
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Room on disks.
    pub filesystems: Arc<dyn Filesystems>,
    /// What runs.
    pub observer: Observer,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// State that outlives the agent.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// The node's name.
    pub node: String,
    /// What is written down of pulls.
    pub ledger: Option<Arc<PullLedger>>,
    /// Limits.
    pub policy: ImageGcPolicy,
    /// Who needs the room.
    pub orders: mpsc::Receiver<ReclaimOrder>,
}

/// Runs until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    let is_off = parts.policy.is_off();
    let mut collector = Collector { records: load(&*parts.checkpoints).await, parts, failed_before: false };
    // An image is in use as far as we know what runs.
    while !collector.parts.observer.has_listed() {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(NOT_LISTED) => {}
        }
    }
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let order = tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => None,
            Some(order) = collector.parts.orders.recv() => Some(order),
        };
        match order {
            // How old images are must be known when somebody needs the room.
            None if is_off => drop(collector.look().await),
            None => {
                let collected = collector.collect().await;
                collector.tell(collected);
            }
            Some(order) => {
                if let Err(error) = collector.give_up().await {
                    tracing::warn!(%error, "not all unused images could be given up");
                }
                // Who asked may have lost patience.
                let _ = order.done.send(());
            }
        }
        collector.save().await;
    }
}

struct Collector {
    parts: Parts,
    records: ImageRecords,
    failed_before: bool,
}

impl Collector {
    /// Notes what is there and in use; returns what is not.
    async fn look(&mut self) -> Result<Vec<Candidate>, String> {
        let now = self.parts.clock.now();
        let images = self.parts.runtime.list_images().await.map_err(|error| error.to_string())?;
        if let Some(ledger) = &self.parts.ledger {
            ledger.prune(&images, now).await;
        }
        let images = told_apart(images, &self.parts.policy);
        let in_use = self.in_use(&images);
        detect(&mut self.records, &images, &in_use, now);
        Ok(candidates(&self.records, &images, &in_use))
    }

    /// Removes all that nobody uses.
    async fn give_up(&mut self) -> Result<(), String> {
        let (unused, now) = (self.look().await?, self.parts.clock.now());
        let freed = self.make_room(&unused, i64::MAX.unsigned_abs(), now).await?;
        tracing::info!(bytes = freed, "unused images were given up to make room");
        Ok(())
    }

    async fn collect(&mut self) -> Result<(), String> {
        let now = self.parts.clock.now();
        let candidates = self.look().await?;
        let rest = self.remove_old(candidates, now).await?;
        let space = self.space().await?;
        if space.capacity == 0 {
            let message = "invalid capacity 0 on image filesystem".to_owned();
            self.event("InvalidDiskCapacity", message.clone());
            return Err(message);
        }
        let Some(short) = shortage(space.capacity, space.available, &self.parts.policy) else {
            return Ok(());
        };
        tracing::info!(used_percent = short.used_percent, bytes = short.bytes, "the image disk is too full");
        let freed = self.make_room(&rest, short.bytes, now).await?;
        if freed < short.bytes {
            let message = still_short(short, space.capacity, freed);
            self.event("FreeDiskSpaceFailed", message.clone());
            return Err(message);
        }
        Ok(())
    }

    fn in_use(&self, images: &[ImageStatus]) -> BTreeSet<String> {
        let (observed, wanted) = (self.parts.observer.all(), self.parts.desired.all());
        let (observed, wanted) = (observed.iter().map(|pod| &**pod), wanted.iter().map(|pod| &**pod));
        images_in_use(images, observed, wanted, &self.parts.policy)
    }

    /// Removes what is too old and returns the rest.
    async fn remove_old(
        &mut self,
        candidates: Vec<Candidate>,
        now: Timestamp,
    ) -> Result<Vec<Candidate>, String> {
        let policy = self.parts.policy;
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
        let age = decide::go_duration::to_milliseconds_text(policy.max_age);
        let failures = failures.join(", ");
        Err(format!(
            "wanted to free images older than {age}, encountered errors in image deletion: {failures}"
        ))
    }

    /// Removes images until that much is free; returns what was freed.
    async fn make_room(&mut self, rest: &[Candidate], wanted: u64, now: Timestamp) -> Result<u64, String> {
        let policy = self.parts.policy;
        let (mut freed, mut failures) = (0_u64, Vec::new());
        for candidate in rest.iter().filter(|candidate| candidate.may_make_room(&policy, now)) {
            match self.remove(candidate, "space").await {
                Ok(()) => freed = freed.saturating_add(candidate.size),
                Err(error) => failures.push(error),
            }
            if freed >= wanted {
                break;
            }
        }
        if failures.is_empty() {
            return Ok(freed);
        }
        let failures = failures.join(", ");
        Err(format!(
            "wanted to free {wanted} bytes, but freed {freed} bytes space with errors in image deletion: {failures}"
        ))
    }

    async fn remove(&mut self, candidate: &Candidate, reason: &str) -> Result<(), String> {
        let spec = ImageSpec { image: candidate.id.clone(), ..ImageSpec::default() };
        self.parts.runtime.remove_image(&spec).await.map_err(|error| error.message)?;
        tracing::info!(image = %candidate.id, bytes = candidate.size, reason, "image removed");
        self.records.remove(&candidate.key);
        self.parts.metrics.images.removed(reason);
        Ok(())
    }

    async fn space(&self) -> Result<DiskSpace, String> {
        let told = self.parts.runtime.image_filesystems().await.map_err(|error| error.to_string())?;
        let first = told.images.first().ok_or("the runtime names no image filesystem")?;
        let space = self.parts.filesystems.space(&first.mount_point).await;
        space.map_err(|error| format!("{error}: {}", error.source))
    }

    /// One failure may be a bad start; the second in a row is for everybody to see.
    fn tell(&mut self, collected: Result<(), String>) {
        let Err(message) = collected else {
            self.failed_before = false;
            return;
        };
        if self.failed_before {
            tracing::error!(error = %message, "images could not be collected again");
            self.event("ImageGCFailed", message);
        } else {
            tracing::warn!(error = %message, "images could not be collected");
        }
        self.failed_before = true;
    }

    fn event(&self, reason: &str, message: String) {
        self.parts.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::Node(self.parts.node.clone()),
            kind: EventType::Warning,
            reason: reason.to_owned(),
            message,
            at: self.parts.clock.now(),
        });
    }

    async fn save(&self) {
        let images: serde_json::Map<String, Value> = self
            .records
            .iter()
            .map(|(id, record)| {
                (id.clone(), json!([record.first_detected.as_nanos(), record.last_used.as_nanos()]))
            })
            .collect();
        let content = json!({"version": VERSION, "images": images}).to_string().into_bytes();
        if let Err(error) = self.parts.checkpoints.save(CHECKPOINT, content).await {
            tracing::warn!(%error, source = %error.source, "the use of images is not kept");
        }
    }
}

/// What an earlier agent remembered; nothing when it cannot be read, which makes images seem younger than they are.
async fn load(checkpoints: &dyn Checkpoints) -> ImageRecords {
    match checkpoints.load(CHECKPOINT).await {
        Ok(content) => content.and_then(|content| parse(&content)).unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, source = %error.source, "the use of images is not known");
            ImageRecords::new()
        }
    }
}

fn parse(content: &[u8]) -> Option<ImageRecords> {
    let value: Value = serde_json::from_slice(content).ok()?;
    if value.get("version")?.as_u64()? != VERSION {
        return None;
    }
    let record = |(id, times): (&String, &Value)| {
        let time = |index: usize| Some(Timestamp::from_nanos(times.get(index)?.as_i64()?));
        Some((id.clone(), ImageRecord { first_detected: time(0)?, last_used: time(1)? }))
    };
    value.get("images")?.as_object()?.iter().map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_form_of_the_memory_is_read() {
        let text = br#"{"version": 1, "images": {"sha256:a": [5, 7]}}"#;
        let record = parse(text).unwrap()["sha256:a"];
        assert_eq!((record.first_detected.as_nanos(), record.last_used.as_nanos()), (5, 7));
        for bad in [r#"{"version": 2, "images": {}}"#, r#"{"version": 1, "images": {"a": [1]}}"#, "x"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
