use async_trait::async_trait;
use model::{EventSubject, EventType, Timestamp};

use super::*;
use crate::event_log::EventLog;

#[derive(Default)]
struct Server {
    calls: Mutex<Vec<String>>,
    failure: Mutex<Option<ApiErrorKind>>,
    forgets: Mutex<bool>,
}

impl Server {
    fn call(&self, verb: &str, report: &EventReport) -> Result<(), ApiError> {
        let error = |kind| ApiError { kind, message: "no".into(), retry_after: None };
        if verb == "update" && *self.forgets.lock().unwrap() {
            return Err(error(ApiErrorKind::NotFound));
        }
        if let Some(kind) = *self.failure.lock().unwrap() {
            return Err(error(kind));
        }
        self.calls.lock().unwrap().push(format!("{verb} {} {}", report.event.reason, report.count));
        Ok(())
    }

    fn fail(&self, kind: Option<ApiErrorKind>) {
        *self.failure.lock().unwrap() = kind;
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

#[async_trait]
impl ApiEvents for Server {
    async fn create(&self, report: &EventReport) -> Result<(), ApiError> {
        self.call("create", report)
    }

    async fn update(&self, report: &EventReport) -> Result<(), ApiError> {
        self.call("update", report)
    }
}

struct Stage {
    server: Arc<Server>,
    log: Arc<EventLog>,
    delivery: Arc<EventDelivery>,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Stage {
    fn new() -> Self {
        let (server, log) = (Arc::new(Server::default()), Arc::new(EventLog::new(10)));
        let delivery = Arc::new(EventDelivery::new(log.clone()));
        let cancel = CancellationToken::new();
        let task = tokio::spawn(run(delivery.clone(), server.clone(), cancel.clone()));
        Self { server, log, delivery, cancel, task }
    }

    /// Each event has a node of its own, so that none is silenced.
    fn record(&self, node: &str, reason: &str) {
        self.delivery.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::Node(node.into()),
            kind: EventType::Normal,
            reason: reason.into(),
            message: "m".into(),
            at: Timestamp::from_secs(1),
        });
    }

    async fn settle(&self, time: Duration) -> Vec<String> {
        tokio::time::sleep(time).await;
        self.server.taken()
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }
}

const MOMENT: Duration = GATHER.saturating_add(Duration::from_millis(1));

#[tokio::test(start_paused = true)]
async fn new_events_are_made_and_repeated_ones_updated() {
    let stage = Stage::new();
    stage.record("n", "Starting");
    assert_eq!(stage.settle(MOMENT).await, ["create Starting 1"]);
    stage.record("n", "Starting");
    assert_eq!(stage.settle(MOMENT).await, ["update Starting 2"]);
    *stage.server.forgets.lock().unwrap() = true;
    stage.record("n", "Starting");
    assert_eq!(stage.settle(MOMENT).await, ["create Starting 3"]);
    assert_eq!(stage.log.all().len(), 1, "the node's own log has it as well");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out_and_costs_one_request_for_each_event() {
    let stage = Stage::new();
    stage.server.fail(Some(ApiErrorKind::Unreachable));
    for _ in 0..5 {
        stage.record("n", "A");
        stage.record("n", "B");
        assert!(stage.settle(Duration::from_secs(20)).await.is_empty());
    }
    stage.server.fail(None);
    let mut calls = stage.settle(LONGEST_WAIT).await;
    calls.sort();
    assert_eq!(calls, ["create A 5", "create B 5"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_not_tried_again() {
    let stage = Stage::new();
    stage.server.fail(Some(ApiErrorKind::Forbidden));
    stage.record("n", "A");
    assert!(stage.settle(MOMENT).await.is_empty());
    stage.server.fail(None);
    stage.record("n", "B");
    assert_eq!(stage.settle(LONGEST_WAIT).await, ["create B 1"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_the_oldest_and_counts_them() {
    let stage = Stage::new();
    stage.server.fail(Some(ApiErrorKind::Unreachable));
    for number in 0..QUEUED + 7 {
        stage.record(&format!("n{number}"), &format!("R{number}"));
    }
    assert_eq!(stage.delivery.dropped(), 7);
    stage.server.fail(None);
    let calls = stage.settle(LONGEST_WAIT).await;
    assert_eq!(calls.len(), QUEUED);
    assert_eq!(calls[0], "create R7 1");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_happens_again_within_a_moment_is_told_once() {
    let stage = Stage::new();
    // What was recorded before it runs is sent at once.
    tokio::task::yield_now().await;
    stage.record("n", "A");
    stage.record("n", "B");
    assert!(stage.settle(GATHER / 2).await.is_empty());
    stage.record("n", "A");
    assert_eq!(stage.settle(MOMENT).await, ["create A 2", "create B 1"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_still_tells_what_waits() {
    let stage = Stage::new();
    tokio::task::yield_now().await;
    stage.record("n", "A");
    tokio::time::sleep(GATHER / 2).await;
    let server = stage.server.clone();
    stage.stop().await;
    assert_eq!(server.taken(), ["create A 1"]);
}
