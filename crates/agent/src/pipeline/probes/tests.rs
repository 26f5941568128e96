use parking_lot::Mutex;
use std::collections::BTreeMap;

use async_trait::async_trait;
use model::{
    ContainerId, ContainerSpec, ContainerState, ContainerStatus, ContainerSummary, ExecOutput,
    LinuxResources, Moment, Observation, ObservedPod, PodFullName, PodSource, SandboxId, SandboxSpec,
    SandboxState, SandboxStatus,
};
use ports::host::pod_folders::FileError;
use ports::outbound::{GrpcHealth, HttpAnswer, HttpGet, OutboundError};
use ports::runtime::{RuntimeError, RuntimeErrorKind};
use testkit::builders::{pod, worker_view};
use testkit::fake_clock::FakeClock;

use super::*;
use crate::cluster::event_log::EventLog;
use crate::metrics::Format;
use crate::pipeline::observation::{Observations, observations};
use crate::pipeline::tables::table;
use crate::pipeline::timeline::Timelines;

const SECOND: Duration = Duration::from_secs(1);

/// The probes stage; the test acts as all other stages. Its clock is tokio's.
struct Fixture {
    desired: Writer<Pod>,
    workers: Writer<WorkerView>,
    observed: Observations,
    probe_results: Reader<ProbeResults>,
    result_changes: mpsc::Receiver<ProbeResultChange>,
    events: Arc<EventLog>,
    metrics: Arc<Metrics>,
    adapters: Arc<FakeAdapters>,
    cancel: CancellationToken,
    stage: JoinSet<()>,
}

/// Fakes of the stage's ports: HTTP and exec answers, the checkpoint, the clock.
struct FakeAdapters {
    started: Instant,
    clock: Arc<FakeClock>,
    /// Delay and status of the answer, by port.
    http: Mutex<BTreeMap<u16, (Duration, u16)>>,
    requests: Mutex<Vec<(u16, Duration)>>,
    exec: Mutex<Vec<Result<i32, RuntimeErrorKind>>>,
    disk: Mutex<Option<Vec<u8>>>,
    saves: Mutex<usize>,
}

fn locked<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.lock()
}

/// A status at which the check task panics.
const PANIC_STATUS: u16 = 0;

const BEGIN_SECONDS: i64 = 1_000_000;
const BEGIN: Timestamp = Timestamp::from_secs(BEGIN_SECONDS);

#[async_trait]
impl Outbound for FakeAdapters {
    async fn http_get(&self, request: &HttpGet) -> Result<HttpAnswer, OutboundError> {
        locked(&self.requests).push((request.port, self.started.elapsed()));
        let (delay, status) = locked(&self.http).get(&request.port).copied().unwrap_or((Duration::ZERO, 200));
        tokio::time::sleep(delay).await;
        assert_ne!(status, PANIC_STATUS, "the check panics");
        match request.limit {
            Some(limit) if delay > limit => Err(OutboundError::Failed("too late".into())),
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
impl Checkpoints for FakeAdapters {
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
impl Containers for FakeAdapters {
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

impl FakeAdapters {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            clock: Arc::new(FakeClock::following_tokio(BEGIN_SECONDS)),
            http: Mutex::default(),
            requests: Mutex::default(),
            exec: Mutex::default(),
            disk: Mutex::default(),
            saves: Mutex::default(),
        })
    }

    fn set_http_status(&self, port: u16, status: u16) {
        locked(&self.http).insert(port, (Duration::ZERO, status));
    }

    /// The times of the requests to a port, in milliseconds.
    fn requests(&self, port: u16) -> Vec<u128> {
        locked(&self.requests)
            .iter()
            .filter(|(requests, _)| *requests == port)
            .map(|(_, at)| at.as_millis())
            .collect()
    }
}

impl Fixture {
    fn start(adapters: &Arc<FakeAdapters>) -> Self {
        Self::start_with(adapters, PodGates::default())
    }

    fn start_with(adapters: &Arc<FakeAdapters>, gates: PodGates) -> Self {
        let (sender, changes) = timing::key_channel();
        let (desired, desired_reader) = table(vec![sender.clone()]);
        let (workers, worker_reader) = table(vec![sender.clone()]);
        let (observed, observer) = observations(vec![sender]);
        let (results_writer, probe_results) = table(Vec::new());
        let (change_sender, result_changes) = mpsc::channel(100);
        let events = Arc::new(EventLog::new(1000));
        let metrics = Arc::new(Metrics::new());
        let cancel = CancellationToken::new();
        let mut stage = JoinSet::new();
        let deps = ProbesDeps {
            changes,
            desired: desired_reader,
            workers: worker_reader,
            observer,
            runtime: Arc::clone(adapters) as Arc<dyn Containers>,
            outbound: Arc::clone(adapters) as Arc<dyn Outbound>,
            probe_results: results_writer,
            result_changes: change_sender,
            checkpoints: Arc::clone(adapters) as Arc<dyn Checkpoints>,
            events: Arc::clone(&events) as Arc<dyn EventRecorder>,
            clock: adapters.clock.clone(),
            metrics: Arc::clone(&metrics),
            timelines: Arc::new(Timelines::new(adapters.clock.clone())),
            host_addresses: vec![IpAddr::from([192, 0, 2, 1])],
            gates,
            started_at: adapters.clock.now(),
        };
        stage.spawn(run(deps, cancel.clone()));
        let adapters = Arc::clone(adapters);
        Self {
            desired,
            workers,
            observed,
            probe_results,
            result_changes,
            events,
            metrics,
            adapters,
            cancel,
            stage,
        }
    }

    /// Adds a desired pod with one container `c` of these fields that has just started.
    fn set_running(&self, uid: &str, fields: &serde_json::Value) {
        self.set_desired(uid, fields);
        self.set_observed(uid, &format!("{uid}-0"), self.adapters.clock.now(), ContainerState::Running);
    }

    fn set_desired(&self, uid: &str, fields: &serde_json::Value) {
        let mut container = serde_json::json!({"name": "c", "image": "x"});
        container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let pod = pod(uid, PodSource::File, serde_json::json!({"containers": [container]}));
        self.desired.set(&uid.into(), pod.shared());
        self.set_worker_phase(uid, WorkerPhase::Syncing);
    }

    fn set_worker_phase(&self, uid: &str, phase: WorkerPhase) {
        self.workers.set(&uid.into(), Arc::new(worker_view(uid, phase)));
    }

    fn set_observed(&self, uid: &str, id: &str, started_at: Timestamp, state: ContainerState) {
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

    /// `s`, `r`, `l` for startup, readiness and liveness: upper case for success, lower case for failure, nothing
    /// without a result.
    fn results_text(&self, uid: &str) -> String {
        let rows = self.probe_results.get(&uid.into());
        let row = rows.as_ref().and_then(|rows| rows.get("c"));
        let letter = |result: Option<ProbeResult>, letter: char| match result {
            Some(ProbeResult::Success) => letter.to_ascii_uppercase().to_string(),
            Some(ProbeResult::Failure) => letter.to_string(),
            None => String::new(),
        };
        row.map(|row| letter(row.startup, 's') + &letter(row.readiness, 'r') + &letter(row.liveness, 'l'))
            .unwrap_or_default()
    }

    fn changes(&mut self) -> Vec<(ProbeKind, bool)> {
        std::iter::from_fn(|| self.result_changes.try_recv().ok())
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

    /// Cancels the stage and waits for its end.
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

/// A probe of a port every second, with thresholds of one unless `more` overrides them.
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
async fn readiness_changes_at_its_thresholds() {
    let adapters = FakeAdapters::new();
    let mut fixture = Fixture::start(&adapters);
    let probe = http(80, serde_json::json!({"failureThreshold": 2, "successThreshold": 2}));
    fixture.set_running("a", &serde_json::json!({"readinessProbe": probe}));
    wait(SECOND / 2).await;
    assert_eq!(fixture.results_text("a"), "");
    wait(SECOND).await;
    assert_eq!(fixture.results_text("a"), "R");
    adapters.set_http_status(80, 500);
    wait(SECOND * 3).await;
    assert_eq!(fixture.results_text("a"), "r");
    assert_eq!(fixture.changes(), [(ProbeKind::Readiness, true), (ProbeKind::Readiness, false)]);
    assert_eq!(
        fixture.messages()[0],
        "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 500"
    );
    let metrics = fixture.metrics.probes.encode(Format::Text);
    let line = "prober_probe_total{container=\"c\",namespace=\"default\",pod=\"a\",pod_uid=\"a\",probe_type=\"Readiness\",result=\"successful\"} 2";
    assert!(metrics.contains(line), "{metrics}");
    assert!(metrics.contains("prober_probe_duration_seconds_count{"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn probing_continues_after_a_check_panics() {
    let adapters = FakeAdapters::new();
    let fixture = Fixture::start(&adapters);
    adapters.set_http_status(80, PANIC_STATUS);
    fixture.set_running("a", &serde_json::json!({"readinessProbe": http(80, serde_json::Value::Null)}));
    wait(SECOND * 2).await;
    assert_eq!(fixture.results_text("a"), "");
    adapters.set_http_status(80, 200);
    wait(SECOND * 2).await;
    assert_eq!(fixture.results_text("a"), "R");
}

#[tokio::test(start_paused = true)]
async fn other_probes_wait_for_startup_probe() {
    let adapters = FakeAdapters::new();
    adapters.set_http_status(1, 500);
    let fixture = Fixture::start(&adapters);
    let startup = http(1, serde_json::json!({"failureThreshold": 100}));
    fixture.set_running(
        "a",
        &serde_json::json!({"startupProbe": startup, "readinessProbe": http(2, serde_json::Value::Null),
        "livenessProbe": http(3, serde_json::Value::Null)}),
    );
    wait(SECOND * 5).await;
    assert_eq!(fixture.results_text("a"), "");
    assert_eq!((adapters.requests(2).len(), adapters.requests(3).len()), (0, 0));
    adapters.set_http_status(1, 200);
    wait(SECOND * 3).await;
    assert_eq!(fixture.results_text("a"), "SRL");
    // A successful startup probe is not repeated.
    let requests = adapters.requests(1).len();
    wait(SECOND * 5).await;
    assert_eq!(adapters.requests(1).len(), requests);
}

#[tokio::test(start_paused = true)]
async fn early_startup_probe_failure_is_ignored() {
    let adapters = FakeAdapters::new();
    adapters.set_http_status(80, 500);
    let fixture = Fixture::start(&adapters);
    fixture.set_running("a", &serde_json::json!({"startupProbe": http(80, serde_json::Value::Null)}));
    wait(SECOND / 2).await;
    assert_eq!(
        (adapters.requests(80).len(), fixture.results_text("a"), fixture.messages().len()),
        (1, String::new(), 0)
    );
    adapters.set_http_status(80, 200);
    wait(SECOND).await;
    assert_eq!(fixture.results_text("a"), "S");
}

#[tokio::test(start_paused = true)]
async fn failed_liveness_probe_pauses_until_container_restarts() {
    let adapters = FakeAdapters::new();
    adapters.set_http_status(80, 404);
    let mut fixture = Fixture::start(&adapters);
    let probe = http(80, serde_json::json!({"failureThreshold": 3, "periodSeconds": 2}));
    fixture.set_running("a", &serde_json::json!({"livenessProbe": probe}));
    wait(SECOND * 30).await;
    assert_eq!(fixture.results_text("a"), "l");
    assert_eq!(adapters.requests(80).len(), 3);
    assert_eq!(fixture.changes(), [(ProbeKind::Liveness, false)]);
    fixture.set_observed("a", "a-0", adapters.clock.now(), ContainerState::Exited);
    wait(SECOND).await;
    adapters.set_http_status(80, 200);
    fixture.set_observed("a", "a-1", adapters.clock.now(), ContainerState::Running);
    wait(SECOND * 3).await;
    assert_eq!(fixture.results_text("a"), "L");
}

#[tokio::test(start_paused = true)]
async fn check_error_is_retried_three_times_and_keeps_the_result() {
    let adapters = FakeAdapters::new();
    let fixture = Fixture::start(&adapters);
    let unknown = || Err(RuntimeErrorKind::Failed);
    // Popped from the end: success, three errors, one error before a success, failure.
    *locked(&adapters.exec) = vec![Ok(1), Ok(0), unknown(), unknown(), unknown(), unknown(), Ok(0)];
    let probe =
        serde_json::json!({"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1});
    fixture.set_running("a", &serde_json::json!({"readinessProbe": probe}));
    wait(SECOND / 4).await;
    assert_eq!(fixture.results_text("a"), "R");
    wait(SECOND * 3 / 2).await;
    assert_eq!(fixture.results_text("a"), "R");
    let error = "Unhealthy: Readiness probe errored and resulted in unknown state: rpc error: code = Unknown desc = why";
    assert_eq!(fixture.messages(), [error]);
    wait(SECOND * 2).await;
    assert_eq!(fixture.messages(), [error, "Unhealthy: Readiness probe failed: out"]);
}

#[tokio::test(start_paused = true)]
async fn exec_timeout_is_a_failure() {
    let adapters = FakeAdapters::new();
    *locked(&adapters.exec) = vec![Err(RuntimeErrorKind::DeadlineExceeded)];
    let fixture = Fixture::start(&adapters);
    let probe =
        serde_json::json!({"exec": {"command": ["sleep", "9"]}, "failureThreshold": 1, "timeoutSeconds": 2});
    fixture.set_running("a", &serde_json::json!({"livenessProbe": probe}));
    wait(SECOND * 12).await;
    assert_eq!(fixture.results_text("a"), "l");
    assert_eq!(
        fixture.messages(),
        ["Unhealthy: Liveness probe failed: command timed out: \"sleep 9\" timed out after 2s"]
    );
}

#[tokio::test(start_paused = true)]
async fn only_readiness_is_probed_during_termination() {
    let adapters = FakeAdapters::new();
    let fixture = Fixture::start(&adapters);
    fixture.set_running(
        "a",
        &serde_json::json!({"readinessProbe": http(2, serde_json::Value::Null),
        "livenessProbe": http(3, serde_json::Value::Null)}),
    );
    wait(SECOND * 3).await;
    fixture.set_worker_phase("a", WorkerPhase::Terminating);
    fixture.desired.remove(&"a".into());
    wait(SECOND).await;
    let before = (adapters.requests(2).len(), adapters.requests(3).len());
    wait(SECOND * 5).await;
    assert_eq!((adapters.requests(2).len(), adapters.requests(3).len()), (before.0 + 5, before.1));
    fixture.set_observed("a", "a-0", BEGIN, ContainerState::Exited);
    fixture.set_worker_phase("a", WorkerPhase::Terminated);
    wait(SECOND).await;
    assert_eq!(fixture.probe_results.len(), 0);
    assert!(!fixture.metrics.probes.encode(Format::Text).contains("pod_uid"), "series stay");
    let before = adapters.requests(2).len();
    wait(SECOND * 5).await;
    assert_eq!(adapters.requests(2).len(), before);
}

#[tokio::test(start_paused = true)]
async fn unready_container_is_checked_when_its_pod_changes() {
    let adapters = FakeAdapters::new();
    adapters.set_http_status(80, 500);
    let fixture = Fixture::start(&adapters);
    let probe = http(80, serde_json::json!({"periodSeconds": 60}));
    fixture.set_running("a", &serde_json::json!({"readinessProbe": probe}));
    wait(SECOND * 5).await;
    assert_eq!(fixture.results_text("a"), "r");
    adapters.set_http_status(80, 200);
    fixture.set_worker_phase("a", WorkerPhase::Syncing);
    wait(SECOND / 10).await;
    assert_eq!(fixture.results_text("a"), "R");
    // A ready container is not checked early.
    fixture.set_worker_phase("a", WorkerPhase::Syncing);
    wait(SECOND).await;
    assert_eq!(adapters.requests(80).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn results_survive_agent_restart() {
    let adapters = FakeAdapters::new();
    let fixture = Fixture::start(&adapters);
    let probe = http(80, serde_json::json!({"periodSeconds": 30}));
    let fields =
        serde_json::json!({"readinessProbe": probe, "startupProbe": http(81, serde_json::Value::Null)});
    fixture.set_running("a", &fields);
    fixture.set_running("b", &fields);
    wait(SECOND * 5).await;
    fixture.stop().await;
    let requests = adapters.requests(81).len();

    let mut restarted = Fixture::start(&adapters);
    for (uid, id, started_at) in [("a", "a-0", BEGIN), ("b", "b-0", BEGIN.after(SECOND))] {
        restarted.set_desired(uid, &fields);
        restarted.set_observed(uid, id, started_at, ContainerState::Running);
    }
    tokio::task::yield_now().await;
    wait(Duration::from_millis(1)).await;
    assert_eq!(restarted.results_text("a"), "SR");
    // The same id with another start time is another run.
    assert_eq!(adapters.requests(81).len(), requests + 1);
    assert!(restarted.changes().contains(&(ProbeKind::Readiness, true)));
    adapters.set_http_status(80, 500);
    wait(SECOND * 31).await;
    assert_eq!(restarted.results_text("a"), "Sr");
}

#[tokio::test(start_paused = true)]
async fn feature_gate_discards_results_at_agent_restart() {
    let adapters = FakeAdapters::new();
    let fields = serde_json::json!({"startupProbe": http(81, serde_json::json!({"periodSeconds": 30}))});
    let fixture = Fixture::start(&adapters);
    fixture.set_running("a", &fields);
    wait(SECOND * 35).await;
    assert_eq!(fixture.results_text("a"), "S");
    fixture.stop().await;
    let requests = adapters.requests(81).len();

    adapters.set_http_status(81, 500);
    let gates = PodGates { restart_forgets_probes: true, ..PodGates::default() };
    let restarted = Fixture::start_with(&adapters, gates);
    restarted.set_desired("a", &fields);
    restarted.set_observed("a", "a-0", BEGIN, ContainerState::Running);
    wait(SECOND * 35).await;
    assert!(adapters.requests(81).len() > requests);
    assert_ne!(restarted.results_text("a"), "S");
}

#[tokio::test(start_paused = true)]
async fn starts_with_an_unreadable_checkpoint() {
    for content in [b"{\"version\":7,\"containers\":{}}".to_vec(), b"nonsense".to_vec()] {
        let adapters = FakeAdapters::new();
        *locked(&adapters.disk) = Some(content);
        let fixture = Fixture::start(&adapters);
        fixture.set_running("a", &serde_json::json!({"readinessProbe": http(80, serde_json::Value::Null)}));
        wait(SECOND).await;
        assert_eq!(fixture.results_text("a"), "R");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_checks_do_not_delay_other_probes() {
    let adapters = FakeAdapters::new();
    let fixture = Fixture::start(&adapters);
    // Far more than the limit, all without an answer until their timeout.
    for index in 0..300 {
        locked(&adapters.http).insert(1000 + index, (SECOND * 60, 200));
        let slow = http(1000 + index, serde_json::json!({"timeoutSeconds": 50}));
        fixture.set_running(&format!("slow{index}"), &serde_json::json!({"readinessProbe": slow}));
    }
    wait(SECOND * 3).await;
    fixture.set_running("quick", &serde_json::json!({"readinessProbe": http(80, serde_json::Value::Null)}));
    wait(SECOND * 10).await;
    assert_eq!(fixture.results_text("quick"), "R");
    assert!(adapters.requests(80).len() >= 10, "{:?}", adapters.requests(80));
}

#[tokio::test(start_paused = true)]
async fn two_hundred_probes_run_on_time_and_with_jitter() {
    let adapters = FakeAdapters::new();
    let fixture = Fixture::start(&adapters);
    for index in 0..200 {
        let probe = http(1000 + index, serde_json::Value::Null);
        fixture.set_running(&format!("p{index}"), &serde_json::json!({"livenessProbe": probe}));
    }
    wait(SECOND * 10).await;
    let mut checks_per_interval = BTreeMap::new();
    for index in 0..200 {
        let times = adapters.requests(1000 + index);
        assert!((9..=10).contains(&times.len()), "{times:?}");
        for pair in times.windows(2) {
            assert!((995..=1005).contains(&(pair[1] - pair[0])), "{times:?}");
        }
        for at in times {
            *checks_per_interval.entry(at / 100).or_insert(0) += 1;
        }
    }
    let most = checks_per_interval.values().max().unwrap();
    assert!(*most < 60, "{checks_per_interval:?}");
    // All results arrived within the first second.
    let saves = *locked(&adapters.saves);
    assert!((1..=4).contains(&saves), "{saves} writes");
}

#[tokio::test(start_paused = true)]
async fn exited_containers_are_not_probed() {
    let adapters = FakeAdapters::new();
    let fixture = Fixture::start(&adapters);
    fixture.set_desired("a", &serde_json::json!({"livenessProbe": http(80, serde_json::Value::Null)}));
    fixture.set_observed("a", "a-0", BEGIN, ContainerState::Exited);
    wait(SECOND * 100).await;
    assert_eq!(adapters.requests(80), Vec::<u128>::new());
    assert_eq!(fixture.messages(), Vec::<String>::new());
}
