use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use model::{
    ContainerId, ContainerSpec, ContainerState, ContainerStatus, ContainerSummary, ExecOutput,
    LinuxResources, Moment, Observation, ObservedPod, PodFullName, PodSource, SandboxId, SandboxSpec,
    SandboxState, SandboxStatus,
};
use ports::outbound::{GrpcHealth, HttpAnswer, HttpGet, OutboundError};
use ports::pod_folders::FileError;
use ports::runtime::{RuntimeError, RuntimeErrorKind};

use super::*;
use crate::event_log::EventLog;
use crate::metrics::Format;
use crate::observation::{Observations, observations};
use crate::published::table;
use crate::timeline::Timelines;

const SECOND: Duration = Duration::from_secs(1);

/// A node of which the test plays every other stage. Its clock is tokio's.
struct Node {
    desired: Writer<Pod>,
    workers: Writer<WorkerView>,
    observed: Observations,
    verdicts: Reader<ProbeVerdicts>,
    results: mpsc::Receiver<ProbeResult>,
    events: Arc<EventLog>,
    metrics: Arc<Metrics>,
    world: Arc<World>,
    cancel: CancellationToken,
    stage: JoinSet<()>,
}

/// The world outside: what pods answer, what is on disk, what time it is.
struct World {
    begun: Instant,
    /// By port: how long an answer takes, and its status.
    http: Mutex<BTreeMap<u16, (Duration, u16)>>,
    asked: Mutex<Vec<(u16, Duration)>>,
    exec: Mutex<Vec<Result<i32, RuntimeErrorKind>>>,
    disk: Mutex<Option<Vec<u8>>>,
    saves: Mutex<usize>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer to which a check breaks off.
const BREAKS: u16 = 0;

/// When the world began.
const BEGIN: Timestamp = Timestamp::from_secs(1_000_000);

impl Clock for World {
    fn now(&self) -> Timestamp {
        BEGIN.after(self.begun.elapsed())
    }
}

#[async_trait]
impl Outbound for World {
    async fn http_get(&self, request: &HttpGet) -> Result<HttpAnswer, OutboundError> {
        locked(&self.asked).push((request.port, self.begun.elapsed()));
        let (takes, status) = locked(&self.http).get(&request.port).copied().unwrap_or((Duration::ZERO, 200));
        tokio::time::sleep(takes).await;
        assert_ne!(status, BREAKS, "a check that breaks off");
        match request.limit {
            Some(limit) if takes > limit => Err(OutboundError::Failed("too late".into())),
            _ => Ok(HttpAnswer { status, body: b"body".to_vec() }),
        }
    }

    async fn tcp_connect(&self, _: &str, _: u16, _: Duration) -> Result<(), OutboundError> {
        Err(OutboundError::Failed("closed".into()))
    }

    async fn grpc_health(&self, _: &GrpcHealth) -> Result<(), OutboundError> {
        Ok(())
    }
}

#[async_trait]
impl Checkpoints for World {
    async fn save(&self, _: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        *locked(&self.saves) += 1;
        *locked(&self.disk) = Some(content);
        Ok(())
    }

    async fn save_unflushed(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.save(name, content).await
    }

    async fn load(&self, _: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        Ok(locked(&self.disk).clone())
    }
}

fn failure(kind: RuntimeErrorKind) -> RuntimeError {
    RuntimeError { operation: "exec_sync", kind, message: "why".into() }
}

#[async_trait]
impl Containers for World {
    async fn exec(&self, _: &ContainerId, _: &[String], _: Duration) -> Result<ExecOutput, RuntimeError> {
        let outcome = locked(&self.exec).pop().unwrap_or(Ok(0));
        let output = |exit_code| ExecOutput { exit_code, stdout: b"out".to_vec(), stderr: Vec::new() };
        outcome.map(output).map_err(failure)
    }

    async fn create_container(
        &self,
        _: &SandboxId,
        _: &ContainerSpec,
        _: &SandboxSpec,
    ) -> Result<ContainerId, RuntimeError> {
        Err(failure(RuntimeErrorKind::Unimplemented))
    }
    async fn start_container(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        Err(failure(RuntimeErrorKind::Unimplemented))
    }
    async fn stop_container(&self, _: &ContainerId, _: Duration) -> Result<(), RuntimeError> {
        Err(failure(RuntimeErrorKind::Unimplemented))
    }
    async fn remove_container(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        Err(failure(RuntimeErrorKind::Unimplemented))
    }
    async fn container_status(&self, _: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        Err(failure(RuntimeErrorKind::Unimplemented))
    }
    async fn list_containers(&self, _: Option<&PodUid>) -> Result<Vec<ContainerSummary>, RuntimeError> {
        Err(failure(RuntimeErrorKind::Unimplemented))
    }
    async fn reopen_container_log(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        Err(failure(RuntimeErrorKind::Unimplemented))
    }
    async fn update_resources(&self, _: &ContainerId, _: &LinuxResources) -> Result<(), RuntimeError> {
        Err(failure(RuntimeErrorKind::Unimplemented))
    }
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: Instant::now(),
            http: Mutex::default(),
            asked: Mutex::default(),
            exec: Mutex::default(),
            disk: Mutex::default(),
            saves: Mutex::default(),
        })
    }

    fn answers(&self, port: u16, status: u16) {
        locked(&self.http).insert(port, (Duration::ZERO, status));
    }

    /// When a port was asked, in whole milliseconds.
    fn asked(&self, port: u16) -> Vec<u128> {
        locked(&self.asked).iter().filter(|(asked, _)| *asked == port).map(|(_, at)| at.as_millis()).collect()
    }
}

impl Node {
    fn start(world: &Arc<World>) -> Self {
        Self::start_with(world, PodGates::default())
    }

    fn start_with(world: &Arc<World>, gates: PodGates) -> Self {
        let (sender, changes) = mpsc::unbounded_channel();
        let (desired, desired_reader) = table(vec![sender.clone()]);
        let (workers, worker_reader) = table(vec![sender.clone()]);
        let (observed, observer) = observations(vec![sender]);
        let (verdict_writer, verdicts) = table(Vec::new());
        let (result_sender, results) = mpsc::channel(100);
        let events = Arc::new(EventLog::new(1000));
        let metrics = Arc::new(Metrics::new());
        let cancel = CancellationToken::new();
        let mut stage = JoinSet::new();
        let parts = Parts {
            changes,
            desired: desired_reader,
            workers: worker_reader,
            observer,
            runtime: Arc::clone(world) as Arc<dyn Containers>,
            outbound: Arc::clone(world) as Arc<dyn Outbound>,
            verdicts: verdict_writer,
            results: result_sender,
            checkpoints: Arc::clone(world) as Arc<dyn Checkpoints>,
            events: Arc::clone(&events) as Arc<dyn EventRecorder>,
            clock: Arc::clone(world) as Arc<dyn Clock>,
            metrics: Arc::clone(&metrics),
            timelines: Arc::new(Timelines::new(Arc::clone(world) as Arc<dyn Clock>)),
            host_addresses: vec![IpAddr::from([192, 0, 2, 1])],
            gates,
            started_at: world.now(),
        };
        stage.spawn(run(parts, cancel.clone()));
        let world = Arc::clone(world);
        Self { desired, workers, observed, verdicts, results, events, metrics, world, cancel, stage }
    }

    /// A pod with one container `c` of these fields, wanted and running since now.
    fn runs(&self, uid: &str, fields: &serde_json::Value) {
        self.wants(uid, fields);
        self.sees(uid, &format!("{uid}-0"), self.world.now(), ContainerState::Running);
    }

    fn wants(&self, uid: &str, fields: &serde_json::Value) {
        let mut container = serde_json::json!({"name": "c", "image": "x"});
        container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": {"containers": [container]}});
        let pod = Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::File).unwrap();
        self.desired.set(&uid.into(), pod.shared());
        self.worker(uid, WorkerPhase::Syncing);
    }

    fn worker(&self, uid: &str, phase: WorkerPhase) {
        let view = WorkerView {
            uid: uid.into(),
            full_name: full_name(uid),
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
        self.workers.set(&uid.into(), Arc::new(view));
    }

    fn sees(&self, uid: &str, id: &str, started_at: Timestamp, state: ContainerState) {
        let pod = ObservedPod {
            uid: uid.into(),
            full_name: full_name(uid),
            sandboxes: vec![sandbox()],
            containers: vec![container(id, started_at, state)],
            moment: Moment::START,
            observation: Observation::Complete,
        };
        self.observed.rows.set(&uid.into(), Arc::new(pod));
    }

    /// `s`, `r`, `l` for startup, readiness and liveness; big when good, absent when not judged.
    fn shown(&self, uid: &str) -> String {
        let rows = self.verdicts.get(&uid.into());
        let row = rows.as_ref().and_then(|rows| rows.get("c"));
        let letter = |verdict: Option<ProbeVerdict>, letter: char| match verdict {
            Some(ProbeVerdict::Success) => letter.to_ascii_uppercase().to_string(),
            Some(ProbeVerdict::Failure) => letter.to_string(),
            None => String::new(),
        };
        row.map(|row| letter(row.startup, 's') + &letter(row.readiness, 'r') + &letter(row.liveness, 'l'))
            .unwrap_or_default()
    }

    fn results(&mut self) -> Vec<(ProbeKind, bool)> {
        std::iter::from_fn(|| self.results.try_recv().ok())
            .map(|result| (result.kind, result.success))
            .collect()
    }

    fn messages(&self) -> Vec<String> {
        self.events
            .all()
            .into_iter()
            .map(|series| format!("{}: {}", series.event.reason, series.event.message))
            .collect()
    }

    /// Ends the stage where it stands.
    async fn stop(mut self) {
        self.cancel.cancel();
        while self.stage.join_next().await.is_some() {}
    }
}

fn full_name(name: &str) -> PodFullName {
    PodFullName { namespace: "default".into(), name: name.into() }
}

fn sandbox() -> SandboxStatus {
    SandboxStatus {
        id: "s".into(),
        attempt: 0,
        state: SandboxState::Ready,
        created_at: BEGIN,
        ips: Some(vec!["10.0.0.7".into()]),
        network: model::NamespaceMode::Pod,
        runtime_handler: String::new(),
    }
}

fn container(id: &str, started_at: Timestamp, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        id: id.into(),
        sandbox_id: "s".into(),
        name: "c".into(),
        attempt: 0,
        state,
        created_at: started_at,
        started_at,
        finished_at: Timestamp::ZERO,
        exit_code: 0,
        image: "i".into(),
        image_ref: "i".into(),
        image_id: "i".into(),
        image_handler: String::new(),
        reason: String::new(),
        message: String::new(),
        annotations: Default::default(),
        log_path: String::new(),
        mounts: Vec::new(),
        image_mounts: Vec::new(),
        resources: None,
        pid: None,
        user: None,
        stop_signal: None,
    }
}

/// A probe of a port, once a second, with thresholds of one unless `more` says otherwise.
fn http(port: u16, more: serde_json::Value) -> serde_json::Value {
    let mut probe = serde_json::json!({"httpGet": {"port": port}, "periodSeconds": 1, "failureThreshold": 1});
    if let serde_json::Value::Object(more) = more {
        probe.as_object_mut().unwrap().extend(more);
    }
    probe
}

async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn readiness_follows_the_answers_at_its_thresholds() {
    let world = World::new();
    let mut node = Node::start(&world);
    let probe = http(80, serde_json::json!({"failureThreshold": 2, "successThreshold": 2}));
    node.runs("a", &serde_json::json!({"readinessProbe": probe}));
    wait(SECOND / 2).await;
    assert_eq!(node.shown("a"), "");
    wait(SECOND).await;
    assert_eq!(node.shown("a"), "R");
    world.answers(80, 500);
    wait(SECOND * 3).await;
    assert_eq!(node.shown("a"), "r");
    assert_eq!(node.results(), [(ProbeKind::Readiness, true), (ProbeKind::Readiness, false)]);
    assert_eq!(
        node.messages()[0],
        "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 500"
    );
    let metrics = node.metrics.probes.encode(Format::Text);
    let line = "prober_probe_total{container=\"c\",namespace=\"default\",pod=\"a\",pod_uid=\"a\",probe_type=\"Readiness\",result=\"successful\"} 2";
    assert!(metrics.contains(line), "{metrics}");
    assert!(metrics.contains("prober_probe_duration_seconds_count{"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_breaks_off_is_not_the_last_one() {
    let world = World::new();
    let node = Node::start(&world);
    world.answers(80, BREAKS);
    node.runs("a", &serde_json::json!({"readinessProbe": http(80, serde_json::Value::Null)}));
    wait(SECOND * 2).await;
    assert_eq!(node.shown("a"), "");
    world.answers(80, 200);
    wait(SECOND * 2).await;
    assert_eq!(node.shown("a"), "R");
}

#[tokio::test(start_paused = true)]
async fn the_startup_probe_opens_the_way_for_the_others() {
    let world = World::new();
    world.answers(1, 500);
    let node = Node::start(&world);
    let startup = http(1, serde_json::json!({"failureThreshold": 100}));
    node.runs(
        "a",
        &serde_json::json!({"startupProbe": startup, "readinessProbe": http(2, serde_json::Value::Null),
        "livenessProbe": http(3, serde_json::Value::Null)}),
    );
    wait(SECOND * 5).await;
    assert_eq!(node.shown("a"), "");
    assert_eq!((world.asked(2).len(), world.asked(3).len()), (0, 0));
    world.answers(1, 200);
    wait(SECOND * 3).await;
    assert_eq!(node.shown("a"), "SRL");
    // It has done its work.
    let asked = world.asked(1).len();
    wait(SECOND * 5).await;
    assert_eq!(world.asked(1).len(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_startup_probe_that_is_too_early_for_its_server_harms_nobody() {
    let world = World::new();
    world.answers(80, 500);
    let node = Node::start(&world);
    node.runs("a", &serde_json::json!({"startupProbe": http(80, serde_json::Value::Null)}));
    wait(SECOND / 2).await;
    assert_eq!((world.asked(80).len(), node.shown("a"), node.messages().len()), (1, String::new(), 0));
    world.answers(80, 200);
    wait(SECOND).await;
    assert_eq!(node.shown("a"), "S");
}

#[tokio::test(start_paused = true)]
async fn a_failed_liveness_probe_waits_for_the_next_container() {
    let world = World::new();
    world.answers(80, 404);
    let mut node = Node::start(&world);
    let probe = http(80, serde_json::json!({"failureThreshold": 3, "periodSeconds": 2}));
    node.runs("a", &serde_json::json!({"livenessProbe": probe}));
    wait(SECOND * 30).await;
    assert_eq!(node.shown("a"), "l");
    assert_eq!(world.asked(80).len(), 3);
    assert_eq!(node.results(), [(ProbeKind::Liveness, false)]);
    node.sees("a", "a-0", world.now(), ContainerState::Exited);
    wait(SECOND).await;
    world.answers(80, 200);
    node.sees("a", "a-1", world.now(), ContainerState::Running);
    wait(SECOND * 3).await;
    assert_eq!(node.shown("a"), "L");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_is_tried_three_times_and_changes_nothing() {
    let world = World::new();
    let node = Node::start(&world);
    let unknown = || Err(RuntimeErrorKind::Failed);
    // Taken from the end: healthy, then three errors, then an error that passes, then a failure.
    *locked(&world.exec) = vec![Ok(1), Ok(0), unknown(), unknown(), unknown(), unknown(), Ok(0)];
    let probe =
        serde_json::json!({"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1});
    node.runs("a", &serde_json::json!({"readinessProbe": probe}));
    wait(SECOND / 4).await;
    assert_eq!(node.shown("a"), "R");
    wait(SECOND * 3 / 2).await;
    assert_eq!(node.shown("a"), "R");
    let error = "Unhealthy: Readiness probe errored and resulted in unknown state: rpc error: code = Unknown desc = why";
    assert_eq!(node.messages(), [error]);
    wait(SECOND * 2).await;
    assert_eq!(node.messages(), [error, "Unhealthy: Readiness probe failed: out"]);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_runs_too_long_is_a_failure() {
    let world = World::new();
    *locked(&world.exec) = vec![Err(RuntimeErrorKind::DeadlineExceeded)];
    let node = Node::start(&world);
    let probe =
        serde_json::json!({"exec": {"command": ["sleep", "9"]}, "failureThreshold": 1, "timeoutSeconds": 2});
    node.runs("a", &serde_json::json!({"livenessProbe": probe}));
    wait(SECOND * 12).await;
    assert_eq!(node.shown("a"), "l");
    assert_eq!(
        node.messages(),
        ["Unhealthy: Liveness probe failed: command timed out: \"sleep 9\" timed out after 2s"]
    );
}

#[tokio::test(start_paused = true)]
async fn termination_leaves_only_readiness() {
    let world = World::new();
    let node = Node::start(&world);
    node.runs(
        "a",
        &serde_json::json!({"readinessProbe": http(2, serde_json::Value::Null),
        "livenessProbe": http(3, serde_json::Value::Null)}),
    );
    wait(SECOND * 3).await;
    node.worker("a", WorkerPhase::Terminating);
    node.desired.remove(&"a".into());
    wait(SECOND).await;
    let before = (world.asked(2).len(), world.asked(3).len());
    wait(SECOND * 5).await;
    assert_eq!((world.asked(2).len(), world.asked(3).len()), (before.0 + 5, before.1));
    node.sees("a", "a-0", BEGIN, ContainerState::Exited);
    node.worker("a", WorkerPhase::Terminated);
    wait(SECOND).await;
    assert_eq!(node.verdicts.len(), 0);
    assert!(!node.metrics.probes.encode(Format::Text).contains("pod_uid"), "series stay");
    let before = world.asked(2).len();
    wait(SECOND * 5).await;
    assert_eq!(world.asked(2).len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_not_ready_is_asked_when_its_pod_changes() {
    let world = World::new();
    world.answers(80, 500);
    let node = Node::start(&world);
    let probe = http(80, serde_json::json!({"periodSeconds": 60}));
    node.runs("a", &serde_json::json!({"readinessProbe": probe}));
    wait(SECOND * 5).await;
    assert_eq!(node.shown("a"), "r");
    world.answers(80, 200);
    node.worker("a", WorkerPhase::Syncing);
    wait(SECOND / 10).await;
    assert_eq!(node.shown("a"), "R");
    // Once ready there is no hurry, whatever changes.
    node.worker("a", WorkerPhase::Syncing);
    wait(SECOND).await;
    assert_eq!(world.asked(80).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn verdicts_survive_the_agent() {
    let world = World::new();
    let node = Node::start(&world);
    let probe = http(80, serde_json::json!({"periodSeconds": 30}));
    let fields =
        serde_json::json!({"readinessProbe": probe, "startupProbe": http(81, serde_json::Value::Null)});
    node.runs("a", &fields);
    node.runs("b", &fields);
    wait(SECOND * 5).await;
    node.stop().await;
    let asked = world.asked(81).len();

    let mut again = Node::start(&world);
    for (uid, id, started_at) in [("a", "a-0", BEGIN), ("b", "b-0", BEGIN.after(SECOND))] {
        again.wants(uid, &fields);
        again.sees(uid, id, started_at, ContainerState::Running);
    }
    tokio::task::yield_now().await;
    wait(Duration::from_millis(1)).await;
    assert_eq!(again.shown("a"), "SR");
    // The same id with another start is another run.
    assert_eq!(world.asked(81).len(), asked + 1);
    assert!(again.results().contains(&(ProbeKind::Readiness, true)));
    world.answers(80, 500);
    wait(SECOND * 31).await;
    assert_eq!(again.shown("a"), "Sr");
}

#[tokio::test(start_paused = true)]
async fn verdicts_end_with_the_agent_if_the_gate_says_so() {
    let world = World::new();
    let fields = serde_json::json!({"startupProbe": http(81, serde_json::json!({"periodSeconds": 30}))});
    let node = Node::start(&world);
    node.runs("a", &fields);
    wait(SECOND * 35).await;
    assert_eq!(node.shown("a"), "S");
    node.stop().await;
    let asked = world.asked(81).len();

    world.answers(81, 500);
    let gates = PodGates { restart_forgets_probes: true, ..PodGates::default() };
    let again = Node::start_with(&world, gates);
    again.wants("a", &fields);
    again.sees("a", "a-0", BEGIN, ContainerState::Running);
    wait(SECOND * 35).await;
    assert!(world.asked(81).len() > asked);
    assert_ne!(again.shown("a"), "S");
}

#[tokio::test(start_paused = true)]
async fn a_broken_checkpoint_is_no_hindrance() {
    for content in [b"{\"version\":7,\"containers\":{}}".to_vec(), b"nonsense".to_vec()] {
        let world = World::new();
        *locked(&world.disk) = Some(content);
        let node = Node::start(&world);
        node.runs("a", &serde_json::json!({"readinessProbe": http(80, serde_json::Value::Null)}));
        wait(SECOND).await;
        assert_eq!(node.shown("a"), "R");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_containers_hold_up_nobody() {
    let world = World::new();
    let node = Node::start(&world);
    // Far more than there are places, all silent until their time is over.
    for index in 0..300 {
        locked(&world.http).insert(1000 + index, (SECOND * 60, 200));
        let slow = http(1000 + index, serde_json::json!({"timeoutSeconds": 50}));
        node.runs(&format!("slow{index}"), &serde_json::json!({"readinessProbe": slow}));
    }
    wait(SECOND * 3).await;
    node.runs("quick", &serde_json::json!({"readinessProbe": http(80, serde_json::Value::Null)}));
    wait(SECOND * 10).await;
    assert_eq!(node.shown("quick"), "R");
    assert!(world.asked(80).len() >= 10, "{:?}", world.asked(80));
}

#[tokio::test(start_paused = true)]
async fn two_hundred_probes_are_spread_and_all_on_time() {
    let world = World::new();
    let node = Node::start(&world);
    for index in 0..200 {
        let probe = http(1000 + index, serde_json::Value::Null);
        node.runs(&format!("p{index}"), &serde_json::json!({"livenessProbe": probe}));
    }
    wait(SECOND * 10).await;
    let mut crowd = BTreeMap::new();
    for index in 0..200 {
        let times = world.asked(1000 + index);
        assert!((9..=10).contains(&times.len()), "{times:?}");
        for pair in times.windows(2) {
            assert!((995..=1005).contains(&(pair[1] - pair[0])), "{times:?}");
        }
        for at in times {
            *crowd.entry(at / 100).or_insert(0) += 1;
        }
    }
    let most = crowd.values().max().unwrap();
    assert!(*most < 60, "{crowd:?}");
    // All verdicts came within the first second.
    let saves = *locked(&world.saves);
    assert!((1..=4).contains(&saves), "{saves} writes");
}

#[tokio::test(start_paused = true)]
async fn nothing_ticks_for_containers_that_do_not_run() {
    let world = World::new();
    let node = Node::start(&world);
    node.wants("a", &serde_json::json!({"livenessProbe": http(80, serde_json::Value::Null)}));
    node.sees("a", "a-0", BEGIN, ContainerState::Exited);
    wait(SECOND * 100).await;
    assert_eq!(world.asked(80), Vec::<u128>::new());
    assert_eq!(node.messages(), Vec::<String>::new());
}
