use futures::stream::BoxStream;
use model::{PodFullName, Standing, Timestamp};
use ports::api::pods::Urgency;
use ports::api::{ApiErrorKind, FeedStream};
use serde_json::{Value, json};

use super::*;
use crate::api_pods::{ApiPodsReader, api_pods};
use crate::source_report::SourceReports;
use crate::test_checkpoints::Files;

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1)
    }
}

/// An API server that tells what it is given.
struct Told(std::sync::Mutex<Option<mpsc::UnboundedReceiver<Feed<core::Pod>>>>);

#[async_trait::async_trait]
impl ApiPods for Told {
    fn watch(&self) -> FeedStream<core::Pod> {
        let news = self.0.lock().unwrap().take().unwrap();
        let stream: BoxStream<'static, _> =
            futures::stream::unfold(news, |mut news| async { news.recv().await.map(|next| (next, news)) })
                .boxed();
        stream
    }

    async fn get(&self, _: &PodFullName) -> Result<core::Pod, ApiError> {
        unreachable!("a source only watches")
    }

    async fn create(&self, _: &core::Pod) -> Result<core::Pod, ApiError> {
        unreachable!("a source only watches")
    }

    async fn patch_status(&self, _: Urgency, _: &PodFullName, _: &Value) -> Result<core::Pod, ApiError> {
        unreachable!("a source only watches")
    }

    async fn delete(&self, _: &PodFullName, _: &PodUid, _: i64) -> Result<(), ApiError> {
        unreachable!("a source only watches")
    }
}

struct Fixture {
    tell: mpsc::UnboundedSender<Feed<core::Pod>>,
    snapshots: mpsc::Receiver<Snapshot>,
    shown: ApiPodsReader,
    publish: watch::Sender<NodeView>,
    _running: tokio::task::JoinSet<()>,
}

impl Fixture {
    fn started() -> Self {
        Self::with_memory(Memory::off(), None)
    }

    fn with_memory(memory: Memory, max_age: Option<Duration>) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let (sender, snapshots) = mpsc::channel(8);
        let (writer, shown) = api_pods(Vec::new());
        let (publish, node) = node_view::channel();
        let parts = Parts {
            pods: Arc::new(Told(std::sync::Mutex::new(Some(told)))),
            node,
            snapshots: sender,
            shown: writer,
            report: Arc::new(SourceReports::new(Arc::new(Fixed))),
            clock: Arc::new(Fixed),
            restarts: RestartRules::All,
            memory,
            max_age,
        };
        let mut running = tokio::task::JoinSet::new();
        running.spawn(run(parts, CancellationToken::new()));
        Self { tell, snapshots, shown, publish, _running: running }
    }

    fn node_is_known(&self) {
        self.publish.send_replace(NodeView::of(Arc::default()));
    }

    async fn pods(&mut self) -> Vec<Arc<Pod>> {
        self.snapshots.recv().await.unwrap().pods
    }

    /// Whether nothing was sent, once the source had time to.
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
async fn waits_for_the_node_and_the_first_list() {
    let mut source = Fixture::started();
    source.tell.send(Feed::Listed(vec![object("a", "1")])).unwrap();
    assert!(source.is_silent().await);
    source.node_is_known();
    assert_eq!(source.pods().await.len(), 1);
    assert!(source.shown.has_listed());
}

#[tokio::test(start_paused = true)]
async fn says_nothing_before_a_list_however_much_fails() {
    let mut source = Fixture::started();
    source.node_is_known();
    let error = ApiError { kind: ApiErrorKind::Unreachable, message: "away".into(), retry_after: None };
    source.tell.send(Feed::Failed(error)).unwrap();
    assert!(source.is_silent().await);
    source.tell.send(Feed::Listed(vec![])).unwrap();
    assert!(source.pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unchanged_pods_are_shared_and_changed_ones_keep_when_they_were_seen() {
    let mut source = Fixture::started();
    source.node_is_known();
    source.tell.send(Feed::Listed(vec![object("a", "1"), object("b", "2")])).unwrap();
    let first = source.pods().await;
    assert_eq!(first[0].annotation(labels::CONFIG_SOURCE), Some("api"));
    assert!(first[0].annotation(labels::CONFIG_SEEN).is_some());

    source.tell.send(Feed::Applied(object("b", "3"))).unwrap();
    let second = source.pods().await;
    assert!(Arc::ptr_eq(&first[0], &second[0]));
    assert!(!Arc::ptr_eq(&first[1], &second[1]));
    assert_eq!(first[1].annotation(labels::CONFIG_SEEN), second[1].annotation(labels::CONFIG_SEEN));

    // A watch that began anew lists everything: what it knows stays, what is gone goes.
    source.tell.send(Feed::Listed(vec![object("b", "3"), object("c", "4")])).unwrap();
    let third = source.pods().await;
    assert!(Arc::ptr_eq(&second[1], &third[0]));
    assert_eq!(third.len(), 2);
    assert!(source.shown.get(&"uid-a".into()).is_none());

    source.tell.send(Feed::Deleted(object("b", "5"))).unwrap();
    assert_eq!(source.pods().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn mirror_pods_are_known_but_not_run_and_odd_objects_are_left_out() {
    let mut source = Fixture::started();
    source.node_is_known();
    let mut mirror = object("m", "1");
    mirror.metadata.annotations = Some([(labels::CONFIG_MIRROR.to_owned(), "hash".to_owned())].into());
    let mut odd = object("odd", "1");
    odd.spec = None;
    source.tell.send(Feed::Listed(vec![mirror.clone(), odd])).unwrap();
    assert!(source.pods().await.is_empty());
    let name = PodFullName { namespace: "ns".into(), name: "m".into() };
    assert_eq!(source.shown.mirror(&name).unwrap().uid.as_str(), "uid-m");
    source.tell.send(Feed::Deleted(mirror)).unwrap();
    assert!(source.pods().await.is_empty());
    assert!(source.shown.mirror(&name).is_none());
}

/// A memory that holds what an agent knew that was told `a`.
async fn memory_of_a() -> Memory {
    let memory = Memory::new(Arc::new(Files::default()));
    let mut source = Fixture::with_memory(memory.clone(), None);
    source.node_is_known();
    source.tell.send(Feed::Listed(vec![object("a", "1")])).unwrap();
    assert_eq!(source.pods().await.len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    memory
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_remembered_pods_come_back_until_a_list_is_heard() {
    let mut source = Fixture::with_memory(memory_of_a().await, None);
    assert!(source.is_silent().await, "the API server has some seconds to answer");
    let restored = source.snapshots.recv().await.unwrap();
    assert_eq!(restored.kind, SnapshotKind::Restore);
    assert_eq!(restored.pods[0].standing, Standing::Remembered);
    assert!(!source.shown.has_listed());

    source.node_is_known();
    source.tell.send(Feed::Listed(vec![object("a", "1")])).unwrap();
    let set = source.snapshots.recv().await.unwrap();
    assert_eq!((set.kind, set.pods[0].standing), (SnapshotKind::Set, Standing::Confirmed));
}

#[tokio::test(start_paused = true)]
async fn an_answer_makes_memory_needless() {
    let mut source = Fixture::with_memory(memory_of_a().await, None);
    source.node_is_known();
    source.tell.send(Feed::Listed(vec![])).unwrap();
    assert_eq!(source.snapshots.recv().await.unwrap().kind, SnapshotKind::Set);
    tokio::time::sleep(PATIENCE * 2).await;
    assert!(source.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_is_not_run() {
    let memory = Memory::new(Arc::new(Files::default()));
    memory.keep("pods", &[object("a", "1")], Timestamp::from_secs(-100)).await;
    let mut source = Fixture::with_memory(memory.clone(), Some(Duration::from_secs(50)));
    tokio::time::sleep(PATIENCE * 2).await;
    assert!(source.is_silent().await);
    let mut source = Fixture::with_memory(memory, Some(Duration::from_secs(200)));
    assert_eq!(source.pods().await.len(), 1);
}
