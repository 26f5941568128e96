use model::{PodSource, Timestamp, WorkerPhase};
use ports::api::ApiErrorKind;
use serde_json::{Value, json};
use testkit::fake_api::{ApiWrite, FakeApi, api_error};

use super::*;
use crate::api_pods::{ApiPodsWriter, api_pods};
use crate::kept_status::KeptStatus;
use crate::published::{Writer, table};

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000)
    }
}

/// A node's tables, and an API server that it writes to. What the server shows is told by [`Node::watch`].
struct Node {
    api: FakeApi,
    desired: Writer<Pod>,
    workers: Writer<WorkerView>,
    statuses: Writer<KeptStatus>,
    shown: ApiPodsWriter,
    metrics: Arc<Metrics>,
    _running: JoinSet<()>,
}

impl Node {
    fn started() -> Self {
        let (changed, changes) = mpsc::unbounded_channel();
        let (shown_changed, shown_changes) = mpsc::unbounded_channel();
        let (desired, desired_reader) = table(Vec::new());
        let (workers, worker_reader) = table(vec![changed.clone()]);
        let (statuses, status_reader) = table(vec![changed]);
        let (shown, shown_reader) = api_pods(vec![shown_changed]);
        let (api, metrics) = (FakeApi::default(), Arc::new(Metrics::new()));
        let parts = Parts {
            changes,
            shown_changes,
            desired: desired_reader,
            workers: worker_reader,
            statuses: status_reader,
            shown: shown_reader,
            pods: Arc::new(api.clone()),
            clock: Arc::new(Fixed),
            metrics: metrics.clone(),
        };
        let mut running = JoinSet::new();
        running.spawn(run(parts, CancellationToken::new()));
        Self { api, desired, workers, statuses, shown, metrics, _running: running }
    }

    /// A pod that is bound to the node.
    fn add(&self, name: &str) {
        self.api.put(json!({
            "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
            "spec": {"containers": []},
            "status": {"phase": "Pending"},
        }));
        self.watch(name);
    }

    /// Tells what the server shows of a pod, as the watch would.
    fn watch(&self, name: &str) {
        let object = serde_json::from_value(self.api.pod(name).unwrap()).unwrap();
        let pod = Arc::new(Pod::from_object(object, PodSource::Api).unwrap());
        self.desired.set(&pod.uid, Arc::clone(&pod));
        self.shown.set(&pod);
    }

    fn status(&self, name: &str, status: Value) {
        let status = Arc::new(KeptStatus::of(&serde_json::from_value(status).unwrap()));
        self.statuses.set(&PodUid::from(format!("uid-{name}")), status);
    }

    fn worker(&self, name: &str, phase: WorkerPhase) {
        let uid = PodUid::from(format!("uid-{name}"));
        let view = WorkerView {
            uid: uid.clone(),
            full_name: PodFullName { namespace: "ns".into(), name: name.into() },
            phase,
            started: true,
            passed: true,
            restart_requested: false,
            orphan: false,
            is_static: false,
            problems: Default::default(),
            last_error: None,
            rejection: None,
        };
        self.workers.set(&uid, Arc::new(view));
    }

    fn shown_status(&self, name: &str) -> Value {
        self.api.pod(name).unwrap()["status"].clone()
    }

    fn patches(&self) -> Vec<(Urgency, String)> {
        let of = |write: ApiWrite| match write {
            ApiWrite::Patch { urgency, name, .. } => Some((urgency, name)),
            ApiWrite::Create { .. } | ApiWrite::Delete { .. } => None,
        };
        self.api.writes().into_iter().filter_map(of).collect()
    }
}

fn of(phase: &str, ready: &str, message: &str) -> Value {
    json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready, "message": message}]})
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

async fn moment() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_is_gathered_and_readiness_goes_at_once() {
    let node = Node::started();
    node.add("a");
    for step in ["one", "two", "three"] {
        node.status("a", of("Pending", "False", step));
        moment().await;
    }
    assert_eq!(node.patches(), []);
    seconds(1).await;
    assert_eq!(node.patches(), [(Urgency::Normal, "a".to_owned())]);
    assert_eq!(node.shown_status("a")["conditions"][0]["message"], "three");
    node.status("a", of("Running", "True", ""));
    moment().await;
    assert_eq!(node.patches()[1], (Urgency::Urgent, "a".to_owned()));
    assert_eq!(node.shown_status("a")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_shows_already_is_not_written() {
    let node = Node::started();
    node.add("a");
    node.api.change("a", |pod| pod["status"] = of("Running", "True", "x"));
    node.watch("a");
    node.status("a", of("Running", "True", "x"));
    seconds(60).await;
    assert_eq!(node.api.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_somebody_overwrote_is_put_right_in_time() {
    let node = Node::started();
    node.add("a");
    node.status("a", of("Running", "True", ""));
    moment().await;
    node.watch("a");
    node.api.change("a", |pod| pod["status"]["phase"] = json!("Unknown"));
    node.watch("a");
    moment().await;
    assert_eq!(node.patches().len(), 1);
    seconds(11).await;
    assert_eq!(node.patches().len(), 2);
    assert_eq!(node.shown_status("a")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn an_old_view_of_the_watch_does_not_bring_a_second_write() {
    let node = Node::started();
    node.add("a");
    node.status("a", of("Running", "True", ""));
    seconds(60).await;
    // The watch has not shown the write yet.
    assert_eq!(node.patches().len(), 1);
    node.watch("a");
    seconds(60).await;
    assert_eq!(node.patches().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_outlived_and_the_newest_status_arrives() {
    let node = Node::started();
    for name in ["a", "b", "c"] {
        node.add(name);
    }
    node.api.set_fault(|_| Some(api_error(ApiErrorKind::Unreachable)));
    for name in ["a", "b", "c"] {
        node.status(name, of("Running", "False", "early"));
    }
    seconds(300).await;
    let tried = node.api.writes().len();
    assert!((20..60).contains(&tried), "{tried} requests in five minutes");
    for name in ["a", "b", "c"] {
        node.status(name, of("Running", "True", "late"));
    }
    node.api.clear_writes();
    node.api.clear_fault();
    seconds(20).await;
    assert_eq!(node.patches().len(), 3);
    for name in ["a", "b", "c"] {
        assert_eq!(node.shown_status(name)["conditions"][0]["message"], "late");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_rest_gets_it() {
    let node = Node::started();
    node.add("a");
    node.api.set_fault(|_| {
        let retry_after = Some(Duration::from_secs(30));
        Some(ports::api::ApiError { retry_after, ..api_error(ApiErrorKind::Throttled) })
    });
    node.status("a", of("Running", "True", ""));
    seconds(29).await;
    assert_eq!(node.patches().len(), 1);
    node.api.clear_fault();
    seconds(20).await;
    assert_eq!(node.patches().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_made_anew_under_its_name_is_left_alone() {
    for kind in [ApiErrorKind::NotFound, ApiErrorKind::Conflict] {
        let node = Node::started();
        node.add("a");
        match kind {
            ApiErrorKind::NotFound => node.api.remove("a"),
            _ => node.api.change("a", |pod| pod["metadata"]["uid"] = json!("another")),
        }
        node.status("a", of("Running", "True", ""));
        seconds(60).await;
        assert_eq!(node.patches().len(), 1, "{kind:?}");
        node.status("a", of("Running", "False", ""));
        seconds(60).await;
        assert_eq!(node.patches().len(), 1, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_over_the_same_pod_is_tried_again() {
    let node = Node::started();
    node.add("a");
    let mut first = true;
    node.api.set_fault(move |_| std::mem::take(&mut first).then(|| api_error(ApiErrorKind::Conflict)));
    node.status("a", of("Running", "True", ""));
    seconds(1).await;
    assert_eq!(node.patches().len(), 2);
    assert_eq!(node.shown_status("a")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_refused_status_is_tried_ever_less_and_holds_up_nobody() {
    let node = Node::started();
    node.add("bad");
    node.add("good");
    node.api.set_fault(|write| match write {
        ApiWrite::Patch { name, .. } if name == "bad" => Some(api_error(ApiErrorKind::Invalid)),
        _ => None,
    });
    node.status("bad", of("Running", "True", ""));
    node.status("good", of("Running", "True", ""));
    seconds(1).await;
    assert_eq!(node.shown_status("good")["phase"], "Running");
    seconds(300).await;
    let tried = node.patches().iter().filter(|(_, name)| name == "bad").count();
    assert!((3..8).contains(&tried), "{tried}");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_goes_once_it_is_over_and_nothing_of_it_is_left() {
    let node = Node::started();
    node.add("a");
    node.worker("a", WorkerPhase::Syncing);
    node.status("a", of("Running", "True", ""));
    moment().await;
    node.api.delete_gracefully("a", 30);
    node.watch("a");
    node.worker("a", WorkerPhase::Terminating);
    node.status("a", of("Failed", "False", ""));
    seconds(20).await;
    assert_eq!(node.shown_status("a")["phase"], "Running", "an end is not told while something may run");
    node.worker("a", WorkerPhase::Terminated);
    seconds(20).await;
    assert_eq!(node.shown_status("a")["phase"], "Failed");
    assert!(!node.api.writes().iter().any(|write| matches!(write, ApiWrite::Delete { .. })));
    node.worker("a", WorkerPhase::Finished);
    moment().await;
    assert_eq!(node.api.pod("a"), None);
    let expected = ApiWrite::Delete { name: "a".into(), uid: "uid-a".into(), grace_seconds: 0 };
    assert_eq!(node.api.writes().last(), Some(&expected));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_does_not_bring_a_second_delete() {
    let node = Node::started();
    node.add("a");
    node.api.change("a", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.com/keep"]);
        pod["status"] = of("Failed", "False", "");
    });
    node.api.delete_gracefully("a", 30);
    node.watch("a");
    node.worker("a", WorkerPhase::Finished);
    node.status("a", of("Failed", "False", ""));
    moment().await;
    node.watch("a");
    seconds(120).await;
    assert_eq!(node.api.writes().len(), 1, "{:?}", node.api.writes());
}

#[tokio::test(start_paused = true)]
async fn urgent_writes_do_not_wait_for_others() {
    let node = Node::started();
    for index in 0..40 {
        let name = format!("slow-{index}");
        node.add(&name);
        node.status(&name, of("Running", "False", ""));
    }
    node.add("ready");
    node.status("ready", of("Running", "True", ""));
    moment().await;
    assert_eq!(node.patches()[0], (Urgency::Urgent, "ready".to_owned()));
    assert_eq!(node.patches().len(), 41);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_static_pod_goes_to_its_mirror() {
    let node = Node::started();
    let object = |uid: &str, annotation: &str| {
        json!({"metadata": {"name": "s", "namespace": "ns", "uid": uid, "annotations": {annotation: "hash"}},
            "spec": {"containers": []}})
    };
    let own = serde_json::from_value(object("uid-s", model::labels::CONFIG_HASH)).unwrap();
    let own = Arc::new(Pod::from_object(own, PodSource::File).unwrap());
    node.desired.set(&own.uid, Arc::clone(&own));
    node.status("s", of("Running", "True", ""));
    seconds(20).await;
    assert_eq!(node.api.writes(), []);

    node.api.put(object("mirror", model::labels::CONFIG_MIRROR));
    let mirror = serde_json::from_value(node.api.pod("s").unwrap()).unwrap();
    node.shown.set(&Arc::new(Pod::from_object(mirror, PodSource::Api).unwrap()));
    moment().await;
    assert_eq!(node.shown_status("s")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_not_made_twice() {
    let node = Node::started();
    node.add("a");
    node.worker("a", WorkerPhase::Syncing);
    node.api.lose_answers(1);
    node.status("a", of("Running", "True", ""));
    // The watch is silent all the while: only a look at the object tells that the write arrived.
    seconds(60).await;
    assert_eq!(node.patches().len(), 1, "{:?}", node.api.writes());
    assert_eq!(node.shown_status("a")["phase"], "Running");
    // What is new afterwards is written, once.
    node.status("a", of("Running", "False", ""));
    seconds(60).await;
    assert_eq!(node.patches().len(), 2, "{:?}", node.api.writes());
}

#[tokio::test(start_paused = true)]
async fn the_time_until_the_server_has_a_status_is_measured() {
    let node = Node::started();
    node.add("a");
    node.api.set_fault(|_| Some(api_error(ApiErrorKind::Unreachable)));
    node.status("a", of("Running", "True", "m"));
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
