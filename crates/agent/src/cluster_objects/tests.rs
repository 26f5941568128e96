use std::collections::HashMap;

use model::{ObjectKind, Pod, PodSource, PodUid, WorkerPhase, WorkerView};
use ports::api::{Feed, FeedStream};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::published::{Writer, table};

/// A server that the test plays.
#[derive(Default)]
struct FakeServer {
    state: Mutex<FakeState>,
}

#[derive(Default)]
struct FakeState {
    watches: HashMap<String, mpsc::UnboundedSender<Feed<ConfigObject>>>,
    watches_begun: usize,
    gets: usize,
    answers: HashMap<String, Result<ConfigObject, ApiError>>,
}

impl FakeServer {
    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap()
    }

    fn tell(&self, name: &str, item: Feed<ConfigObject>) {
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
        state.watches_begun += 1;
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
    fn new(strategy: Strategy) -> Self {
        let server = Arc::new(FakeServer::default());
        let (objects, orders) = ClusterObjects::new(server.clone(), strategy);
        let (changed, changed_pods) = mpsc::unbounded_channel();
        let (desired, desired_reader) = table(vec![changed.clone()]);
        let (workers, worker_reader) = table(vec![changed]);
        let parts = Parts {
            objects: objects.clone(),
            orders,
            changed_pods,
            desired: desired_reader,
            workers: worker_reader,
        };
        let cancel = CancellationToken::new();
        let task = tokio::spawn(run(parts, cancel.clone()));
        Self { server, objects, desired, workers, cancel, task }
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    async fn want(&self, uid: &str, config_map: &str) {
        let object = json!({
            "metadata": {"name": uid, "namespace": "default", "uid": uid},
            "spec": {"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": config_map}}]}]},
        });
        let pod = Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap();
        self.desired.set(&uid.into(), Arc::new(pod));
        self.settle().await;
    }

    async fn worker(&self, uid: &str, phase: WorkerPhase) {
        let view = WorkerView {
            uid: uid.into(),
            full_name: model::PodFullName { namespace: "default".into(), name: uid.into() },
            phase,
            started: true,
            restart_requested: false,
            orphan: false,
            is_static: false,
            problems: Default::default(),
            last_error: None,
            rejection: None,
            passed: true,
        };
        self.workers.set(&PodUid::from(uid), Arc::new(view));
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
    let stage = Stage::new(Strategy::Watch);
    stage.want("one", "a").await;
    stage.want("two", "a").await;
    assert_eq!(stage.server.state().watches_begun, 1);
    stage.server.tell("a", Feed::Listed(vec![object("a", "1")]));
    assert_eq!(stage.value("a").await.unwrap(), "1");

    for uid in ["one", "two"] {
        stage.worker(uid, WorkerPhase::Syncing).await;
    }
    stage.desired.remove(&"one".into());
    stage.desired.remove(&"two".into());
    stage.worker("one", WorkerPhase::Finished).await;
    stage.worker("two", WorkerPhase::Terminating).await;
    assert!(stage.server.is_watched("a"), "one of its pods still runs");
    stage.worker("two", WorkerPhase::Finished).await;
    assert!(!stage.server.is_watched("a"));
    assert!(stage.objects.known().is_empty());
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_came_changed_or_went_is_told_once_and_handed_out() {
    let stage = Stage::new(Strategy::Watch);
    let mut changes = stage.objects.changes();
    stage.want("one", "a").await;
    let steps = [
        // Nobody asked yet: who does gets this answer.
        (Feed::Listed(vec![]), Err("configmap \"a\" not found".to_owned()), false),
        (Feed::Applied(object("a", "1")), Ok("1".to_owned()), true),
        (Feed::Applied(object("a", "1")), Ok("1".to_owned()), false),
        (Feed::Applied(object("a", "2")), Ok("2".to_owned()), true),
        (Feed::Failed(error(ApiErrorKind::Unreachable)), Ok("2".to_owned()), false),
        (Feed::Listed(vec![object("a", "2")]), Ok("2".to_owned()), false),
        (Feed::Deleted(object("a", "2")), Err("configmap \"a\" not found".to_owned()), true),
    ];
    for (item, value, is_news) in steps {
        stage.server.tell("a", item.clone());
        stage.settle().await;
        assert_eq!(stage.value("a").await, value, "{item:?}");
        let told = futures::FutureExt::now_or_never(changes.next()).is_some();
        assert_eq!(told, is_news, "{item:?}");
    }
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_waited_out_and_then_told() {
    let stage = Stage::new(Strategy::Watch);
    let mut changes = stage.objects.changes();
    stage.want("one", "a").await;
    stage.server.tell("a", Feed::Failed(error(ApiErrorKind::Forbidden)));
    let began = Instant::now();
    assert_eq!(stage.value("a").await.unwrap_err(), "failed to sync configmap cache: no");
    assert_eq!(began.elapsed(), PATIENCE);
    let (value, ()) = tokio::join!(stage.value("a"), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stage.server.tell("a", Feed::Listed(vec![object("a", "1")]));
    });
    assert_eq!(value.unwrap(), "1");
    assert_eq!(changes.next().await.unwrap(), key("a"), "who went without it is told");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_immutable_object_is_watched_no_longer_but_kept() {
    let stage = Stage::new(Strategy::Watch);
    stage.want("one", "a").await;
    stage.server.tell("a", Feed::Listed(vec![ConfigObject { immutable: true, ..object("a", "1") }]));
    stage.settle().await;
    assert!(!stage.server.is_watched("a"));
    assert_eq!(stage.value("a").await.unwrap(), "1");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_is_quicker_than_the_claim_begins_the_watch_which_ends_without_one() {
    let stage = Stage::new(Strategy::Watch);
    assert_eq!(
        stage.value("a").await.unwrap_err(),
        "failed to sync configmap cache: timed out waiting for the condition"
    );
    stage.want("one", "a").await;
    assert_eq!(stage.server.state().watches_begun, 1, "the claim joins it");
    assert!(stage.value("b").await.is_err());
    tokio::time::sleep(Duration::from_secs(130)).await;
    assert!(stage.server.is_watched("a"));
    assert!(!stage.server.is_watched("b"));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn seeds_serve_while_the_server_is_away_and_give_way_to_it() {
    let stage = Stage::new(Strategy::Watch);
    stage.objects.seed(vec![Arc::new(object("a", "old")), Arc::new(object("b", "old"))]);
    stage.want("one", "a").await;
    stage.want("two", "b").await;
    stage.server.tell("a", Feed::Failed(error(ApiErrorKind::Unreachable)));
    stage.settle().await;
    let began = Instant::now();
    assert_eq!(stage.value("a").await.unwrap(), "old");
    assert!(
        began.elapsed() < Duration::from_millis(10),
        "nobody waits for a server that is known to be away"
    );
    assert_eq!(stage.objects.known().len(), 2);
    stage.server.tell("a", Feed::Listed(vec![object("a", "new")]));
    stage.server.tell("b", Feed::Listed(vec![]));
    stage.settle().await;
    assert_eq!(stage.value("a").await.unwrap(), "new");
    assert!(stage.value("b").await.is_err());
    assert_eq!(stage.objects.known().len(), 1);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn get_asks_each_time_and_cache_after_its_time_or_for_a_new_pod() {
    let minute = Duration::from_secs(60);
    for (strategy, expected) in [(Strategy::Get, [1, 2, 3, 4]), (Strategy::Cache(minute), [1, 1, 2, 3])] {
        let stage = Stage::new(strategy);
        stage.want("one", "a").await;
        stage.server.state().answers.insert("a".into(), Ok(object("a", "1")));
        let mut gets = Vec::new();
        for step in 0..4 {
            match step {
                2 => tokio::time::sleep(minute).await,
                3 => stage.want("two", "a").await,
                _ => {}
            }
            assert_eq!(stage.value("a").await.unwrap(), "1");
            gets.push(stage.server.state().gets);
        }
        assert_eq!(gets, expected, "{strategy:?}");
        assert_eq!(stage.server.state().watches_begun, 0);
        // The last content serves while the server is away.
        stage.server.state().answers.insert("a".into(), Err(error(ApiErrorKind::Unreachable)));
        tokio::time::sleep(minute).await;
        assert_eq!(stage.value("a").await.unwrap(), "1");
        stage.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_control_plane_says_how_long_objects_are_kept() {
    let stage = Stage::new(Strategy::Cache(Duration::from_secs(60)));
    let (publish, view) = crate::node_view::channel();
    stage.objects.follow(view);
    stage.want("one", "a").await;
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
    assert_eq!(gets, [1, 3, 5, 5], "kept for a minute, ten seconds, not at all, five minutes");
    stage.stop().await;
}
