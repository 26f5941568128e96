//! Tests of the sync loop with an empty host and a fake API server.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use decide::eviction::EvictionNote;
use k8s_openapi::api::core::v1::Node;
use model::{
    CgroupDriver, PodUid, RuntimeConditions, RuntimeVersion, UpdateKind, WorkerCommand, WorkerPhase,
};
use ports::api::{ApiError, ApiErrorKind, FeedStream};
use ports::clock::SystemClock;
use ports::host::pod_folders::FileError;
use ports::runtime::{RuntimeError, RuntimeEvents, RuntimeService};
use ports::served::pod_logs::LogFolder;
use serde_json::json;
use testkit::builders::worker_view;
use testkit::fakes::{NoPodCgroups, node_settings};

use super::*;
use crate::cluster::event_log::EventLog;
use crate::metrics::Format;
use crate::node::{node_view, runtime_health};
use crate::pipeline::{observation, tables};
use crate::test_checkpoints::Files;

struct EmptyHost;

#[async_trait]
impl PodFolders for EmptyHost {
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
impl PodLogs for EmptyHost {
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
impl RuntimeService for EmptyHost {
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

/// The API server's answer to reading the Node.
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
        let node = match &*self.0.lock() {
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
    commands: mpsc::UnboundedReceiver<WorkerMessage>,
    views: Writer<WorkerView>,
    events: Arc<EventLog>,
}

impl Fixture {
    /// A sync loop whose watched Node has no labels.
    fn new(answer: Answer) -> Self {
        let (workers, commands) = mpsc::unbounded_channel();
        let (views, worker_views) = tables::table(Vec::new());
        let (desired, _) = tables::table(Vec::new());
        let (observations, observer) = observation::observations(Vec::new());
        observations.last_relist.send_replace(observations.moments.next());
        let (publish, view) = node_view::channel();
        publish.send_replace(NodeView::of(Arc::new(node(&json!({})))));
        let events = Arc::new(EventLog::new(10));
        let deps = SyncLoopDeps {
            workers,
            sweeper: watch::Sender::new(SweepOrder::default()),
            desired,
            worker_views,
            observer,
            health: runtime_health::checker(Arc::new(EmptyHost)).1,
            folders: Arc::new(EmptyHost),
            logs: Arc::new(EmptyHost),
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
        Self { sync_loop: SyncLoop::new(deps), commands, views, events }
    }

    fn command(&mut self) -> Option<WorkerCommand> {
        match self.commands.try_recv().ok()? {
            WorkerMessage::Command(command) => Some(command),
            WorkerMessage::Retry(_) | WorkerMessage::Remove(_) | WorkerMessage::Flush(_) => None,
        }
    }

    /// Runs a sweep while workers handle the messages. Returns the commands that they received.
    async fn sweep(&mut self) -> Vec<UpdateKind> {
        let Self { sync_loop, commands, views, .. } = self;
        let mut received = Vec::new();
        let handle_messages = async {
            while let Some(message) = commands.recv().await {
                match message {
                    WorkerMessage::Command(command) => {
                        received.push(command.kind);
                        let uid = command.target.uid();
                        let view = worker_view(uid.as_str(), WorkerPhase::Syncing);
                        views.set(uid, Arc::new(view));
                    }
                    WorkerMessage::Remove(uid) => views.remove(&uid),
                    WorkerMessage::Retry(_) => {}
                    WorkerMessage::Flush(reply) => reply.send(()).unwrap(),
                }
            }
        };
        tokio::select! {
            () = sync_loop.handle_pod_cleanups() => {}
            () = handle_messages => {}
        }
        received
    }

    async fn readmit(&mut self) {
        let (uid, node) = self.sync_loop.readmissions.next().await.unwrap();
        self.sync_loop.handle_readmission(&uid, node);
    }
}

fn pod_with_node_selector() -> Arc<Pod> {
    let spec = json!({"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "a", "image": "i"}]});
    testkit::builders::pod("selective", PodSource::Api, spec).shared()
}

#[tokio::test(start_paused = true)]
async fn rejects_node_selector_mismatch_only_after_reading_the_node_again() {
    for (answer, admitted) in [
        (Answer::Labels(json!({"disk": "ssd"})), true),
        (Answer::Labels(json!({"disk": "hdd"})), false),
        (Answer::Failure, false),
        (Answer::Silence, false),
    ] {
        let mut fixture = Fixture::new(answer);
        fixture.sync_loop.handle_pod_additions(vec![pod_with_node_selector()]);
        // An update does not start a waiting pod.
        fixture.sync_loop.handle_pod_updates(vec![pod_with_node_selector()]);
        assert!(fixture.command().is_none() && fixture.events.all().is_empty());
        fixture.readmit().await;
        let command = fixture.command().unwrap();
        if admitted {
            assert_eq!(command.kind, UpdateKind::Create);
            continue;
        }
        assert_eq!(command.kind, UpdateKind::Kill);
        let rejection = command.kill.unwrap().rejection.unwrap();
        assert_eq!(rejection.reason, "NodeAffinity");
        assert_eq!(fixture.events.all()[0].event.reason, "NodeAffinity");
    }
}

#[tokio::test(start_paused = true)]
async fn removed_pod_is_not_readmitted() {
    let mut fixture = Fixture::new(Answer::Labels(json!({"disk": "ssd"})));
    fixture.sync_loop.handle_pod_additions(vec![pod_with_node_selector()]);
    fixture.sync_loop.handle_pod_removes(vec![pod_with_node_selector()]);
    assert_eq!(fixture.command().map(|command| command.kind), Some(UpdateKind::Kill));
    assert!(fixture.sync_loop.readmissions.next().await.is_none());
    assert!(fixture.command().is_none());
}

#[tokio::test(start_paused = true)]
async fn eviction_kills_the_pod_and_records_an_event() {
    let mut fixture = Fixture::new(Answer::Silence);
    let pod = pod_with_node_selector();
    fixture.sync_loop.deps.desired.set(&pod.uid, Arc::clone(&pod));
    let annotations: std::collections::BTreeMap<_, _> =
        [("starved_resource".to_owned(), "memory".to_owned())].into();
    let rejection = model::Rejection {
        kind: model::RejectionKind::NodePressure,
        reason: "Evicted".into(),
        message: "why".into(),
    };
    let request = KillRequest {
        uid: pod.uid.clone(),
        options: model::KillOptions { grace_override: Some(1), rejection: Some(rejection.clone()) },
        eviction: Some(EvictionNote { message: "why".into(), annotations: annotations.clone() }),
    };
    fixture.sync_loop.handle_kill(request.clone());
    let command = fixture.command().unwrap();
    assert_eq!(command.kind, UpdateKind::Kill);
    let kill = command.kill.unwrap();
    assert_eq!((kill.grace_override, kill.rejection), (Some(1), Some(rejection)));
    let event = fixture.events.all()[0].event.clone();
    assert_eq!((event.reason.as_str(), event.message.as_str()), ("Evicted", "why"));
    assert_eq!(event.annotations, annotations);
    // A pod that is no longer desired is ignored.
    fixture.sync_loop.handle_kill(KillRequest { uid: "gone".into(), ..request });
    assert!(fixture.command().is_none());
    assert_eq!(fixture.events.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn sweep_state_changes_with_its_inputs() {
    let fixture = Fixture::new(Answer::Silence);
    let state = |folders: &[PodUid]| fixture.sync_loop.sweep_state(&[], folders, &[]);
    let at_rest = state(&[]);
    assert_eq!(state(&[]), at_rest);
    assert_ne!(state(&["u".into()]), at_rest);
    let pod = pod_with_node_selector();
    fixture.sync_loop.deps.desired.set(&pod.uid, Arc::clone(&pod));
    assert_ne!(state(&[]), at_rest);
}

#[tokio::test(start_paused = true)]
async fn sweep_counts_only_pods_without_a_worker_as_restarted() {
    let mut fixture = Fixture::new(Answer::Silence);
    let spec = json!({"containers": [{"name": "a", "image": "i"}]});
    let pod = testkit::builders::pod("a", PodSource::Api, spec).shared();
    let restarted = |fixture: &Fixture, count: u32| {
        let line = format!("kubelet_restarted_pods_total{{static=\"\"}} {count}\n");
        fixture.sync_loop.deps.metrics.encode(Format::Text).contains(&line)
    };
    fixture.sync_loop.handle_pod_additions(vec![Arc::clone(&pod)]);
    assert_eq!(fixture.sweep().await, [UpdateKind::Create], "the first command was under way");
    assert!(!restarted(&fixture, 1));
    let finished =
        WorkerView { restart_requested: true, ..worker_view(pod.uid.as_str(), WorkerPhase::Finished) };
    fixture.views.set(&pod.uid, Arc::new(finished));
    assert_eq!(fixture.sweep().await, []);
    assert!(restarted(&fixture, 1));
    assert_eq!(fixture.sweep().await, [UpdateKind::Create], "the second command was under way");
    assert!(restarted(&fixture, 1));
}

#[tokio::test(start_paused = true)]
async fn idle_sweep_replaces_an_older_sweep_order() {
    let mut fixture = Fixture::new(Answer::Silence);
    fixture.sweep().await;
    // An order from a transient state.
    let order = SweepOrder { pod_folders: vec!["gone".into()], ..SweepOrder::default() };
    fixture.sync_loop.deps.sweeper.send_replace(order);
    let mut orders = fixture.sync_loop.deps.sweeper.subscribe();
    fixture.sweep().await;
    assert!(orders.has_changed().unwrap() && orders.borrow_and_update().is_empty());
    fixture.sweep().await;
    assert!(!orders.has_changed().unwrap(), "an empty order is sent once");
}
