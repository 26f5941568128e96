//! Garbage collection of images and containers with a fake runtime and a fake disk.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::cluster::event_log::EventLog;
use agent::metrics::{Format, Metrics};
use agent::pipeline::messages::ReclaimOrder;
use agent::pipeline::observation::observations;
use agent::pipeline::tables::table;
use agent::upkeep::container_gc::{self, ContainerGcDeps};
use agent::upkeep::image_gc::{ImageGcDeps, run};
use async_trait::async_trait;
use cri::{CriClient, DEFAULT_REQUEST_TIMEOUT};
use decide::images::image_gc::ImageGcPolicy;
use decide::pipeline::dead_containers::ContainerGcPolicy;
use model::Pod;
use ports::clock::SystemClock;
use ports::host::checkpoints::Checkpoints;
use ports::host::filesystems::{DiskSpace, Filesystems};
use ports::host::pod_folders::FileError;
use testkit::fake_runtime::{FakeRuntime, Fault, Injection, Rpc, tokio_clock};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// A disk with a configurable size.
#[derive(Default)]
struct Disk(Mutex<DiskSpace>);

impl Disk {
    fn set(&self, capacity: u64, available: u64) {
        *self.0.lock() = DiskSpace { capacity, available };
    }
}

#[async_trait]
impl Filesystems for Disk {
    async fn space(&self, _: &Path) -> Result<DiskSpace, FileError> {
        Ok(*self.0.lock())
    }
}

/// Checkpoints that save nothing.
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

/// A running collector on a node with two unused images.
fn collector(max_age: Duration) -> Collector {
    let runtime = FakeRuntime::start_in_memory(tokio_clock(1_000)).unwrap();
    runtime.add_image("one:1");
    runtime.add_image("two:1");
    let channel = runtime.channel();
    let client = CriClient::from_channels(channel.clone(), channel, DEFAULT_REQUEST_TIMEOUT);
    let (observed, observer) = observations(Vec::new());
    observed.last_relist.send_replace(observed.moments.next());
    let (_, desired) = table::<Pod>(Vec::new());
    let (disk, events, metrics) =
        (Arc::<Disk>::default(), Arc::new(EventLog::new(100)), Arc::new(Metrics::new()));
    disk.set(1000, 500);
    let (_, orders) = tokio::sync::mpsc::channel(1);
    let parts = ImageGcDeps {
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
        // Answers the requests of the observer, which would wait forever otherwise.
        let _observed = observed;
        run(parts, CancellationToken::new()).await;
    });
    Collector { runtime, disk, events, metrics, stages }
}

impl Collector {
    /// Waits for the next runs.
    async fn wait_for_runs(&self, times: u32) {
        tokio::time::sleep(Duration::from_secs(300) * times + Duration::from_secs(1)).await;
    }

    fn recorded_messages(&self, reason: &str) -> Vec<String> {
        let all = self.events.all();
        let events = all.iter().map(|series| &series.event).filter(|event| event.reason == reason);
        events.map(|event| event.message.clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn reports_disk_without_size_and_repeated_failure() {
    let collector = collector(Duration::ZERO);
    collector.disk.set(0, 0);
    collector.wait_for_runs(0).await;
    assert_eq!(
        collector.recorded_messages("InvalidDiskCapacity"),
        ["invalid capacity 0 on image filesystem"]
    );
    assert_eq!(collector.recorded_messages("ImageGCFailed"), Vec::<String>::new());
    collector.wait_for_runs(1).await;
    assert_eq!(collector.recorded_messages("ImageGCFailed"), ["invalid capacity 0 on image filesystem"]);
    assert_eq!(collector.stages.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn reports_when_removing_images_is_not_enough() {
    let collector = collector(Duration::ZERO);
    // The images of the fake are much smaller than the excess.
    collector.disk.set(1_000_000_000_000, 50_000_000_000);
    collector.wait_for_runs(0).await;
    let messages = collector.recorded_messages("FreeDiskSpaceFailed");
    assert!(messages.len() == 1 && messages[0].contains("(freed 2097152 bytes)"), "{messages:?}");
    assert_eq!(collector.runtime.read(|state| state.count(Rpc::RemoveImage)), 2);
    let text = collector.metrics.encode(Format::Text);
    assert!(text.contains("kubelet_image_garbage_collected_total{reason=\"space\"} 2\n"), "{text}");
    collector.wait_for_runs(1).await;
    assert_eq!(collector.recorded_messages("ImageGCFailed").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn reports_second_failure_to_list_images() {
    let collector = collector(Duration::ZERO);
    let no = Fault::Fail(Code::Unknown, "no list".to_owned());
    let injected = collector.runtime.inject(Injection::new(Rpc::ListImages, no));
    collector.wait_for_runs(0).await;
    assert_eq!(collector.recorded_messages("ImageGCFailed"), Vec::<String>::new());
    collector.wait_for_runs(1).await;
    let messages = collector.recorded_messages("ImageGCFailed");
    assert!(messages.len() == 1 && messages[0].contains("no list"), "{messages:?}");
    drop(injected);
}

/// Names of spans, each after that of its parent.
#[derive(Clone, Default)]
struct SpanNames(Arc<Mutex<Vec<[String; 2]>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanNames {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = context.span(id).and_then(|span| span.parent()).map(|parent| parent.name().to_owned());
        self.0.lock().push([parent.unwrap_or_default(), attributes.metadata().name().to_owned()]);
    }
}

impl SpanNames {
    fn contains(&self, parent: &str, name: &str) -> bool {
        self.0.lock().iter().any(|[of, own]| of == parent && own == name)
    }
}

#[tokio::test(start_paused = true)]
async fn collections_are_spans_with_the_names_of_upstream() {
    let names = SpanNames::default();
    let subscriber = tracing_subscriber::registry().with(names.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let collector = collector(Duration::ZERO);
    collector.wait_for_runs(0).await;
    assert!(names.contains("", "Images/GarbageCollect"), "{:?}", names.0.lock());
    assert!(names.contains("Images/GarbageCollect", "runtime call"), "{:?}", names.0.lock());

    let folder = tempfile::tempdir().unwrap();
    let logs = host::HostPodFolders::new(folder.path(), folder.path(), folder.path());
    let channel = collector.runtime.channel();
    let (observed, observer) = observations(Vec::new());
    let (_, workers) = table(Vec::new());
    let (orders_sender, orders) = tokio::sync::mpsc::channel(1);
    let deps = ContainerGcDeps {
        runtime: Arc::new(CriClient::from_channels(channel.clone(), channel, DEFAULT_REQUEST_TIMEOUT)),
        logs: Arc::new(logs),
        observer,
        clock: Arc::new(SystemClock),
        node: "node-a".to_owned(),
        events: collector.events.clone(),
        policy: ContainerGcPolicy { per_container: Some(1), total: None, min_age: Duration::ZERO },
        workers,
        orders,
    };
    let mut stages = JoinSet::new();
    stages.spawn(container_gc::run(deps, CancellationToken::new()));
    let (done, is_done) = tokio::sync::oneshot::channel();
    orders_sender.send(ReclaimOrder { done }).await.unwrap();
    is_done.await.unwrap();
    assert!(names.contains("", "Containers/GarbageCollect"), "{:?}", names.0.lock());
    drop(observed);
}
