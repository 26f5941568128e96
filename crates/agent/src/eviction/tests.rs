//! The stage on a machine whose figures a test sets, with time that only tests move.

mod machine;

use std::time::Duration;

use decide::eviction::Value;
use model::statistics::{FsStatistics, MemoryStatistics, PodReference, VolumeStatistics};
use model::{PodSource, Rejection, WorkerPhase};
use serde_json::json;
use testkit::fakes::node_settings;
use tokio::task::JoinHandle;

use super::*;
use crate::event_log::EventLog;
use crate::published::{Writer, table};
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

impl Fixture {
    /// A node of 1 GiB that runs these pods.
    async fn new(settings: Settings, pods: &[Arc<Pod>]) -> Self {
        let machine = Arc::new(Machine::new());
        let ((desired, desired_reader), (workers, worker_reader)) = (table(Vec::new()), table(Vec::new()));
        let (observations, observer) = crate::observation::observations(Vec::new());
        observations.floor.send_replace(observations.moments.next());
        let (kills, requests) = mpsc::unbounded_channel();
        let ((containers, container_orders), (images, image_orders)) = (mpsc::channel(1), mpsc::channel(1));
        let (pressure, told) = watch::channel(Pressure::default());
        let (events, metrics) = (Arc::new(EventLog::new(100)), Arc::new(Metrics::new()));
        let parts = Parts {
            settings: Settings { transition: Duration::from_secs(300), ..settings },
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
            clock: machine.clone(),
            metrics: metrics.clone(),
        };
        let fixture = Self {
            machine,
            desired,
            workers,
            kills: requests,
            containers: container_orders,
            images: image_orders,
            pressure: told,
            events,
            metrics,
            stage: tokio::spawn(async move {
                let _kept = observations;
                run(parts, CancellationToken::new()).await;
            }),
        };
        for pod in pods {
            fixture.desired.set(&pod.uid, Arc::clone(pod));
            fixture.reaches(pod, WorkerPhase::Syncing);
        }
        pass_time(0).await;
        fixture
    }

    fn set(&self, change: impl FnOnce(&mut machine::Figures)) {
        change(&mut self.machine.figures.lock().unwrap());
    }

    fn reaches(&self, pod: &Pod, phase: WorkerPhase) {
        let rejection = (phase > WorkerPhase::Syncing)
            .then(|| Rejection { reason: "Evicted".to_owned(), message: String::new() });
        let view = WorkerView {
            uid: pod.uid.clone(),
            full_name: pod.full_name.clone(),
            phase,
            started: true,
            passed: true,
            restart_requested: false,
            orphan: false,
            is_static: pod.is_static(),
            problems: Default::default(),
            last_error: None,
            rejection,
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

    fn told(&self) -> Vec<(String, String)> {
        let events = self.events.all().into_iter().map(|series| series.event);
        events.map(|event| (event.reason, event.message)).collect()
    }
}

/// Lets the stage do what it can do now, and in the seconds after.
async fn pass_time(seconds: u64) {
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the spec in place")]
fn pod_of(name: &str, source: PodSource, spec: serde_json::Value) -> Arc<Pod> {
    let object = json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": spec});
    Arc::new(Pod::from_object(serde_json::from_value(object).unwrap(), source).unwrap())
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
    Threshold { signal, value: Value::parse(value).unwrap(), grace: Duration::ZERO, min_reclaim: None }
}

fn watching(signal: Signal, value: &str) -> Settings {
    Settings { thresholds: vec![threshold(signal, value)], ..Settings::default() }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_node_is_looked_at_without_its_pods() {
    let settings = Settings { local_storage: true, ..watching(Signal::MemoryAvailable, "100Mi") };
    let mut given = Fixture::new(settings, &[pod("a")]).await;
    pass_time(60).await;
    assert_eq!(given.machine.was_asked("/"), 7);
    assert_eq!(given.machine.was_asked("image filesystems"), 1);
    for never in ["everything", "rooms", "processes", "Files of a"] {
        assert_eq!(given.machine.was_asked(never), 0, "{never}");
    }
    assert_eq!((given.evicted(), given.told()), (Vec::new(), Vec::new()));
    assert!(!given.pressure.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn memory_that_runs_short_ends_one_pod_at_a_time_until_there_is_enough() {
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
    let rejection = Rejection { reason: "Evicted".to_owned(), message: message.to_owned() };
    assert_eq!(request.options.rejection, Some(rejection));
    let note = request.eviction.unwrap();
    assert_eq!(note.message, message);
    assert_eq!(note.annotations["starved_resource"], "memory");
    let told = ("EvictionThresholdMet".to_owned(), "Attempting to reclaim memory".to_owned());
    assert_eq!(given.told(), [told]);
    // Nobody else goes while the first one does.
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
async fn a_disk_is_cleaned_before_a_pod_has_to_go() {
    let mut given = Fixture::new(watching(Signal::NodeFsAvailable, "50%"), &[pod("a")]).await;
    given.set(|figures| figures.room.available = 49);
    pass_time(10).await;
    assert!(given.pressure.borrow().disk);
    given.containers.try_recv().unwrap().done.send(()).unwrap();
    pass_time(0).await;
    given.set(|figures| figures.room.available = 60);
    given.images.try_recv().unwrap().done.send(()).unwrap();
    pass_time(0).await;
    assert_eq!((given.evicted(), given.machine.was_asked("everything")), (Vec::new(), 0));
    // Once that does not help, a pod goes.
    given.set(|figures| figures.room.available = 49);
    pass_time(10).await;
    given.containers.try_recv().unwrap().done.send(()).unwrap();
    pass_time(0).await;
    drop(given.images.try_recv().unwrap());
    pass_time(0).await;
    assert_eq!(given.evicted(), [("a".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_end_is_told_of_and_the_next_one_goes() {
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
    assert!(given.told().iter().any(|(reason, _)| reason == "ExceededGracePeriod"));
    assert_eq!(given.evicted(), []);
    pass_time(30).await;
    let second = given.evicted();
    assert!(second.len() == 1 && second != first, "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn soft_thresholds_wait_and_leave_grace() {
    let soft = Threshold { grace: Duration::from_secs(30), ..threshold(Signal::MemoryAvailable, "100Mi") };
    let settings = Settings { thresholds: vec![soft], max_pod_grace_seconds: 7, ..Settings::default() };
    let mut given = Fixture::new(settings, &[pod("a")]).await;
    given.set(|figures| figures.working_set = GIB);
    pass_time(31).await;
    assert!(given.pressure.borrow().memory && given.evicted().is_empty());
    pass_time(10).await;
    assert_eq!(given.evicted(), [("a".to_owned(), 7)]);
}

#[tokio::test(start_paused = true)]
async fn all_pods_that_break_a_limit_go_at_once() {
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
    let mut given = Fixture::new(Settings { local_storage: true, ..Settings::default() }, &pods).await;
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
    let asked = given.machine.figures.lock().unwrap().asked.clone();
    let measured = asked.iter().find(|asked| asked.starts_with("Files of ")).unwrap();
    assert!(!measured.contains("fixed") && !measured.contains("without"), "{measured}");
    assert_eq!(given.told(), [], "the node is not short of anything");
    assert_eq!(*given.pressure.borrow(), Pressure::default());
}

#[tokio::test(start_paused = true)]
async fn the_kernels_word_brings_the_next_look_forward() {
    let settings = Settings { kernel_notification: true, ..watching(Signal::MemoryAvailable, "100Mi") };
    let mut given = Fixture::new(settings, &[pod("a")]).await;
    assert_eq!(given.machine.was_asked(&format!("/ crosses {}", GIB - (100 << 20))), 1);
    given.set(|figures| figures.working_set = GIB);
    given.machine.crossed.notify_one();
    pass_time(1).await;
    assert_eq!(given.evicted(), [("a".to_owned(), 1)]);
}
