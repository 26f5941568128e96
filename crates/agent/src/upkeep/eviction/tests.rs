//! Runs the stage with fake readings and a paused clock.

mod machine;

use std::time::Duration;

use decide::eviction::ThresholdValue;
use model::statistics::{FsStatistics, MemoryStatistics, PodReference, VolumeStatistics};
use model::{PodSource, Rejection, WorkerPhase};
use serde_json::json;
use testkit::builders::{parse_pod, worker_view};
use testkit::fakes::node_settings;
use tokio::task::JoinHandle;

use super::*;
use crate::cluster::event_log::EventLog;
use crate::pipeline::tables::{Writer, table};
use crate::test_checkpoints::Files;
use machine::Machine;

const GIB: u64 = 1 << 30;

struct Fixture {
    machine: Arc<Machine>,
    desired: Writer<Pod>,
    workers: Writer<WorkerView>,
    kills: mpsc::UnboundedReceiver<KillRequest>,
    containers: mpsc::Receiver<ReclaimOrder>,
    images: mpsc::Receiver<ReclaimOrder>,
    pressure: watch::Receiver<Pressure>,
    events: Arc<EventLog>,
    metrics: Arc<Metrics>,
    stage: JoinHandle<()>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stage.abort();
    }
}

fn evicted_for(kind: RejectionKind, message: &str) -> Rejection {
    Rejection { kind, reason: "Evicted".to_owned(), message: message.to_owned() }
}

impl Fixture {
    /// A node of 1 GiB that runs these pods.
    async fn new(settings: EvictionSettings, pods: &[Arc<Pod>]) -> Self {
        let machine = Arc::new(Machine::new());
        let ((desired, desired_reader), (workers, worker_reader)) = (table(Vec::new()), table(Vec::new()));
        let (observations, observer) = crate::pipeline::observation::observations(Vec::new());
        observations.last_relist.send_replace(observations.moments.next());
        let (kills, requests) = mpsc::unbounded_channel();
        let ((containers, container_orders), (images, image_orders)) = (mpsc::channel(1), mpsc::channel(1));
        let (pressure, recorded_events) = watch::channel(Pressure::default());
        let (events, metrics) = (Arc::new(EventLog::new(100)), Arc::new(Metrics::new()));
        let deps = EvictionDeps {
            settings: EvictionSettings { transition: Duration::from_secs(300), ..settings },
            node: Arc::new(node_settings()),
            usage: machine.clone(),
            disks: machine.clone(),
            images: machine.clone(),
            statistics: machine.clone(),
            memory: machine.clone(),
            desired: desired_reader,
            workers: worker_reader,
            allocations: Allocations::restore(Arc::new(Files::default()), None, None).unwrap(),
            observer,
            kills,
            collectors: Collectors { containers, images },
            pressure,
            events: events.clone(),
            clock: machine.clock.clone(),
            metrics: metrics.clone(),
        };
        let fixture = Self {
            machine,
            desired,
            workers,
            kills: requests,
            containers: container_orders,
            images: image_orders,
            pressure: recorded_events,
            events,
            metrics,
            stage: tokio::spawn(async move {
                let _kept = observations;
                run(deps, CancellationToken::new()).await;
            }),
        };
        for pod in pods {
            fixture.desired.set(&pod.uid, Arc::clone(pod));
            fixture.reaches(pod, WorkerPhase::Syncing);
        }
        pass_time(0).await;
        fixture
    }

    fn set(&self, change: impl FnOnce(&mut machine::FakeReadings)) {
        change(&mut self.machine.figures.lock());
    }

    fn reaches(&self, pod: &Pod, phase: WorkerPhase) {
        let rejection = (phase > WorkerPhase::Syncing).then(|| evicted_for(RejectionKind::NodePressure, ""));
        let view = WorkerView {
            full_name: pod.full_name.clone(),
            rejection,
            ..worker_view(pod.uid.as_str(), phase)
        };
        self.workers.set(&pod.uid, Arc::new(view));
    }

    fn evicted(&mut self) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        while let Ok(request) = self.kills.try_recv() {
            found.push((request.uid.to_string(), request.options.grace_override.unwrap()));
        }
        found
    }

    fn recorded_events(&self) -> Vec<(String, String)> {
        let events = self.events.all().into_iter().map(|series| series.event);
        events.map(|event| (event.reason, event.message)).collect()
    }
}

/// Advances the clock.
async fn pass_time(seconds: u64) {
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the spec in place")]
fn pod_of(name: &str, source: PodSource, spec: serde_json::Value) -> Arc<Pod> {
    let object = json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": spec});
    Arc::new(parse_pod(object, source))
}

fn pod(name: &str) -> Arc<Pod> {
    pod_of(name, PodSource::Api, json!({"containers": [{"name": "c"}]}))
}

fn used(name: &str, memory: u64) -> PodStatistics {
    PodStatistics {
        pod_ref: PodReference { uid: name.to_owned(), ..PodReference::default() },
        memory: Some(MemoryStatistics { working_set_bytes: Some(memory), ..Default::default() }),
        ..PodStatistics::default()
    }
}

fn threshold(signal: Signal, value: &str) -> Threshold {
    Threshold {
        signal,
        value: ThresholdValue::parse(value).unwrap(),
        grace: Duration::ZERO,
        min_reclaim: None,
    }
}

fn watching(signal: Signal, value: &str) -> EvictionSettings {
    EvictionSettings { thresholds: vec![threshold(signal, value)], ..EvictionSettings::default() }
}

#[tokio::test(start_paused = true)]
async fn node_without_pressure_reads_no_pod_statistics() {
    let settings = EvictionSettings { local_storage: true, ..watching(Signal::MemoryAvailable, "100Mi") };
    let mut given = Fixture::new(settings, &[pod("a")]).await;
    pass_time(60).await;
    assert_eq!(given.machine.call_count("/"), 7);
    assert_eq!(given.machine.call_count("image filesystems"), 1);
    for never in ["everything", "rooms", "processes", "Files of a"] {
        assert_eq!(given.machine.call_count(never), 0, "{never}");
    }
    assert_eq!((given.evicted(), given.recorded_events()), (Vec::new(), Vec::new()));
    assert!(!given.pressure.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn memory_pressure_evicts_one_pod_at_a_time() {
    let (small, large) = (pod("small"), pod("large"));
    let critical = pod_of("critical", PodSource::Api, json!({"containers": [], "priority": 2_000_000_000}));
    let fixed = pod_of("fixed", PodSource::File, json!({"containers": []}));
    let pods = [small.clone(), large.clone(), critical, fixed];
    let mut given = Fixture::new(watching(Signal::MemoryAvailable, "100Mi"), &pods).await;
    given.set(|figures| {
        figures.working_set = GIB - (50 << 20);
        let all = [("small", 10), ("large", 20), ("critical", GIB), ("fixed", GIB)];
        figures.used = all.map(|(name, memory)| used(name, memory)).into();
    });
    pass_time(10).await;
    assert!(given.pressure.borrow_and_update().memory);
    let request = given.kills.try_recv().unwrap();
    assert_eq!((request.uid.as_str(), request.options.grace_override), ("large", Some(1)));
    let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ";
    assert_eq!(request.options.rejection, Some(evicted_for(RejectionKind::NodePressure, message)));
    let note = request.eviction.unwrap();
    assert_eq!(note.message, message);
    assert_eq!(note.annotations["starved_resource"], "memory");
    let recorded_events = ("EvictionThresholdMet".to_owned(), "Attempting to reclaim memory".to_owned());
    assert_eq!(given.recorded_events(), [recorded_events]);
    // No other pod is evicted while the first one ends.
    given.reaches(&large, WorkerPhase::Terminating);
    pass_time(8).await;
    assert_eq!(given.evicted(), []);
    given.reaches(&large, WorkerPhase::Finished);
    pass_time(0).await;
    assert_eq!(given.evicted(), [("small".to_owned(), 1)]);
    given.reaches(&small, WorkerPhase::Finished);
    pass_time(20).await;
    assert_eq!(given.evicted(), [], "critical pods stay");
    given.set(|figures| figures.working_set = 0);
    pass_time(200).await;
    assert!(!given.pressure.has_changed().unwrap(), "the condition outlives its cause");
    pass_time(200).await;
    assert_eq!(*given.pressure.borrow_and_update(), Pressure::default());
    let page = given.metrics.encode(crate::metrics::Format::Text);
    assert!(page.contains("kubelet_evictions{eviction_signal=\"memory.available\"} 2"), "{page}");
    assert!(page.contains("kubelet_eviction_stats_age_seconds_count{eviction_signal=\"memory.available\"}"));
}

#[tokio::test(start_paused = true)]
async fn disk_pressure_reclaims_before_evicting() {
    let mut given = Fixture::new(watching(Signal::NodeFsAvailable, "50%"), &[pod("a")]).await;
    given.set(|figures| figures.room.available = 49);
    pass_time(10).await;
    assert!(given.pressure.borrow().disk);
    given.containers.try_recv().unwrap().done.send(()).unwrap();
    pass_time(0).await;
    given.set(|figures| figures.room.available = 60);
    given.images.try_recv().unwrap().done.send(()).unwrap();
    pass_time(0).await;
    assert_eq!((given.evicted(), given.machine.call_count("everything")), (Vec::new(), 0));
    // A pod is evicted when reclaim is not enough.
    given.set(|figures| figures.room.available = 49);
    pass_time(10).await;
    given.containers.try_recv().unwrap().done.send(()).unwrap();
    pass_time(0).await;
    drop(given.images.try_recv().unwrap());
    pass_time(0).await;
    assert_eq!(given.evicted(), [("a".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn evicts_next_pod_when_the_first_does_not_end() {
    let (one, other) = (pod("one"), pod("other"));
    let pods = [one.clone(), other];
    let mut given = Fixture::new(watching(Signal::PidAvailable, "50"), &pods).await;
    given.set(|figures| figures.processes.current = 90);
    pass_time(10).await;
    let first = given.evicted();
    assert_eq!(first.len(), 1);
    let stuck = if first[0].0 == "one" { &pods[0] } else { &pods[1] };
    given.reaches(stuck, WorkerPhase::Terminating);
    pass_time(11).await;
    assert!(given.recorded_events().iter().any(|(reason, _)| reason == "ExceededGracePeriod"));
    assert_eq!(given.evicted(), []);
    pass_time(30).await;
    let second = given.evicted();
    assert!(second.len() == 1 && second != first, "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn soft_threshold_waits_and_grants_grace_period() {
    let soft = Threshold { grace: Duration::from_secs(30), ..threshold(Signal::MemoryAvailable, "100Mi") };
    let settings =
        EvictionSettings { thresholds: vec![soft], max_pod_grace_seconds: 7, ..EvictionSettings::default() };
    let mut given = Fixture::new(settings, &[pod("a")]).await;
    given.set(|figures| figures.working_set = GIB);
    pass_time(31).await;
    assert!(given.pressure.borrow().memory && given.evicted().is_empty());
    pass_time(10).await;
    assert_eq!(given.evicted(), [("a".to_owned(), 7)]);
}

#[tokio::test(start_paused = true)]
async fn evicts_all_pods_above_their_storage_limits() {
    let limited = |name: &str, source| {
        let volumes = json!([{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]);
        pod_of(name, source, json!({"containers": [{"name": "c"}], "volumes": volumes}))
    };
    let pods = [
        limited("a", PodSource::Api),
        limited("b", PodSource::Api),
        limited("fits", PodSource::Api),
        limited("fixed", PodSource::File),
        pod("without"),
    ];
    let mut given =
        Fixture::new(EvictionSettings { local_storage: true, ..EvictionSettings::default() }, &pods).await;
    let filled = |name: &str, bytes| {
        let fs = FsStatistics { used_bytes: Some(bytes), ..Default::default() };
        let volumes = vec![VolumeStatistics { fs, name: "v".into(), ..Default::default() }];
        PodStatistics { volumes, ..used(name, 0) }
    };
    given.set(|figures| {
        figures.used = [("a", 2 << 20), ("b", 3 << 20), ("fits", 1 << 20), ("fixed", GIB)]
            .map(|(name, bytes)| filled(name, bytes))
            .into();
    });
    pass_time(10).await;
    let mut evicted = given.evicted();
    evicted.sort();
    assert_eq!(evicted, [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    let asked = given.machine.figures.lock().asked.clone();
    let measured = asked.iter().find(|asked| asked.starts_with("Files of ")).unwrap();
    assert!(!measured.contains("fixed") && !measured.contains("without"), "{measured}");
    assert_eq!(given.recorded_events(), [], "the node is not short of anything");
    assert_eq!(*given.pressure.borrow(), Pressure::default());
}

#[tokio::test(start_paused = true)]
async fn kernel_notification_triggers_an_early_check() {
    let settings =
        EvictionSettings { kernel_notification: true, ..watching(Signal::MemoryAvailable, "100Mi") };
    let mut given = Fixture::new(settings, &[pod("a")]).await;
    assert_eq!(given.machine.call_count(&format!("/ crosses {}", GIB - (100 << 20))), 1);
    given.set(|figures| figures.working_set = GIB);
    given.machine.crossed.notify_one();
    pass_time(1).await;
    assert_eq!(given.evicted(), [("a".to_owned(), 1)]);
}
