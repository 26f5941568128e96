use decide::node_shutdown::{MESSAGE, Period, REASON};
use model::{PodSource, PodUid, WorkerPhase};
use ports::clock::SystemClock;
use ports::logind::ShutdownSignal::{Cancelled, Imminent};
use serde_json::json;
use testkit::fake_logind::FakeLogind;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::event_log::EventLog;
use crate::metrics::{Format, Page};
use crate::published::{Writer, table};
use crate::test_checkpoints::Files;

const FILE: &str = "graceful_node_shutdown_state";

struct Given {
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

impl Given {
    /// A stage that gives plain pods 20 s, and those from priority 1000 on 10 s.
    fn with(logind: FakeLogind, state: Files) -> Self {
        let (desired, desired_reader) = table(Vec::new());
        let (workers, worker_reader) = table(Vec::new());
        let (sender, kills) = mpsc::unbounded_channel();
        let (report_sender, report) = watch::channel(None);
        let (sources, sources_ready) = watch::channel(true);
        let (state, metrics) = (Arc::new(state), Arc::new(ShutdownMetrics::default()));
        let events = Arc::new(EventLog::new(20));
        let periods = [Period { priority: 1000, seconds: 10 }, Period { priority: 0, seconds: 20 }];
        let parts = Parts {
            logind: Arc::new(logind.clone()),
            periods: Periods::of(&periods, Duration::ZERO, Duration::ZERO).unwrap(),
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
        let stage = tokio::spawn(run(parts, cancel.clone()));
        Self { logind, desired, workers, kills, report, sources, state, metrics, events, cancel, stage }
    }

    async fn armed() -> Self {
        let mut given = Self::with(FakeLogind::patient(), Files::default());
        given.until(Shutdown::None).await;
        assert_eq!(given.locks(), 1);
        given
    }

    fn run_pod(&self, name: &str, priority: i32) {
        let object = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [], "priority": priority, "terminationGracePeriodSeconds": 30},
        });
        let pod = Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap();
        self.desired.set(&pod.uid.clone(), pod.shared());
        self.set_phase(name, WorkerPhase::Syncing);
    }

    fn set_phase(&self, name: &str, phase: WorkerPhase) {
        let view = WorkerView {
            uid: name.into(),
            full_name: model::PodFullName { namespace: "default".into(), name: name.into() },
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
        self.workers.set(&PodUid::from(name), Arc::new(view));
    }

    async fn until(&mut self, wanted: Shutdown) {
        let told = self.report.wait_for(|told| *told == Some(wanted));
        tokio::time::timeout(Duration::from_secs(60), told).await.unwrap().unwrap();
    }

    fn locks(&self) -> usize {
        self.logind.change(|world| world.locks_held)
    }

    /// The next pod that is ended, and its grace.
    async fn kill(&mut self) -> (String, u64) {
        let request =
            tokio::time::timeout(Duration::from_secs(300), self.kills.recv()).await.unwrap().unwrap();
        let rejection = request.options.rejection.unwrap();
        assert_eq!((rejection.reason.as_str(), rejection.message.as_str()), (REASON, MESSAGE));
        (request.uid.as_str().to_owned(), request.options.grace_override.unwrap())
    }

    /// Lets the stage come to rest.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    fn told(&self) -> Vec<String> {
        let events = self.events.all();
        events.iter().map(|series| format!("{}: {}", series.event.reason, series.event.message)).collect()
    }

    /// The times shown: whether there is a start, and an end.
    fn times(&self) -> (bool, bool) {
        let mut page = Page::new(Format::Text);
        crate::metrics::Collect::collect(&*self.metrics, &mut page);
        let text = page.into_text();
        let is_set = |name: &str| !text.contains(&format!("\n{name} 0\n"));
        (
            is_set("kubelet_graceful_shutdown_start_time_seconds"),
            is_set("kubelet_graceful_shutdown_end_time_seconds"),
        )
    }

    fn written(&self) -> decide::node_shutdown::Record {
        decide::node_shutdown::Record::read(&self.state.read(FILE).unwrap().1).unwrap()
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.stage.await.unwrap();
        assert_eq!(self.logind.change(|world| world.locks_held), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn groups_end_one_after_the_other_and_then_the_machine_may() {
    let mut given = Given::armed().await;
    given.run_pod("low", 0);
    given.run_pod("high", 1000);
    given.logind.signal(Imminent);
    given.until(Shutdown::Imminent).await;
    assert_eq!(given.kill().await, ("low".to_owned(), 20));
    given.settle().await;
    assert_eq!((given.locks(), given.times()), (1, (true, false)));
    assert_eq!(given.written().ended, None);
    // Stopped is not enough: its mounts must be gone too.
    given.set_phase("low", WorkerPhase::Terminated);
    given.settle().await;
    assert!(given.kills.try_recv().is_err());
    given.set_phase("low", WorkerPhase::Finished);
    assert_eq!(given.kill().await, ("high".to_owned(), 10));
    given.set_phase("high", WorkerPhase::Finished);
    given.settle().await;
    assert_eq!((given.locks(), given.times()), (0, (true, true)));
    assert!(given.written().ended.is_some());
    assert_eq!(given.told(), ["Shutdown: Shutdown manager detected shutdown event"]);
    assert_eq!(*given.report.borrow(), Some(Shutdown::Imminent));
    given.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_has_its_time_and_not_more_and_who_is_late_is_told() {
    let mut given = Given::armed().await;
    given.run_pod("stuck", 0);
    given.run_pod("high", 1000);
    given.run_pod("missed", 0);
    given.desired.remove(&PodUid::from("missed"));
    let begun = Instant::now();
    given.logind.signal(Imminent);
    assert_eq!(given.kill().await.0, "stuck");
    // It came between the order to its group and the end of that.
    given.run_pod("missed", 0);
    assert_eq!((given.kill().await.0, given.kill().await.0), ("high".to_owned(), "missed".to_owned()));
    assert_eq!(begun.elapsed().as_secs(), 20);
    given.set_phase("missed", WorkerPhase::Finished);
    given.set_phase("high", WorkerPhase::Finished);
    given.settle().await;
    assert_eq!(given.locks(), 0, "the machine waits for nobody who had his time");
    assert_eq!(given.told().len(), 1);
    tokio::time::sleep(Duration::from_secs(11)).await;
    let late = "ExceededGracePeriod: Container runtime did not kill the pod within specified grace period.";
    assert!(given.told().contains(&late.to_owned()), "{:?}", given.told());
    assert!(given.kills.try_recv().is_err());
    given.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_is_waited_for_without_pods() {
    let mut given = Given::armed().await;
    given.logind.signal(Imminent);
    given.until(Shutdown::Imminent).await;
    given.settle().await;
    assert_eq!((given.locks(), given.times()), (0, (true, true)));
    given.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_called_off_spares_the_groups_to_come() {
    let mut given = Given::armed().await;
    given.run_pod("low", 0);
    given.run_pod("high", 1000);
    for round in 1..3 {
        given.logind.signal(Imminent);
        assert_eq!(given.kill().await.0, "low");
        given.logind.signal(Cancelled);
        given.until(Shutdown::None).await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(given.kills.try_recv().is_err());
        assert_eq!((given.locks(), given.times()), (1, (true, true)));
        assert_eq!(given.logind.change(|world| world.locks_taken), 1 + round);
    }
    assert_eq!(
        given.told(),
        [
            "Shutdown: Shutdown manager detected shutdown event",
            "Shutdown: Shutdown manager detected shutdown cancellation"
        ]
    );
    given.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_starts_while_the_machine_goes_down_goes_on() {
    let before = Files::default();
    before
        .save(FILE, br#"{"startTime":"2026-01-02T03:04:05Z","endTime":"0001-01-01T00:00:00Z"}"#.to_vec())
        .await
        .unwrap();
    let logind = FakeLogind::patient();
    logind.change(|world| world.preparing = true);
    let mut given = Given::with(logind, before);
    given.sources.send_replace(false);
    given.until(Shutdown::Imminent).await;
    given.settle().await;
    assert_eq!(given.locks(), 0, "nobody gets a lock then");
    // What runs is known only when the sources have spoken.
    given.run_pod("left", 0);
    given.sources.send_replace(true);
    assert_eq!(given.kill().await.0, "left");
    given.set_phase("left", WorkerPhase::Finished);
    given.settle().await;
    assert_eq!(given.written().started.unwrap().to_rfc3339(), "2026-01-02T03:04:05Z");
    assert!(given.written().ended.is_some());
    given.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_delay_is_raised_and_what_stays_too_short_is_borne() {
    for (highest, locks) in [(60, 1), (29, 0)] {
        let logind = FakeLogind::default();
        logind.change(|world| {
            world.delay = Duration::from_secs(5);
            world.highest_delay = Duration::from_secs(highest);
        });
        let mut given = Given::with(logind, Files::default());
        // Pods do not wait for it.
        given.until(Shutdown::None).await;
        assert_eq!(given.logind.change(|world| world.raised.clone()), [Duration::from_secs(30)]);
        assert_eq!(given.locks(), locks);
        given.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_goes_away_is_found_again_and_holds_up_no_end() {
    let mut given = Given::armed().await;
    given.run_pod("low", 0);
    given.logind.hang_up();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((given.logind.change(|world| world.conversations), given.locks()), (2, 1));
    given.logind.signal(Imminent);
    assert_eq!(given.kill().await.0, "low");
    given.logind.change(|world| world.away = true);
    given.logind.hang_up();
    given.settle().await;
    given.set_phase("low", WorkerPhase::Finished);
    given.settle().await;
    assert_eq!((given.locks(), given.times()), (0, (true, true)));
    // It was cancelled while nobody listened.
    given.logind.change(|world| (world.away, world.preparing) = (false, false));
    given.until(Shutdown::None).await;
    assert_eq!(given.locks(), 1);
    given.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_logind_that_says_nothing_holds_up_no_start() {
    let logind = FakeLogind::patient();
    logind.change(|world| world.silent = true);
    let mut given = Given::with(logind, Files::default());
    let begun = Instant::now();
    given.until(Shutdown::None).await;
    assert!(begun.elapsed() <= FIRST_LOOK);
    given.stop().await;
}

#[tokio::test(start_paused = true)]
async fn times_of_the_last_end_are_shown_again() {
    let before = Files::default();
    before
        .save(FILE, br#"{"startTime":"2026-01-02T03:04:05Z","endTime":"2026-01-02T03:04:09Z"}"#.to_vec())
        .await
        .unwrap();
    let mut given = Given::with(FakeLogind::patient(), before);
    given.until(Shutdown::None).await;
    assert_eq!(given.times(), (true, true));
    given.stop().await;
}
