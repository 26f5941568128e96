use model::{PodSource, StatusUrgency, WorkerPhase};
use ports::api::ApiErrorKind;
use serde_json::{Value, json};
use testkit::builders::{parse_pod, worker_view};
use testkit::fake_api::{ApiWrite, FakeApi, api_error};
use testkit::fake_clock::FakeClock;

use super::*;
use crate::cluster::api_pods::{ApiPodsWriter, api_pods};
use crate::pipeline::cached_status::CachedStatus;
use crate::pipeline::tables::{Writer, table};

/// The tables of a node, and its API server. [`Fixture::sync_watch`] copies the server's state to the tables.
struct Fixture {
    api: FakeApi,
    desired: Writer<Pod>,
    workers: Writer<WorkerView>,
    statuses: Writer<CachedStatus>,
    api_pods: ApiPodsWriter,
    metrics: Arc<Metrics>,
    _running: JoinSet<()>,
}

impl Fixture {
    fn started() -> Self {
        let (changed, changes) = timing::key_channel();
        let (api_pod_changed, api_pod_changes) = timing::key_channel();
        let (desired, desired_reader) = table(Vec::new());
        let (workers, worker_reader) = table(vec![changed.clone()]);
        let (statuses, status_reader) = table(vec![changed]);
        let (api_pods, api_pods_reader) = api_pods(vec![api_pod_changed]);
        let (api, metrics) = (FakeApi::default(), Arc::new(Metrics::new()));
        let deps = StatusDeliveryDeps {
            changes,
            api_pod_changes,
            desired: desired_reader,
            workers: worker_reader,
            statuses: status_reader,
            api_pods: api_pods_reader,
            pods: Arc::new(api.clone()),
            clock: Arc::new(FakeClock::fixed(1_000)),
            metrics: metrics.clone(),
        };
        let mut running = JoinSet::new();
        running.spawn(run(deps, CancellationToken::new()));
        Self { api, desired, workers, statuses, api_pods, metrics, _running: running }
    }

    /// Adds a pod to the server and the tables.
    fn add(&self, name: &str) {
        self.api.put(json!({
            "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
            "spec": {"containers": []},
            "status": {"phase": "Pending"},
        }));
        self.sync_watch(name);
    }

    /// Copies a pod from the server to the tables, as the watch would.
    fn sync_watch(&self, name: &str) {
        let pod = Arc::new(parse_pod(self.api.pod(name).unwrap(), PodSource::Api));
        self.desired.set(&pod.uid, Arc::clone(&pod));
        self.api_pods.set(&pod);
    }

    fn status(&self, name: &str, status: Value) {
        let status = Arc::new(CachedStatus::of(&serde_json::from_value(status).unwrap()));
        self.statuses.set(&PodUid::from(format!("uid-{name}")), status);
    }

    fn worker(&self, name: &str, phase: WorkerPhase) {
        let uid = PodUid::from(format!("uid-{name}"));
        self.workers.set(&uid, Arc::new(worker_view(uid.as_str(), phase)));
    }

    fn api_status(&self, name: &str) -> Value {
        self.api.pod(name).unwrap()["status"].clone()
    }

    fn patches(&self) -> Vec<(StatusUrgency, String)> {
        let patch = |write: ApiWrite| match write {
            ApiWrite::Patch { urgency, name, .. } => Some((urgency, name)),
            ApiWrite::Create { .. } | ApiWrite::Delete { .. } => None,
        };
        self.api.writes().into_iter().filter_map(patch).collect()
    }
}

fn status(phase: &str, ready: &str, message: &str) -> Value {
    json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready, "message": message}]})
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

async fn moment() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn debounces_startup_changes_and_writes_readiness_immediately() {
    let node = Fixture::started();
    node.add("a");
    for step in ["one", "two", "three"] {
        node.status("a", status("Pending", "False", step));
        moment().await;
    }
    assert_eq!(node.patches(), []);
    seconds(1).await;
    assert_eq!(node.patches(), [(StatusUrgency::Deferred, "a".to_owned())]);
    assert_eq!(node.api_status("a")["conditions"][0]["message"], "three");
    node.status("a", status("Running", "True", ""));
    moment().await;
    assert_eq!(node.patches()[1], (StatusUrgency::Urgent, "a".to_owned()));
    assert_eq!(node.api_status("a")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn does_not_write_status_that_server_already_has() {
    let node = Fixture::started();
    node.add("a");
    node.api.change("a", |pod| pod["status"] = status("Running", "True", "x"));
    node.sync_watch("a");
    node.status("a", status("Running", "True", "x"));
    seconds(60).await;
    assert_eq!(node.api.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn reconciliation_corrects_overwritten_status() {
    let node = Fixture::started();
    node.add("a");
    node.status("a", status("Running", "True", ""));
    moment().await;
    node.sync_watch("a");
    node.api.change("a", |pod| pod["status"]["phase"] = json!("Unknown"));
    node.sync_watch("a");
    moment().await;
    assert_eq!(node.patches().len(), 1);
    seconds(11).await;
    assert_eq!(node.patches().len(), 2);
    assert_eq!(node.api_status("a")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn stale_watch_does_not_cause_second_write() {
    let node = Fixture::started();
    node.add("a");
    node.status("a", status("Running", "True", ""));
    seconds(60).await;
    // The watch has not reported the write yet.
    assert_eq!(node.patches().len(), 1);
    node.sync_watch("a");
    seconds(60).await;
    assert_eq!(node.patches().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn writes_newest_status_after_outage() {
    let node = Fixture::started();
    for name in ["a", "b", "c"] {
        node.add(name);
    }
    node.api.set_fault(|_| Some(api_error(ApiErrorKind::Unreachable)));
    for name in ["a", "b", "c"] {
        node.status(name, status("Running", "False", "early"));
    }
    seconds(300).await;
    let attempts = node.api.writes().len();
    assert!((20..60).contains(&attempts), "{attempts} requests in five minutes");
    for name in ["a", "b", "c"] {
        node.status(name, status("Running", "True", "late"));
    }
    node.api.clear_writes();
    node.api.clear_fault();
    seconds(20).await;
    assert_eq!(node.patches().len(), 3);
    for name in ["a", "b", "c"] {
        assert_eq!(node.api_status(name)["conditions"][0]["message"], "late");
    }
}

#[tokio::test(start_paused = true)]
async fn honors_retry_after() {
    let node = Fixture::started();
    node.add("a");
    node.api.set_fault(|_| {
        let retry_after = Some(Duration::from_secs(30));
        Some(ports::api::ApiError { retry_after, ..api_error(ApiErrorKind::Throttled) })
    });
    node.status("a", status("Running", "True", ""));
    seconds(29).await;
    assert_eq!(node.patches().len(), 1);
    node.api.clear_fault();
    seconds(20).await;
    assert_eq!(node.patches().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn does_not_write_to_recreated_pod() {
    for kind in [ApiErrorKind::NotFound, ApiErrorKind::Conflict] {
        let node = Fixture::started();
        node.add("a");
        match kind {
            ApiErrorKind::NotFound => node.api.remove("a"),
            _ => node.api.change("a", |pod| pod["metadata"]["uid"] = json!("another")),
        }
        node.status("a", status("Running", "True", ""));
        seconds(60).await;
        assert_eq!(node.patches().len(), 1, "{kind:?}");
        node.status("a", status("Running", "False", ""));
        seconds(60).await;
        assert_eq!(node.patches().len(), 1, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_after_conflict_on_same_pod() {
    let node = Fixture::started();
    node.add("a");
    let mut first = true;
    node.api.set_fault(move |_| std::mem::take(&mut first).then(|| api_error(ApiErrorKind::Conflict)));
    node.status("a", status("Running", "True", ""));
    seconds(1).await;
    assert_eq!(node.patches().len(), 2);
    assert_eq!(node.api_status("a")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn rejected_status_backs_off_without_delaying_other_pods() {
    let node = Fixture::started();
    node.add("bad");
    node.add("good");
    node.api.set_fault(|write| match write {
        ApiWrite::Patch { name, .. } if name == "bad" => Some(api_error(ApiErrorKind::Invalid)),
        _ => None,
    });
    node.status("bad", status("Running", "True", ""));
    node.status("good", status("Running", "True", ""));
    seconds(1).await;
    assert_eq!(node.api_status("good")["phase"], "Running");
    seconds(300).await;
    let attempts = node.patches().iter().filter(|(_, name)| name == "bad").count();
    assert!((3..8).contains(&attempts), "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn deletes_pod_from_server_once_finished() {
    let node = Fixture::started();
    node.add("a");
    node.worker("a", WorkerPhase::Syncing);
    node.status("a", status("Running", "True", ""));
    moment().await;
    node.api.delete_gracefully("a", 30);
    node.sync_watch("a");
    node.worker("a", WorkerPhase::Terminating);
    node.status("a", status("Failed", "False", ""));
    seconds(20).await;
    assert_eq!(
        node.api_status("a")["phase"],
        "Running",
        "the final phase is not written while containers may run"
    );
    node.worker("a", WorkerPhase::Terminated);
    seconds(20).await;
    assert_eq!(node.api_status("a")["phase"], "Failed");
    assert!(!node.api.writes().iter().any(|write| matches!(write, ApiWrite::Delete { .. })));
    node.worker("a", WorkerPhase::Finished);
    moment().await;
    assert_eq!(node.api.pod("a"), None);
    let expected = ApiWrite::Delete { name: "a".into(), uid: "uid-a".into(), grace_seconds: 0 };
    assert_eq!(node.api.writes().last(), Some(&expected));
}

#[tokio::test(start_paused = true)]
async fn finalizer_does_not_cause_second_delete() {
    let node = Fixture::started();
    node.add("a");
    node.api.change("a", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.com/keep"]);
        pod["status"] = status("Failed", "False", "");
    });
    node.api.delete_gracefully("a", 30);
    node.sync_watch("a");
    node.worker("a", WorkerPhase::Finished);
    node.status("a", status("Failed", "False", ""));
    moment().await;
    node.sync_watch("a");
    seconds(120).await;
    assert_eq!(node.api.writes().len(), 1, "{:?}", node.api.writes());
}

#[tokio::test(start_paused = true)]
async fn urgent_writes_do_not_wait_for_normal_writes() {
    let node = Fixture::started();
    for index in 0..40 {
        let name = format!("slow-{index}");
        node.add(&name);
        node.status(&name, status("Running", "False", ""));
    }
    node.add("ready");
    node.status("ready", status("Running", "True", ""));
    moment().await;
    assert_eq!(node.patches()[0], (StatusUrgency::Urgent, "ready".to_owned()));
    assert_eq!(node.patches().len(), 41);
}

#[tokio::test(start_paused = true)]
async fn writes_status_of_static_pod_to_mirror_pod() {
    let node = Fixture::started();
    let object = |uid: &str, annotation: &str| {
        json!({"metadata": {"name": "s", "namespace": "ns", "uid": uid, "annotations": {annotation: "hash"}},
            "spec": {"containers": []}})
    };
    let pod = Arc::new(parse_pod(object("uid-s", model::labels::CONFIG_HASH), PodSource::File));
    node.desired.set(&pod.uid, Arc::clone(&pod));
    node.status("s", status("Running", "True", ""));
    seconds(20).await;
    assert_eq!(node.api.writes(), []);

    node.api.put(object("mirror", model::labels::CONFIG_MIRROR));
    node.api_pods.set(&Arc::new(parse_pod(node.api.pod("s").unwrap(), PodSource::Api)));
    moment().await;
    assert_eq!(node.api_status("s")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn does_not_repeat_write_with_lost_response() {
    let node = Fixture::started();
    node.add("a");
    node.worker("a", WorkerPhase::Syncing);
    node.api.lose_answers(1);
    node.status("a", status("Running", "True", ""));
    // The watch reports nothing, so only a read of the object shows that the write arrived.
    seconds(60).await;
    assert_eq!(node.patches().len(), 1, "{:?}", node.api.writes());
    assert_eq!(node.api_status("a")["phase"], "Running");
    // A later change is written once.
    node.status("a", status("Running", "False", ""));
    seconds(60).await;
    assert_eq!(node.patches().len(), 2, "{:?}", node.api.writes());
}

#[tokio::test(start_paused = true)]
async fn measures_status_sync_duration() {
    let node = Fixture::started();
    node.add("a");
    node.api.set_fault(|_| Some(api_error(ApiErrorKind::Unreachable)));
    node.status("a", status("Running", "True", "m"));
    seconds(8).await;
    node.api.clear_fault();
    seconds(60).await;
    let text = node.metrics.encode(crate::metrics::Format::Text);
    for line in [
        "kubelet_pod_status_sync_duration_seconds_bucket{le=\"5\"} 0\n",
        "kubelet_pod_status_sync_duration_seconds_count 1\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}
