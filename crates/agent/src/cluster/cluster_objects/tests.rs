use std::collections::HashMap;

use model::{ObjectKind, Pod, PodSource, PodUid, WorkerPhase, WorkerView};
use ports::api::{Feed, FeedStream};
use serde_json::json;
use testkit::builders::{pod, worker_view};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use parking_lot::MutexGuard;

use super::*;
use crate::pipeline::tables::{Writer, table};

/// A server that the tests control.
#[derive(Default)]
struct FakeServer {
    state: Mutex<FakeState>,
}

#[derive(Default)]
struct FakeState {
    watches: HashMap<String, mpsc::UnboundedSender<Feed<ConfigObject>>>,
    watches_started: usize,
    gets: usize,
    answers: HashMap<String, Result<ConfigObject, ApiError>>,
}

impl FakeServer {
    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock()
    }

    fn send(&self, name: &str, item: Feed<ConfigObject>) {
        self.state().watches[name].send(item).unwrap();
    }

    fn is_watched(&self, name: &str) -> bool {
        self.state().watches.get(name).is_some_and(|watch| !watch.is_closed())
    }
}

#[async_trait]
impl ApiObjects for FakeServer {
    async fn get(&self, key: &ObjectKey) -> Result<ConfigObject, ApiError> {
        let mut state = self.state();
        state.gets += 1;
        state.answers.get(&key.name).cloned().unwrap_or_else(|| Err(error(ApiErrorKind::NotFound)))
    }

    fn watch(&self, key: &ObjectKey) -> FeedStream<ConfigObject> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        state.watches_started += 1;
        state.watches.insert(key.name.clone(), sender);
        futures::stream::poll_fn(move |context| receiver.poll_recv(context)).boxed()
    }
}

fn error(kind: ApiErrorKind) -> ApiError {
    ApiError { kind, message: "no".into(), retry_after: None }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey { kind: ObjectKind::ConfigMap, namespace: "default".into(), name: name.into() }
}

fn object(name: &str, value: &str) -> ConfigObject {
    ConfigObject {
        key: key(name),
        uid: String::new(),
        data: [("k".to_owned(), value.as_bytes().to_vec())].into(),
        binary_data: Default::default(),
        secret_type: String::new(),
        immutable: false,
    }
}

struct Stage {
    server: Arc<FakeServer>,
    objects: Arc<ClusterObjects>,
    desired: Writer<Pod>,
    workers: Writer<WorkerView>,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Stage {
    fn new(strategy: ChangeDetectionStrategy) -> Self {
        let server = Arc::new(FakeServer::default());
        let (objects, watch_requests) = ClusterObjects::new(server.clone(), strategy);
        let (changed, changed_pods) = timing::key_channel();
        let (desired, desired_reader) = table(vec![changed.clone()]);
        let (workers, worker_reader) = table(vec![changed]);
        let deps = ClusterObjectsDeps {
            objects: objects.clone(),
            watch_requests,
            changed_pods,
            desired: desired_reader,
            workers: worker_reader,
        };
        let cancel = CancellationToken::new();
        let task = tokio::spawn(run(deps, cancel.clone()));
        Self { server, objects, desired, workers, cancel, task }
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    async fn add_pod(&self, uid: &str, config_map: &str) {
        let spec =
            json!({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": config_map}}]}]});
        self.desired.set(&uid.into(), Arc::new(pod(uid, PodSource::Api, spec)));
        self.settle().await;
    }

    async fn worker(&self, uid: &str, phase: WorkerPhase) {
        self.workers.set(&PodUid::from(uid), Arc::new(worker_view(uid, phase)));
        self.settle().await;
    }

    async fn value(&self, name: &str) -> Result<String, String> {
        let object = self.objects.get(&key(name)).await.map_err(|error| error.to_string())?;
        Ok(String::from_utf8(object.data["k"].clone()).unwrap())
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn pods_share_one_watch_until_the_last_is_finished() {
    let stage = Stage::new(ChangeDetectionStrategy::Watch);
    stage.add_pod("one", "a").await;
    stage.add_pod("two", "a").await;
    assert_eq!(stage.server.state().watches_started, 1);
    stage.server.send("a", Feed::Listed(vec![object("a", "1")]));
    assert_eq!(stage.value("a").await.unwrap(), "1");

    for uid in ["one", "two"] {
        stage.worker(uid, WorkerPhase::Syncing).await;
    }
    stage.desired.remove(&"one".into());
    stage.desired.remove(&"two".into());
    stage.worker("one", WorkerPhase::Finished).await;
    stage.worker("two", WorkerPhase::Terminating).await;
    assert!(stage.server.is_watched("a"), "pod two still uses it");
    stage.worker("two", WorkerPhase::Finished).await;
    assert!(!stage.server.is_watched("a"));
    assert!(stage.objects.export().is_empty());
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn sends_one_hint_per_change_and_returns_current_state() {
    let stage = Stage::new(ChangeDetectionStrategy::Watch);
    let mut changes = stage.objects.changes();
    stage.add_pod("one", "a").await;
    let steps = [
        // No reader timed out before this state, so no hint is sent.
        (Feed::Listed(vec![]), Err("configmap \"a\" not found".to_owned()), false),
        (Feed::Applied(object("a", "1")), Ok("1".to_owned()), true),
        (Feed::Applied(object("a", "1")), Ok("1".to_owned()), false),
        (Feed::Applied(object("a", "2")), Ok("2".to_owned()), true),
        (Feed::Failed(error(ApiErrorKind::Unreachable)), Ok("2".to_owned()), false),
        (Feed::Listed(vec![object("a", "2")]), Ok("2".to_owned()), false),
        (Feed::Deleted(object("a", "2")), Err("configmap \"a\" not found".to_owned()), true),
    ];
    for (item, value, expects_hint) in steps {
        stage.server.send("a", item.clone());
        stage.settle().await;
        assert_eq!(stage.value("a").await, value, "{item:?}");
        let hinted = futures::FutureExt::now_or_never(changes.next()).is_some();
        assert_eq!(hinted, expects_hint, "{item:?}");
    }
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn read_waits_out_a_forbidden_watch_and_sends_hint_on_recovery() {
    let stage = Stage::new(ChangeDetectionStrategy::Watch);
    let mut changes = stage.objects.changes();
    stage.add_pod("one", "a").await;
    stage.server.send("a", Feed::Failed(error(ApiErrorKind::Forbidden)));
    let start = Instant::now();
    assert_eq!(stage.value("a").await.unwrap_err(), "failed to sync configmap cache: no");
    assert_eq!(start.elapsed(), FIRST_READ_TIMEOUT);
    let (value, ()) = tokio::join!(stage.value("a"), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stage.server.send("a", Feed::Listed(vec![object("a", "1")]));
    });
    assert_eq!(value.unwrap(), "1");
    assert_eq!(changes.next().await.unwrap(), key("a"), "the earlier read timed out");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stops_watching_immutable_object_and_keeps_it() {
    let stage = Stage::new(ChangeDetectionStrategy::Watch);
    stage.add_pod("one", "a").await;
    stage.server.send("a", Feed::Listed(vec![ConfigObject { immutable: true, ..object("a", "1") }]));
    stage.settle().await;
    assert!(!stage.server.is_watched("a"));
    assert_eq!(stage.value("a").await.unwrap(), "1");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn read_without_reference_starts_watch_that_expires() {
    let stage = Stage::new(ChangeDetectionStrategy::Watch);
    assert_eq!(
        stage.value("a").await.unwrap_err(),
        "failed to sync configmap cache: timed out waiting for the condition"
    );
    stage.add_pod("one", "a").await;
    assert_eq!(stage.server.state().watches_started, 1, "the reference joins the existing watch");
    assert!(stage.value("b").await.is_err());
    tokio::time::sleep(Duration::from_secs(130)).await;
    assert!(stage.server.is_watched("a"));
    assert!(!stage.server.is_watched("b"));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failing_watch_ends_soon_if_no_pod_refers_to_the_object() {
    let stage = Stage::new(ChangeDetectionStrategy::Watch);
    stage.add_pod("live", "used").await;
    stage.value("used").await.unwrap_err();
    // The sync of a pod that is deleted meanwhile.
    stage.value("deleted").await.unwrap_err();
    for second in 1..=10 {
        for name in ["deleted", "used"] {
            if stage.server.is_watched(name) {
                stage.server.send(name, Feed::Failed(error(ApiErrorKind::Forbidden)));
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(stage.server.is_watched("used"), "after {second} s");
        assert_eq!(stage.server.is_watched("deleted"), second < 5, "after {second} s");
    }
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn uses_seeds_only_while_server_is_unreachable() {
    let stage = Stage::new(ChangeDetectionStrategy::Watch);
    stage.objects.seed(vec![Arc::new(object("a", "old")), Arc::new(object("b", "old"))]);
    stage.add_pod("one", "a").await;
    stage.add_pod("two", "b").await;
    stage.server.send("a", Feed::Failed(error(ApiErrorKind::Unreachable)));
    stage.settle().await;
    let start = Instant::now();
    assert_eq!(stage.value("a").await.unwrap(), "old");
    assert!(
        start.elapsed() < Duration::from_millis(10),
        "a read does not wait for a server that is known to be unreachable"
    );
    assert_eq!(stage.objects.export().len(), 2);
    stage.server.send("a", Feed::Listed(vec![object("a", "new")]));
    stage.server.send("b", Feed::Listed(vec![]));
    stage.settle().await;
    assert_eq!(stage.value("a").await.unwrap(), "new");
    assert!(stage.value("b").await.is_err());
    assert_eq!(stage.objects.export().len(), 1);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn get_reads_every_time_and_cache_reads_after_ttl_or_for_new_pod() {
    let minute = Duration::from_secs(60);
    for (strategy, expected) in
        [(ChangeDetectionStrategy::Get, [1, 2, 3, 4]), (ChangeDetectionStrategy::Cache(minute), [1, 1, 2, 3])]
    {
        let stage = Stage::new(strategy);
        stage.add_pod("one", "a").await;
        stage.server.state().answers.insert("a".into(), Ok(object("a", "1")));
        let mut gets = Vec::new();
        for step in 0..4 {
            match step {
                2 => tokio::time::sleep(minute).await,
                3 => stage.add_pod("two", "a").await,
                _ => {}
            }
            assert_eq!(stage.value("a").await.unwrap(), "1");
            gets.push(stage.server.state().gets);
        }
        assert_eq!(gets, expected, "{strategy:?}");
        assert_eq!(stage.server.state().watches_started, 0);
        // The last content is used while the server is unreachable.
        stage.server.state().answers.insert("a".into(), Err(error(ApiErrorKind::Unreachable)));
        tokio::time::sleep(minute).await;
        assert_eq!(stage.value("a").await.unwrap(), "1");
        stage.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn node_ttl_annotation_overrides_cache_duration() {
    let stage = Stage::new(ChangeDetectionStrategy::Cache(Duration::from_secs(60)));
    let (publish, view) = crate::node::node_view::channel();
    stage.objects.set_node_view(view);
    stage.add_pod("one", "a").await;
    stage.server.state().answers.insert("a".into(), Ok(object("a", "1")));
    let annotated = |seconds: &str| {
        let annotations = json!({"node.alpha.kubernetes.io/ttl": seconds});
        let node = json!({"metadata": {"annotations": annotations}});
        NodeView::of(Arc::new(serde_json::from_value(node).unwrap()))
    };
    let mut gets = Vec::new();
    for ttl in ["", "10", "0", "300"] {
        publish.send_replace(annotated(ttl));
        stage.value("a").await.unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await;
        stage.value("a").await.unwrap();
        gets.push(stage.server.state().gets);
    }
    assert_eq!(gets, [1, 3, 5, 5], "cached for a minute, ten seconds, not at all, five minutes");
    stage.stop().await;
}
