//! The collector of images on a fake runtime and a disk of any size.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::event_log::EventLog;
use agent::image_gc::{Parts, run};
use agent::metrics::{Format, Metrics};
use agent::observation::observations;
use agent::published::table;
use async_trait::async_trait;
use cri::{CriClient, DEFAULT_REQUEST_TIMEOUT};
use decide::image_gc::ImageGcPolicy;
use model::Pod;
use ports::checkpoints::Checkpoints;
use ports::clock::SystemClock;
use ports::filesystems::{DiskSpace, Filesystems};
use ports::pod_folders::FileError;
use testkit::fake_runtime::{FakeRuntime, Fault, Injection, Rpc, tokio_clock};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Code;

/// A disk of a size that the test gives it.
#[derive(Default)]
struct Disk(Mutex<DiskSpace>);

impl Disk {
    fn set(&self, capacity: u64, available: u64) {
        *self.0.lock().unwrap() = DiskSpace { capacity, available };
    }
}

#[async_trait]
impl Filesystems for Disk {
    async fn space(&self, _: &Path) -> Result<DiskSpace, FileError> {
        Ok(*self.0.lock().unwrap())
    }
}

/// Nothing outlives the agent.
struct Forgetful;

#[async_trait]
impl Checkpoints for Forgetful {
    async fn load(&self, _: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        Ok(None)
    }
    async fn save(&self, _: &'static str, _: Vec<u8>) -> Result<(), FileError> {
        Ok(())
    }
    async fn save_unflushed(&self, _: &'static str, _: Vec<u8>) -> Result<(), FileError> {
        Ok(())
    }
}

struct Collector {
    runtime: FakeRuntime,
    disk: Arc<Disk>,
    events: Arc<EventLog>,
    metrics: Arc<Metrics>,
    stages: JoinSet<()>,
}

/// A collector at work, whose node has two images that nobody uses.
fn collector(max_age: Duration) -> Collector {
    let runtime = FakeRuntime::start_in_memory(tokio_clock(1_000)).unwrap();
    runtime.add_image("one:1");
    runtime.add_image("two:1");
    let channel = runtime.channel();
    let client = CriClient::from_channels(channel.clone(), channel, DEFAULT_REQUEST_TIMEOUT);
    let (observed, observer) = observations(Vec::new());
    observed.floor.send_replace(observed.moments.next());
    let (_, desired) = table::<Pod>(Vec::new());
    let (disk, events, metrics) =
        (Arc::<Disk>::default(), Arc::new(EventLog::new(100)), Arc::new(Metrics::new()));
    disk.set(1000, 500);
    let (_, orders) = tokio::sync::mpsc::channel(1);
    let parts = Parts {
        orders,
        runtime: Arc::new(client),
        filesystems: disk.clone(),
        observer,
        desired,
        checkpoints: Arc::new(Forgetful),
        events: events.clone(),
        clock: Arc::new(SystemClock),
        metrics: metrics.clone(),
        node: "node-a".to_owned(),
        ledger: None,
        policy: ImageGcPolicy {
            high_percent: 80,
            low_percent: 60,
            min_age: Duration::ZERO,
            max_age,
            by_handler: false,
        },
    };
    let mut stages = JoinSet::new();
    stages.spawn(async move {
        // The observer asks here; while nobody listens it would wait for ever.
        let _observed = observed;
        run(parts, CancellationToken::new()).await;
    });
    Collector { runtime, disk, events, metrics, stages }
}

impl Collector {
    /// Until after the next looks.
    async fn looks(&self, times: u32) {
        tokio::time::sleep(Duration::from_secs(300) * times + Duration::from_secs(1)).await;
    }

    fn told(&self, reason: &str) -> Vec<String> {
        let all = self.events.all();
        let events = all.iter().map(|series| &series.event).filter(|event| event.reason == reason);
        events.map(|event| event.message.clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_without_a_size_is_told_of_at_once_and_the_failure_when_it_stays() {
    let collector = collector(Duration::ZERO);
    collector.disk.set(0, 0);
    collector.looks(0).await;
    assert_eq!(collector.told("InvalidDiskCapacity"), ["invalid capacity 0 on image filesystem"]);
    assert_eq!(collector.told("ImageGCFailed"), Vec::<String>::new());
    collector.looks(1).await;
    assert_eq!(collector.told("ImageGCFailed"), ["invalid capacity 0 on image filesystem"]);
    assert_eq!(collector.stages.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn images_that_do_not_make_enough_room_are_told_of() {
    let collector = collector(Duration::ZERO);
    // The images of the fake are far smaller than what is missing.
    collector.disk.set(1_000_000_000_000, 50_000_000_000);
    collector.looks(0).await;
    let told = collector.told("FreeDiskSpaceFailed");
    assert!(told.len() == 1 && told[0].contains("(freed 2097152 bytes)"), "{told:?}");
    assert_eq!(collector.runtime.read(|world| world.count(Rpc::RemoveImage)), 2);
    let text = collector.metrics.encode(Format::Text);
    assert!(text.contains("kubelet_image_garbage_collected_total{reason=\"space\"} 2\n"), "{text}");
    collector.looks(1).await;
    assert_eq!(collector.told("ImageGCFailed").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_cannot_list_its_images_is_told_of_the_second_time() {
    let collector = collector(Duration::ZERO);
    let no = Fault::Fail(Code::Unknown, "no list".to_owned());
    let injected = collector.runtime.inject(Injection::new(Rpc::ListImages, no));
    collector.looks(0).await;
    assert_eq!(collector.told("ImageGCFailed"), Vec::<String>::new());
    collector.looks(1).await;
    let told = collector.told("ImageGCFailed");
    assert!(told.len() == 1 && told[0].contains("no list"), "{told:?}");
    drop(injected);
}
