//! The loop on a node without folders, whose API server is a fake.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use async_trait::async_trait;
use decide::eviction::EvictionNote;
use k8s_openapi::api::core::v1::Node;
use model::{CgroupDriver, PodUid, RuntimeConditions, RuntimeVersion, UpdateKind, WorkerCommand};
use ports::api::{ApiError, ApiErrorKind, FeedStream};
use ports::clock::SystemClock;
use ports::pod_folders::FileError;
use ports::pod_logs::LogFolder;
use ports::runtime::{RuntimeError, RuntimeEvents, RuntimeService};
use serde_json::json;
use testkit::fakes::{NoPodCgroups, node_settings};

use super::*;
use crate::event_log::EventLog;
use crate::test_checkpoints::Files;
use crate::{node_view, observation, published, runtime_health};

struct Nothing;

#[async_trait]
impl PodFolders for Nothing {
    async fn make_pod_folders(&self, _: &PodUid) -> Result<(), FileError> {
        Ok(())
    }
    async fn write_pod_file(&self, _: &PodUid, _: &Path, _: &[u8], _: u32) -> Result<PathBuf, FileError> {
        Ok(PathBuf::new())
    }
    async fn list_pod_folders(&self) -> Result<Vec<PodUid>, FileError> {
        Ok(Vec::new())
    }
    async fn remove_pod_folder(&self, _: &PodUid) -> Result<(), FileError> {
        Ok(())
    }
    async fn shared_group(&self, _: &PodUid, _: &Path) -> Result<Option<u32>, FileError> {
        Ok(None)
    }
}

#[async_trait]
impl PodLogs for Nothing {
    async fn make_log_folder(&self, _: &LogFolder, _: &str) -> Result<(), FileError> {
        Ok(())
    }
    async fn highest_log_number(&self, _: &LogFolder, _: &str) -> Result<Option<u32>, FileError> {
        Ok(None)
    }
    async fn link_container_log(&self, _: &str, _: &Path) -> Result<(), FileError> {
        Ok(())
    }
    async fn remove_log(&self, _: &Path, _: &str) -> Result<(), FileError> {
        Ok(())
    }
    async fn list_log_folders(&self) -> Result<Vec<LogFolder>, FileError> {
        Ok(Vec::new())
    }
    async fn remove_log_folder(&self, _: &LogFolder) -> Result<(), FileError> {
        Ok(())
    }
    async fn remove_dead_log_links(&self) -> Result<(), FileError> {
        Ok(())
    }
}

#[async_trait]
impl RuntimeService for Nothing {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        std::future::pending().await
    }
    async fn conditions(&self) -> Result<RuntimeConditions, RuntimeError> {
        std::future::pending().await
    }
    async fn cgroup_driver(&self) -> Result<CgroupDriver, RuntimeError> {
        std::future::pending().await
    }
    async fn set_pod_cidr(&self, _: &str) -> Result<(), RuntimeError> {
        Ok(())
    }
    async fn events(&self) -> Result<RuntimeEvents, RuntimeError> {
        std::future::pending().await
    }
}

/// What the API server answers when the node is read.
enum Answer {
    Labels(serde_json::Value),
    Failure,
    Silence,
}

struct Nodes(Mutex<Answer>);

#[async_trait]
impl ApiNodes for Nodes {
    fn watch(&self) -> FeedStream<Node> {
        Box::pin(futures::stream::pending())
    }
    async fn get(&self) -> Result<Node, ApiError> {
        let node = match &*self.0.lock().unwrap() {
            Answer::Labels(labels) => Some(Ok(node(labels))),
            Answer::Failure => Some(Err(refused())),
            Answer::Silence => None,
        };
        match node {
            Some(node) => node,
            None => std::future::pending().await,
        }
    }
    async fn create(&self, _: &Node) -> Result<Node, ApiError> {
        Err(refused())
    }
    async fn patch_status(&self, _: &serde_json::Value) -> Result<Node, ApiError> {
        Err(refused())
    }
}

fn refused() -> ApiError {
    ApiError { kind: ApiErrorKind::Unreachable, message: "away".into(), retry_after: None }
}

fn node(labels: &serde_json::Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": "node", "labels": labels}})).unwrap()
}

struct Fixture {
    sync_loop: SyncLoop,
    orders: mpsc::UnboundedReceiver<WorkerMessage>,
    events: Arc<EventLog>,
}

impl Fixture {
    /// A loop that was shown a node without labels.
    fn new(answer: Answer) -> Self {
        let (workers, orders) = mpsc::unbounded_channel();
        let (_, worker_views) = published::table(Vec::new());
        let (desired, _) = published::table(Vec::new());
        let (observations, observer) = observation::observations(Vec::new());
        observations.floor.send_replace(observations.moments.next());
        let (publish, view) = node_view::channel();
        publish.send_replace(NodeView::of(Arc::new(node(&json!({})))));
        let events = Arc::new(EventLog::new(10));
        let parts = Parts {
            workers,
            sweeper: watch::Sender::new(SweepOrder::default()),
            desired,
            worker_views,
            observer,
            health: runtime_health::checker(Arc::new(Nothing)).1,
            folders: Arc::new(Nothing),
            logs: Arc::new(Nothing),
            allocations: Allocations::restore(Arc::new(Files::default()), None, None).unwrap(),
            cgroups: Arc::new(NoPodCgroups),
            node: Some(view),
            nodes: Some(Arc::new(Nodes(Mutex::new(answer)))),
            inputs: None,
            sources_ready: watch::Sender::new(false),
            sources: BTreeSet::new(),
            settings: Arc::new(node_settings()),
            recorder: events.clone(),
            clock: Arc::new(SystemClock),
            metrics: Arc::default(),
            heartbeat: watch::Sender::new(Instant::now()),
        };
        Self { sync_loop: SyncLoop::new(parts), orders, events }
    }

    fn order(&mut self) -> Option<WorkerCommand> {
        match self.orders.try_recv().ok()? {
            WorkerMessage::Command(command) => Some(command),
            WorkerMessage::Retry(_) | WorkerMessage::Forget(_) => None,
        }
    }

    async fn look_again(&mut self) {
        let (uid, node) = self.sync_loop.second_looks.next().await.unwrap();
        self.sync_loop.handle_second_look(&uid, node);
    }
}

/// A pod for nodes with a certain label.
fn choosy() -> Arc<Pod> {
    let object = json!({
        "metadata": {"name": "choosy", "namespace": "default", "uid": "choosy"},
        "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "a", "image": "i"}]},
    });
    Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap().shared()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_refused_for_labels_only_after_the_node_was_read_again() {
    for (answer, admitted) in [
        (Answer::Labels(json!({"disk": "ssd"})), true),
        (Answer::Labels(json!({"disk": "hdd"})), false),
        (Answer::Failure, false),
        (Answer::Silence, false),
    ] {
        let mut given = Fixture::new(answer);
        given.sync_loop.handle_pod_additions(vec![choosy()]);
        // What comes meanwhile does not begin it.
        given.sync_loop.handle_pod_updates(vec![choosy()]);
        assert!(given.order().is_none() && given.events.all().is_empty());
        given.look_again().await;
        let order = given.order().unwrap();
        if admitted {
            assert_eq!(order.kind, UpdateKind::Create);
            continue;
        }
        assert_eq!(order.kind, UpdateKind::Kill);
        let rejection = order.kill.unwrap().rejection.unwrap();
        assert_eq!(rejection.reason, "NodeAffinity");
        assert_eq!(given.events.all()[0].event.reason, "NodeAffinity");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_before_the_node_was_read_is_forgotten() {
    let mut given = Fixture::new(Answer::Labels(json!({"disk": "ssd"})));
    given.sync_loop.handle_pod_additions(vec![choosy()]);
    given.sync_loop.handle_pod_removes(vec![choosy()]);
    assert_eq!(given.order().map(|order| order.kind), Some(UpdateKind::Kill));
    assert!(given.sync_loop.second_looks.next().await.is_none());
    assert!(given.order().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_is_killed_for_good_and_told_of() {
    let mut given = Fixture::new(Answer::Silence);
    let pod = choosy();
    given.sync_loop.parts.desired.set(&pod.uid, Arc::clone(&pod));
    let annotations: std::collections::BTreeMap<_, _> =
        [("starved_resource".to_owned(), "memory".to_owned())].into();
    let rejection = model::Rejection { reason: "Evicted".into(), message: "why".into() };
    let request = KillRequest {
        uid: pod.uid.clone(),
        options: model::KillOptions { grace_override: Some(1), rejection: Some(rejection.clone()) },
        eviction: Some(EvictionNote { message: "why".into(), annotations: annotations.clone() }),
    };
    given.sync_loop.handle_kill(request.clone());
    let order = given.order().unwrap();
    assert_eq!(order.kind, UpdateKind::Kill);
    let kill = order.kill.unwrap();
    assert_eq!((kill.grace_override, kill.rejection), (Some(1), Some(rejection)));
    let event = given.events.all()[0].event.clone();
    assert_eq!((event.reason.as_str(), event.message.as_str()), ("Evicted", "why"));
    assert_eq!(event.annotations, annotations);
    // One that is gone meanwhile is let alone.
    given.sync_loop.handle_kill(KillRequest { uid: "gone".into(), ..request });
    assert!(given.order().is_none());
    assert_eq!(given.events.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn whatever_a_sweep_is_decided_from_makes_it_decided_again() {
    let given = Fixture::new(Answer::Silence);
    let state = |folders: &[PodUid]| given.sync_loop.sweep_state(&[], folders, &[]);
    let at_rest = state(&[]);
    assert_eq!(state(&[]), at_rest);
    assert_ne!(state(&["u".into()]), at_rest);
    let pod = choosy();
    given.sync_loop.parts.desired.set(&pod.uid, Arc::clone(&pod));
    assert_ne!(state(&[]), at_rest);
}

#[tokio::test(start_paused = true)]
async fn a_node_at_rest_takes_back_an_older_order_to_sweep() {
    let mut given = Fixture::new(Answer::Silence);
    given.sync_loop.handle_pod_cleanups().await;
    // Of a state in between that the node has come back from.
    let order = SweepOrder { pod_folders: vec!["gone".into()], ..SweepOrder::default() };
    given.sync_loop.parts.sweeper.send_replace(order);
    let mut orders = given.sync_loop.parts.sweeper.subscribe();
    given.sync_loop.handle_pod_cleanups().await;
    assert!(orders.has_changed().unwrap() && orders.borrow_and_update().is_empty());
    given.sync_loop.handle_pod_cleanups().await;
    assert!(!orders.has_changed().unwrap(), "an empty one is told once");
}
