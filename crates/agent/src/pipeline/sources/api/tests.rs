use futures::stream::BoxStream;
use model::{PodFullName, Standing, Timestamp};
use ports::api::{ApiErrorKind, FeedStream};
use serde_json::{Value, json};
use testkit::fake_clock::FakeClock;

use super::*;
use crate::cluster::api_pods::{ApiPodsReader, api_pods};
use crate::pipeline::source_report::SourceReports;
use crate::test_checkpoints::Files;

/// An API server whose watch returns the events of the test.
struct FakeApiPods(parking_lot::Mutex<Option<mpsc::UnboundedReceiver<Feed<core::Pod>>>>);

#[async_trait::async_trait]
impl ApiPods for FakeApiPods {
    fn watch(&self) -> FeedStream<core::Pod> {
        let events = self.0.lock().take().unwrap();
        let stream: BoxStream<'static, _> = futures::stream::unfold(events, |mut events| async {
            events.recv().await.map(|next| (next, events))
        })
        .boxed();
        stream
    }

    async fn get(&self, _: &PodFullName) -> Result<core::Pod, ApiError> {
        unreachable!("a source only watches")
    }

    async fn create(&self, _: &core::Pod) -> Result<core::Pod, ApiError> {
        unreachable!("a source only watches")
    }

    async fn patch_status(
        &self,
        _: model::StatusUrgency,
        _: &PodFullName,
        _: &Value,
    ) -> Result<core::Pod, ApiError> {
        unreachable!("a source only watches")
    }

    async fn delete(&self, _: &PodFullName, _: &PodUid, _: i64) -> Result<(), ApiError> {
        unreachable!("a source only watches")
    }
}

struct Fixture {
    feed: mpsc::UnboundedSender<Feed<core::Pod>>,
    snapshots: mpsc::Receiver<Snapshot>,
    api_pods: ApiPodsReader,
    publish: watch::Sender<NodeView>,
    _running: tokio::task::JoinSet<()>,
}

impl Fixture {
    fn without_cache() -> Self {
        Self::with_cache(OfflineCache::disabled(), None)
    }

    fn with_cache(offline_cache: OfflineCache, max_age: Option<Duration>) -> Self {
        let (feed, received) = mpsc::unbounded_channel();
        let (sender, snapshots) = mpsc::channel(8);
        let (writer, api_pods) = api_pods(Vec::new());
        let (publish, node) = node_view::channel();
        let deps = ApiSourceDeps {
            pods: Arc::new(FakeApiPods(parking_lot::Mutex::new(Some(received)))),
            node,
            snapshots: sender,
            api_pods: writer,
            report: Arc::new(SourceReports::new(Arc::new(FakeClock::fixed(1)))),
            clock: Arc::new(FakeClock::fixed(1)),
            restarts: RestartRules::All,
            offline_cache,
            max_age,
        };
        let mut running = tokio::task::JoinSet::new();
        running.spawn(run(deps, CancellationToken::new()));
        Self { feed, snapshots, api_pods, publish, _running: running }
    }

    fn publish_node(&self) {
        self.publish.send_replace(NodeView::of(Arc::default()));
    }

    async fn pods(&mut self) -> Vec<Arc<Pod>> {
        self.snapshots.recv().await.unwrap().pods
    }

    /// Whether the source sends nothing within a second.
    async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_secs(1), self.snapshots.recv()).await.is_err()
    }
}

fn object(name: &str, version: &str) -> core::Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version},
        "spec": {"containers": []},
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn first_snapshot_needs_the_node_and_a_list() {
    let mut source = Fixture::without_cache();
    source.feed.send(Feed::Listed(vec![object("a", "1")])).unwrap();
    assert!(source.is_silent().await);
    source.publish_node();
    assert_eq!(source.pods().await.len(), 1);
    assert!(source.api_pods.has_listed());
}

#[tokio::test(start_paused = true)]
async fn sends_nothing_before_the_first_list_despite_failures() {
    let mut source = Fixture::without_cache();
    source.publish_node();
    let error = ApiError { kind: ApiErrorKind::Unreachable, message: "away".into(), retry_after: None };
    source.feed.send(Feed::Failed(error)).unwrap();
    assert!(source.is_silent().await);
    source.feed.send(Feed::Listed(vec![])).unwrap();
    assert!(source.pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn shares_unchanged_pods_and_keeps_first_seen_time_of_changed_ones() {
    let mut source = Fixture::without_cache();
    source.publish_node();
    source.feed.send(Feed::Listed(vec![object("a", "1"), object("b", "2")])).unwrap();
    let first = source.pods().await;
    assert_eq!(first[0].annotation(labels::CONFIG_SOURCE), Some("api"));
    assert!(first[0].annotation(labels::CONFIG_SEEN).is_some());

    source.feed.send(Feed::Applied(object("b", "3"))).unwrap();
    let second = source.pods().await;
    assert!(Arc::ptr_eq(&first[0], &second[0]));
    assert!(!Arc::ptr_eq(&first[1], &second[1]));
    assert_eq!(first[1].annotation(labels::CONFIG_SEEN), second[1].annotation(labels::CONFIG_SEEN));

    // A restarted watch lists all pods: unchanged ones are shared, missing ones are removed.
    source.feed.send(Feed::Listed(vec![object("b", "3"), object("c", "4")])).unwrap();
    let third = source.pods().await;
    assert!(Arc::ptr_eq(&second[1], &third[0]));
    assert_eq!(third.len(), 2);
    assert!(source.api_pods.get(&"uid-a".into()).is_none());

    source.feed.send(Feed::Deleted(object("b", "5"))).unwrap();
    assert_eq!(source.pods().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn publishes_mirror_pods_without_running_them_and_skips_invalid_objects() {
    let mut source = Fixture::without_cache();
    source.publish_node();
    let mut mirror = object("m", "1");
    mirror.metadata.annotations = Some([(labels::CONFIG_MIRROR.to_owned(), "hash".to_owned())].into());
    let mut odd = object("odd", "1");
    odd.spec = None;
    source.feed.send(Feed::Listed(vec![mirror.clone(), odd])).unwrap();
    assert!(source.pods().await.is_empty());
    let name = PodFullName { namespace: "ns".into(), name: "m".into() };
    assert_eq!(source.api_pods.mirror(&name).unwrap().uid.as_str(), "uid-m");
    source.feed.send(Feed::Deleted(mirror)).unwrap();
    assert!(source.pods().await.is_empty());
    assert!(source.api_pods.mirror(&name).is_none());
}

/// A cache that was written by an agent with the pod `a`.
async fn cache_with_pod_a() -> OfflineCache {
    let cache = OfflineCache::new(Arc::new(Files::default()));
    let mut source = Fixture::with_cache(cache.clone(), None);
    source.publish_node();
    source.feed.send(Feed::Listed(vec![object("a", "1")])).unwrap();
    assert_eq!(source.pods().await.len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    cache
}

#[tokio::test(start_paused = true)]
async fn sends_cached_pods_until_the_api_server_answers() {
    let mut source = Fixture::with_cache(cache_with_pod_a().await, None);
    assert!(source.is_silent().await, "the API server has a few seconds to answer");
    let restored = source.snapshots.recv().await.unwrap();
    assert_eq!(restored.kind, SnapshotKind::Restore);
    assert_eq!(restored.pods[0].standing, Standing::Remembered);
    assert!(!source.api_pods.has_listed());

    source.publish_node();
    source.feed.send(Feed::Listed(vec![object("a", "1")])).unwrap();
    let set = source.snapshots.recv().await.unwrap();
    assert_eq!((set.kind, set.pods[0].standing), (SnapshotKind::Set, Standing::Confirmed));
}

#[tokio::test(start_paused = true)]
async fn list_discards_cached_pods() {
    let mut source = Fixture::with_cache(cache_with_pod_a().await, None);
    source.publish_node();
    source.feed.send(Feed::Listed(vec![])).unwrap();
    assert_eq!(source.snapshots.recv().await.unwrap().kind, SnapshotKind::Set);
    tokio::time::sleep(ANSWER_TIMEOUT * 2).await;
    assert!(source.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn cached_pods_older_than_max_age_are_not_run() {
    let cache = OfflineCache::new(Arc::new(Files::default()));
    cache.save("pods", &[object("a", "1")], Timestamp::from_secs(-100)).await;
    let mut source = Fixture::with_cache(cache.clone(), Some(Duration::from_secs(50)));
    tokio::time::sleep(ANSWER_TIMEOUT * 2).await;
    assert!(source.is_silent().await);
    let mut source = Fixture::with_cache(cache, Some(Duration::from_secs(200)));
    assert_eq!(source.pods().await.len(), 1);
}
