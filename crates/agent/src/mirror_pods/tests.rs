use k8s_openapi::api::core::v1::Node;
use model::{PodSource, labels};
use serde_json::json;
use testkit::fake_api::{ApiWrite, FakeApi, api_error};
use tokio::task::JoinSet;

use super::*;
use crate::api_pods::{ApiPodsWriter, api_pods};
use crate::node_view;
use crate::published::{Writer, table};

struct Fixture {
    api: FakeApi,
    desired: Writer<Pod>,
    shown: ApiPodsWriter,
    workers: Writer<WorkerView>,
    ready: watch::Sender<bool>,
    _node: watch::Sender<NodeView>,
    _running: JoinSet<()>,
}

impl Fixture {
    fn started() -> Self {
        let (changed, changes) = mpsc::unbounded_channel();
        let (shown_changed, shown_changes) = mpsc::unbounded_channel();
        let (desired, desired_reader) = table(vec![changed.clone()]);
        let (workers, worker_reader) = table(vec![changed]);
        let (shown, shown_reader) = api_pods(vec![shown_changed]);
        shown.set_listed();
        let (ready, sources_ready) = watch::channel(false);
        let (publish, node) = node_view::channel();
        let object: Node =
            serde_json::from_value(json!({"metadata": {"name": "node", "uid": "node-uid"}})).unwrap();
        publish.send_replace(NodeView::of(Arc::new(object)));
        let api = FakeApi::default();
        let parts = Parts {
            changes,
            shown_changes,
            sources_ready,
            desired: desired_reader,
            workers: worker_reader,
            shown: shown_reader,
            node,
            pods: Arc::new(api.clone()),
        };
        let mut running = JoinSet::new();
        running.spawn(run(parts, CancellationToken::new()));
        Self { api, desired, shown, workers, ready, _node: publish, _running: running }
    }

    fn want(&self, hash: &str) {
        self.want_as("static", hash);
    }

    fn want_as(&self, uid: &str, hash: &str) {
        let object = json!({
            "metadata": {"name": "s", "namespace": "ns", "uid": uid,
                "annotations": {labels::CONFIG_HASH: hash}},
            "spec": {"containers": []},
        });
        let pod = Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::File).unwrap();
        self.desired.set(&uid.into(), Arc::new(pod));
    }

    fn worker(&self, uid: &str, phase: WorkerPhase, started: bool) {
        let view = WorkerView {
            uid: uid.into(),
            full_name: PodFullName { namespace: "ns".into(), name: "s".into() },
            phase,
            started,
            passed: started,
            restart_requested: false,
            orphan: false,
            is_static: true,
            problems: Default::default(),
            last_error: None,
            rejection: None,
        };
        self.workers.set(&uid.into(), Arc::new(view));
    }

    /// Shows what the server has, as the watch would.
    fn watch(&self) -> Option<Arc<Pod>> {
        let object = serde_json::from_value(self.api.pod("s")?).unwrap();
        let pod = Arc::new(Pod::from_object(object, PodSource::Api).unwrap());
        self.shown.set(&pod);
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
async fn a_mirror_is_made_replaced_made_again_and_deleted() {
    let node = Fixture::started();
    node.want("one");
    seconds(1).await;
    assert_eq!(node.hash().as_deref(), Some("one"));
    let first = node.watch().unwrap();
    seconds(30).await;
    assert_eq!(node.api.writes().len(), 1, "what is in line is left alone");

    node.want("two");
    seconds(1).await;
    assert_eq!(node.hash(), None, "a mirror of another version goes");
    node.shown.remove(&first.uid);
    seconds(1).await;
    assert_eq!(node.hash().as_deref(), Some("two"));
    let second = node.watch().unwrap();

    node.api.remove("s");
    node.shown.remove(&second.uid);
    seconds(1).await;
    assert_eq!(node.hash().as_deref(), Some("two"), "a mirror that somebody deleted is made again");
    node.watch();

    node.desired.remove(&"static".into());
    seconds(30).await;
    assert!(node.hash().is_some(), "before every source has spoken no mirror goes");
    node.ready.send_replace(true);
    seconds(1).await;
    assert_eq!(node.hash(), None);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_stays_until_its_pod_has_stopped() {
    let node = Fixture::started();
    node.ready.send_replace(true);
    node.want("one");
    seconds(1).await;
    node.watch();
    node.worker("static", WorkerPhase::Terminating, true);
    node.desired.remove(&"static".into());
    seconds(30).await;
    assert!(node.hash().is_some());
    node.worker("static", WorkerPhase::Terminated, true);
    seconds(1).await;
    assert_eq!(node.hash(), None);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_of_the_version_before_stays_until_that_has_ended() {
    let node = Fixture::started();
    node.ready.send_replace(true);
    node.want_as("old", "one");
    node.worker("old", WorkerPhase::Syncing, true);
    seconds(1).await;
    let first = node.watch().unwrap();
    node.desired.remove(&"old".into());
    node.want_as("new", "two");
    seconds(1).await;
    for phase in [WorkerPhase::Terminating, WorkerPhase::Terminated] {
        node.worker("old", phase, true);
        node.worker("new", WorkerPhase::Syncing, false);
        seconds(30).await;
        assert_eq!(node.hash().as_deref(), Some("one"), "{phase:?}");
    }
    assert_eq!(node.api.writes().len(), 1);
    node.worker("old", WorkerPhase::Finished, true);
    seconds(1).await;
    assert_eq!(node.hash(), None);
    node.shown.remove(&first.uid);
    node.worker("new", WorkerPhase::Syncing, true);
    seconds(1).await;
    assert_eq!(node.hash().as_deref(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_outlived() {
    let node = Fixture::started();
    node.api.set_fault(|_| Some(api_error(ApiErrorKind::Unreachable)));
    node.want("one");
    seconds(300).await;
    let tried = node.api.writes().len();
    assert!((3..20).contains(&tried), "{tried}");
    node.api.clear_fault();
    seconds(60).await;
    assert_eq!(node.hash().as_deref(), Some("one"));
    assert!(matches!(node.api.writes().last(), Some(ApiWrite::Create { .. })));
}
