use decide::node::node_shutdown::{MESSAGE, REASON, ShutdownPeriod};
use model::{PodSource, PodUid, WorkerPhase};
use ports::clock::SystemClock;
use ports::host::logind::ShutdownSignal::{Cancelled, Imminent};
use serde_json::json;
use testkit::builders::{pod, worker_view};
use testkit::fake_logind::FakeLogind;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::cluster::event_log::EventLog;
use crate::metrics::{Format, Page};
use crate::pipeline::tables::{Writer, table};
use crate::test_checkpoints::Files;

const FILE: &str = "graceful_node_shutdown_state";

struct Fixture {
    logind: FakeLogind,
    desired: Writer<Pod>,
    workers: Writer<WorkerView>,
    kills: mpsc::UnboundedReceiver<KillRequest>,
    report: watch::Receiver<Option<Shutdown>>,
    sources: watch::Sender<bool>,
    state: Arc<Files>,
    metrics: Arc<ShutdownMetrics>,
    events: Arc<EventLog>,
    cancel: CancellationToken,
    stage: JoinHandle<()>,
}

impl Fixture {
    /// The grace period is 20 s, and 10 s for pods of priority 1000 and above.
    fn with(logind: FakeLogind, state: Files) -> Self {
        let (desired, desired_reader) = table(Vec::new());
        let (workers, worker_reader) = table(Vec::new());
        let (sender, kills) = mpsc::unbounded_channel();
        let (report_sender, report) = watch::channel(None);
        let (sources, sources_ready) = watch::channel(true);
        let (state, metrics) = (Arc::new(state), Arc::new(ShutdownMetrics::default()));
        let events = Arc::new(EventLog::new(20));
        let periods =
            [ShutdownPeriod { priority: 1000, seconds: 10 }, ShutdownPeriod { priority: 0, seconds: 20 }];
        let deps = NodeShutdownDeps {
            logind: Arc::new(logind.clone()),
            periods: ShutdownPeriods::of(&periods, Duration::ZERO, Duration::ZERO).unwrap(),
            desired: desired_reader,
            workers: worker_reader,
            sources_ready,
            kills: sender,
            report: report_sender,
            state: state.clone(),
            metrics: Some(metrics.clone()),
            node: "node".to_owned(),
            events: events.clone(),
            clock: Arc::new(SystemClock),
        };
        let cancel = CancellationToken::new();
        let stage = tokio::spawn(run(deps, cancel.clone()));
        Self { logind, desired, workers, kills, report, sources, state, metrics, events, cancel, stage }
    }

    async fn armed() -> Self {
        let mut fixture = Self::with(FakeLogind::with_unlimited_delay(), Files::default());
        fixture.wait_for(Shutdown::None).await;
        assert_eq!(fixture.locks(), 1);
        fixture
    }

    fn run_pod(&self, name: &str, priority: i32) {
        let spec = json!({"containers": [], "priority": priority, "terminationGracePeriodSeconds": 30});
        let pod = pod(name, PodSource::Api, spec);
        self.desired.set(&pod.uid.clone(), pod.shared());
        self.set_phase(name, WorkerPhase::Syncing);
    }

    fn set_phase(&self, name: &str, phase: WorkerPhase) {
        self.workers.set(&PodUid::from(name), Arc::new(worker_view(name, phase)));
    }

    async fn wait_for(&mut self, expected: Shutdown) {
        let reported = self.report.wait_for(|shutdown| *shutdown == Some(expected));
        tokio::time::timeout(Duration::from_secs(60), reported).await.unwrap().unwrap();
    }

    fn locks(&self) -> usize {
        self.logind.change(|state| state.locks_held)
    }

    /// Name and grace period of the next killed pod.
    async fn next_kill(&mut self) -> (String, u64) {
        let request =
            tokio::time::timeout(Duration::from_secs(300), self.kills.recv()).await.unwrap().unwrap();
        let rejection = request.options.rejection.unwrap();
        assert_eq!((rejection.reason.as_str(), rejection.message.as_str()), (REASON, MESSAGE));
        (request.uid.as_str().to_owned(), request.options.grace_override.unwrap())
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    fn event_texts(&self) -> Vec<String> {
        let events = self.events.all();
        events.iter().map(|series| format!("{}: {}", series.event.reason, series.event.message)).collect()
    }

    /// Whether the metrics have a start time and an end time.
    fn exported_times(&self) -> (bool, bool) {
        let mut page = Page::new(Format::Text);
        crate::metrics::Collect::collect(&*self.metrics, &mut page);
        let text = page.into_text();
        let is_set = |name: &str| !text.contains(&format!("\n{name} 0\n"));
        (
            is_set("kubelet_graceful_shutdown_start_time_seconds"),
            is_set("kubelet_graceful_shutdown_end_time_seconds"),
        )
    }

    fn saved(&self) -> decide::node::node_shutdown::ShutdownState {
        decide::node::node_shutdown::ShutdownState::read(&self.state.read(FILE).unwrap().1).unwrap()
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.stage.await.unwrap();
        assert_eq!(self.logind.change(|state| state.locks_held), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn terminates_groups_in_order_and_then_releases_lock() {
    let mut fixture = Fixture::armed().await;
    fixture.run_pod("low", 0);
    fixture.run_pod("high", 1000);
    fixture.logind.signal(Imminent);
    fixture.wait_for(Shutdown::Imminent).await;
    assert_eq!(fixture.next_kill().await, ("low".to_owned(), 20));
    fixture.settle().await;
    assert_eq!((fixture.locks(), fixture.exported_times()), (1, (true, false)));
    assert_eq!(fixture.saved().ended, None);
    // Terminated is not enough: its volumes must be unmounted, too.
    fixture.set_phase("low", WorkerPhase::Terminated);
    fixture.settle().await;
    assert!(fixture.kills.try_recv().is_err());
    fixture.set_phase("low", WorkerPhase::Finished);
    assert_eq!(fixture.next_kill().await, ("high".to_owned(), 10));
    fixture.set_phase("high", WorkerPhase::Finished);
    fixture.settle().await;
    assert_eq!((fixture.locks(), fixture.exported_times()), (0, (true, true)));
    assert!(fixture.saved().ended.is_some());
    assert_eq!(fixture.event_texts(), ["Shutdown: Shutdown manager detected shutdown event"]);
    assert_eq!(*fixture.report.borrow(), Some(Shutdown::Imminent));
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn limits_each_group_to_its_period_and_reports_late_pods() {
    let mut fixture = Fixture::armed().await;
    fixture.run_pod("stuck", 0);
    fixture.run_pod("high", 1000);
    fixture.run_pod("missed", 0);
    fixture.desired.remove(&PodUid::from("missed"));
    let start = Instant::now();
    fixture.logind.signal(Imminent);
    assert_eq!(fixture.next_kill().await.0, "stuck");
    // The pod appears while its group is already being terminated.
    fixture.run_pod("missed", 0);
    assert_eq!(
        (fixture.next_kill().await.0, fixture.next_kill().await.0),
        ("high".to_owned(), "missed".to_owned())
    );
    assert_eq!(start.elapsed().as_secs(), 20);
    fixture.set_phase("missed", WorkerPhase::Finished);
    fixture.set_phase("high", WorkerPhase::Finished);
    fixture.settle().await;
    assert_eq!(fixture.locks(), 0, "a late pod does not delay the shutdown");
    assert_eq!(fixture.event_texts().len(), 1);
    tokio::time::sleep(Duration::from_secs(11)).await;
    let late = "ExceededGracePeriod: Container runtime did not kill the pod within specified grace period.";
    assert!(fixture.event_texts().contains(&late.to_owned()), "{:?}", fixture.event_texts());
    assert!(fixture.kills.try_recv().is_err());
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn releases_lock_immediately_without_pods() {
    let mut fixture = Fixture::armed().await;
    fixture.logind.signal(Imminent);
    fixture.wait_for(Shutdown::Imminent).await;
    fixture.settle().await;
    assert_eq!((fixture.locks(), fixture.exported_times()), (0, (true, true)));
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_shutdown_spares_later_groups() {
    let mut fixture = Fixture::armed().await;
    fixture.run_pod("low", 0);
    fixture.run_pod("high", 1000);
    for round in 1..3 {
        fixture.logind.signal(Imminent);
        assert_eq!(fixture.next_kill().await.0, "low");
        fixture.logind.signal(Cancelled);
        fixture.wait_for(Shutdown::None).await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(fixture.kills.try_recv().is_err());
        assert_eq!((fixture.locks(), fixture.exported_times()), (1, (true, true)));
        assert_eq!(fixture.logind.change(|state| state.locks_taken), 1 + round);
    }
    assert_eq!(
        fixture.event_texts(),
        [
            "Shutdown: Shutdown manager detected shutdown event",
            "Shutdown: Shutdown manager detected shutdown cancellation"
        ]
    );
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn continues_shutdown_found_at_start() {
    let saved = Files::default();
    saved
        .save(FILE, br#"{"startTime":"2026-01-02T03:04:05Z","endTime":"0001-01-01T00:00:00Z"}"#.to_vec())
        .await
        .unwrap();
    let logind = FakeLogind::with_unlimited_delay();
    logind.change(|state| state.preparing = true);
    let mut fixture = Fixture::with(logind, saved);
    fixture.sources.send_replace(false);
    fixture.wait_for(Shutdown::Imminent).await;
    fixture.settle().await;
    assert_eq!(fixture.locks(), 0, "logind grants no locks during a shutdown");
    // The pods are known only after the sources have delivered.
    fixture.run_pod("left", 0);
    fixture.sources.send_replace(true);
    assert_eq!(fixture.next_kill().await.0, "left");
    fixture.set_phase("left", WorkerPhase::Finished);
    fixture.settle().await;
    assert_eq!(fixture.saved().started.unwrap().to_rfc3339(), "2026-01-02T03:04:05Z");
    assert!(fixture.saved().ended.is_some());
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn raises_inhibitor_delay_and_tolerates_too_short_one() {
    for (highest, locks) in [(60, 1), (29, 0)] {
        let logind = FakeLogind::default();
        logind.change(|state| {
            state.delay = Duration::from_secs(5);
            state.highest_delay = Duration::from_secs(highest);
        });
        let mut fixture = Fixture::with(logind, Files::default());
        // Pods start without a lock.
        fixture.wait_for(Shutdown::None).await;
        assert_eq!(fixture.logind.change(|state| state.raised.clone()), [Duration::from_secs(30)]);
        assert_eq!(fixture.locks(), locks);
        fixture.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn reconnects_to_logind_and_detects_missed_cancellation() {
    let mut fixture = Fixture::armed().await;
    fixture.run_pod("low", 0);
    fixture.logind.disconnect_all();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((fixture.logind.change(|state| state.conversations), fixture.locks()), (2, 1));
    fixture.logind.signal(Imminent);
    assert_eq!(fixture.next_kill().await.0, "low");
    fixture.logind.change(|state| state.away = true);
    fixture.logind.disconnect_all();
    fixture.settle().await;
    fixture.set_phase("low", WorkerPhase::Finished);
    fixture.settle().await;
    assert_eq!((fixture.locks(), fixture.exported_times()), (0, (true, true)));
    // The shutdown is cancelled while the connection is down.
    fixture.logind.change(|state| (state.away, state.preparing) = (false, false));
    fixture.wait_for(Shutdown::None).await;
    assert_eq!(fixture.locks(), 1);
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn silent_logind_does_not_block_start() {
    let logind = FakeLogind::with_unlimited_delay();
    logind.change(|state| state.silent = true);
    let mut fixture = Fixture::with(logind, Files::default());
    let start = Instant::now();
    fixture.wait_for(Shutdown::None).await;
    assert!(start.elapsed() <= FIRST_ANSWER_TIMEOUT);
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn exports_times_of_last_shutdown_after_restart() {
    let saved = Files::default();
    saved
        .save(FILE, br#"{"startTime":"2026-01-02T03:04:05Z","endTime":"2026-01-02T03:04:09Z"}"#.to_vec())
        .await
        .unwrap();
    let mut fixture = Fixture::with(FakeLogind::with_unlimited_delay(), saved);
    fixture.wait_for(Shutdown::None).await;
    assert_eq!(fixture.exported_times(), (true, true));
    fixture.stop().await;
}
