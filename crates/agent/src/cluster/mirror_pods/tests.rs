use k8s_openapi::api::core::v1::Node;
use model::WorkerProgress::{NotStarted, SyncedOnce};
use model::{PodSource, WorkerPodKind, WorkerProgress, labels};
use serde_json::json;
use testkit::builders::{parse_pod, worker_view};
use testkit::fake_api::{ApiWrite, FakeApi, api_error};
use tokio::task::JoinSet;

use super::*;
use crate::cluster::api_pods::{ApiPodsWriter, api_pods};
use crate::node::node_view;
use crate::pipeline::tables::{Writer, table};

struct Fixture {
    api: FakeApi,
    desired: Writer<Pod>,
    api_pods: ApiPodsWriter,
    workers: Writer<WorkerView>,
    ready: watch::Sender<bool>,
    _node: watch::Sender<NodeView>,
    _running: JoinSet<()>,
}

impl Fixture {
    fn started() -> Self {
        let (changed, changes) = timing::key_channel();
        let (api_pod_changed, api_pod_changes) = timing::key_channel();
        let (desired, desired_reader) = table(vec![changed.clone()]);
        let (workers, worker_reader) = table(vec![changed]);
        let (api_pods, api_pods_reader) = api_pods(vec![api_pod_changed]);
        api_pods.set_listed();
        let (ready, sources_ready) = watch::channel(false);
        let (publish, node) = node_view::channel();
        let object: Node =
            serde_json::from_value(json!({"metadata": {"name": "node", "uid": "node-uid"}})).unwrap();
        publish.send_replace(NodeView::of(Arc::new(object)));
        let api = FakeApi::default();
        let deps = MirrorPodsDeps {
            changes,
            api_pod_changes,
            sources_ready,
            desired: desired_reader,
            workers: worker_reader,
            api_pods: api_pods_reader,
            node,
            pods: Arc::new(api.clone()),
        };
        let mut running = JoinSet::new();
        running.spawn(run(deps, CancellationToken::new()));
        Self { api, desired, api_pods, workers, ready, _node: publish, _running: running }
    }

    fn set_pod(&self, hash: &str) {
        self.set_pod_with_uid("static", hash);
    }

    fn set_pod_with_uid(&self, uid: &str, hash: &str) {
        let object = json!({
            "metadata": {"name": "s", "namespace": "ns", "uid": uid,
                "annotations": {labels::CONFIG_HASH: hash}},
            "spec": {"containers": []},
        });
        self.desired.set(&uid.into(), Arc::new(parse_pod(object, PodSource::File)));
    }

    fn worker(&self, uid: &str, phase: WorkerPhase, progress: WorkerProgress) {
        let view = WorkerView {
            full_name: PodFullName { namespace: "ns".into(), name: "s".into() },
            pod_kind: WorkerPodKind::StaticPod,
            progress,
            ..worker_view(uid, phase)
        };
        self.workers.set(&uid.into(), Arc::new(view));
    }

    /// Copies the pod from the server to the table, as the watch would.
    fn sync_watch(&self) -> Option<Arc<Pod>> {
        let pod = Arc::new(parse_pod(self.api.pod("s")?, PodSource::Api));
        self.api_pods.set(&pod);
        Some(pod)
    }

    fn hash(&self) -> Option<String> {
        let pod = self.api.pod("s")?;
        pod["metadata"]["annotations"][labels::CONFIG_MIRROR].as_str().map(str::to_owned)
    }
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn creates_replaces_recreates_and_deletes_mirror_pod() {
    let node = Fixture::started();
    node.set_pod("one");
    seconds(1).await;
    assert_eq!(node.hash().as_deref(), Some("one"));
    let first = node.sync_watch().unwrap();
    seconds(30).await;
    assert_eq!(node.api.writes().len(), 1, "an up-to-date mirror pod is not written again");

    node.set_pod("two");
    seconds(1).await;
    assert_eq!(node.hash(), None, "a mirror pod of another version is deleted");
    node.api_pods.remove(&first.uid);
    seconds(1).await;
    assert_eq!(node.hash().as_deref(), Some("two"));
    let second = node.sync_watch().unwrap();

    node.api.remove("s");
    node.api_pods.remove(&second.uid);
    seconds(1).await;
    assert_eq!(node.hash().as_deref(), Some("two"), "a deleted mirror pod is created again");
    node.sync_watch();

    node.desired.remove(&"static".into());
    seconds(30).await;
    assert!(node.hash().is_some(), "no mirror pod is deleted before every source has delivered");
    node.ready.send_replace(true);
    seconds(1).await;
    assert_eq!(node.hash(), None);
}

#[tokio::test(start_paused = true)]
async fn keeps_mirror_pod_until_static_pod_has_stopped() {
    let node = Fixture::started();
    node.ready.send_replace(true);
    node.set_pod("one");
    seconds(1).await;
    node.sync_watch();
    node.worker("static", WorkerPhase::Terminating, SyncedOnce);
    node.desired.remove(&"static".into());
    seconds(30).await;
    assert!(node.hash().is_some());
    node.worker("static", WorkerPhase::Terminated, SyncedOnce);
    seconds(1).await;
    assert_eq!(node.hash(), None);
}

#[tokio::test(start_paused = true)]
async fn keeps_mirror_pod_of_old_version_until_it_is_finished() {
    let node = Fixture::started();
    node.ready.send_replace(true);
    node.set_pod_with_uid("old", "one");
    node.worker("old", WorkerPhase::Syncing, SyncedOnce);
    seconds(1).await;
    let first = node.sync_watch().unwrap();
    node.desired.remove(&"old".into());
    node.set_pod_with_uid("new", "two");
    seconds(1).await;
    for phase in [WorkerPhase::Terminating, WorkerPhase::Terminated] {
        node.worker("old", phase, SyncedOnce);
        node.worker("new", WorkerPhase::Syncing, NotStarted);
        seconds(30).await;
        assert_eq!(node.hash().as_deref(), Some("one"), "{phase:?}");
    }
    assert_eq!(node.api.writes().len(), 1);
    node.worker("old", WorkerPhase::Finished, SyncedOnce);
    seconds(1).await;
    assert_eq!(node.hash(), None);
    node.api_pods.remove(&first.uid);
    node.worker("new", WorkerPhase::Syncing, SyncedOnce);
    seconds(1).await;
    assert_eq!(node.hash().as_deref(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn retries_until_api_server_recovers() {
    let node = Fixture::started();
    node.api.set_fault(|_| Some(api_error(ApiErrorKind::Unreachable)));
    node.set_pod("one");
    seconds(300).await;
    let attempts = node.api.writes().len();
    assert!((3..20).contains(&attempts), "{attempts}");
    node.api.clear_fault();
    seconds(60).await;
    assert_eq!(node.hash().as_deref(), Some("one"));
    assert!(matches!(node.api.writes().last(), Some(ApiWrite::Create { .. })));
}

#[tokio::test(start_paused = true)]
async fn backs_off_while_the_namespace_does_not_exist() {
    let node = Fixture::started();
    node.api.set_fault(|_| Some(api_error(ApiErrorKind::NotFound)));
    node.set_pod("one");
    for _ in 0..600 {
        seconds(1).await;
        // Syncs of any pod wake the stage.
        node.worker("static", WorkerPhase::Syncing, SyncedOnce);
    }
    let attempts = node.api.writes().len();
    assert!((5..15).contains(&attempts), "{attempts}");
    node.api.clear_fault();
    seconds(120).await;
    assert_eq!(node.hash().as_deref(), Some("one"));
}

#[tokio::test(start_paused = true)]
async fn delays_between_retries_have_jitter() {
    let node = Fixture::started();
    let (attempted, mut attempts) = tokio::sync::mpsc::unbounded_channel();
    node.api.set_fault(move |_| {
        attempted.send(Instant::now()).unwrap();
        Some(api_error(ApiErrorKind::Unreachable))
    });
    node.set_pod("one");
    seconds(600).await;
    let attempts: Vec<Instant> = std::iter::from_fn(|| attempts.try_recv().ok()).collect();
    // Each attempt follows one period and one delay. Only a change that was pending at the start may replace a period.
    let gaps = attempts.windows(2).map(|pair| pair[1] - pair[0]);
    let delays: Vec<Duration> = gaps.map(|gap| gap.checked_sub(RECONCILE_PERIOD).unwrap_or(gap)).collect();
    assert!(delays.len() > 10, "{delays:?}");
    for (failures, delay) in (1..).zip(&delays) {
        let (base, rounding) = (BACKOFF.delay_after(failures), Duration::from_millis(2));
        assert!(
            *delay >= base && *delay <= base.mul_f64(1.5) + rounding,
            "{delay:?} after {failures} failures"
        );
    }
    assert!(delays.iter().skip(5).any(|delay| *delay > BACKOFF.cap.mul_f64(1.02)), "{delays:?}");
}
