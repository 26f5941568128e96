use async_trait::async_trait;
use model::{EventSubject, EventType, Timestamp};
use timing::jitter;
use tokio::time::Instant;

use super::*;
use crate::cluster::event_log::EventLog;

#[derive(Default)]
struct Server {
    calls: Mutex<Vec<String>>,
    attempts: Mutex<Vec<Instant>>,
    failure: Mutex<Option<ApiErrorKind>>,
    has_expired: Mutex<bool>,
}

impl Server {
    fn call(&self, verb: &str, report: &EventReport) -> Result<(), ApiError> {
        self.attempts.lock().push(Instant::now());
        let error = |kind| ApiError { kind, message: "no".into(), retry_after: None };
        if verb == "update" && *self.has_expired.lock() {
            return Err(error(ApiErrorKind::NotFound));
        }
        if let Some(kind) = *self.failure.lock() {
            return Err(error(kind));
        }
        self.calls.lock().push(format!("{verb} {} {}", report.event.reason, report.count));
        Ok(())
    }

    fn fail(&self, kind: Option<ApiErrorKind>) {
        *self.failure.lock() = kind;
    }

    fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock())
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

    /// Events of different nodes are not combined.
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

    async fn calls_after(&self, time: Duration) -> Vec<String> {
        tokio::time::sleep(time).await;
        self.server.take_calls()
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }
}

const AFTER_DEBOUNCE: Duration = DEBOUNCE.saturating_add(Duration::from_millis(1));

fn max_delay() -> Duration {
    jitter(BACKOFF.cap, BACKOFF.jitter, 1.0)
}

#[tokio::test(start_paused = true)]
async fn creates_new_events_and_updates_repeated_ones() {
    let stage = Stage::new();
    stage.record("n", "Starting");
    assert_eq!(stage.calls_after(AFTER_DEBOUNCE).await, ["create Starting 1"]);
    stage.record("n", "Starting");
    assert_eq!(stage.calls_after(AFTER_DEBOUNCE).await, ["update Starting 2"]);
    *stage.server.has_expired.lock() = true;
    stage.record("n", "Starting");
    assert_eq!(stage.calls_after(AFTER_DEBOUNCE).await, ["create Starting 3"]);
    assert_eq!(stage.log.all().len(), 1, "the local log has the event, too");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn sends_one_request_per_event_after_outage() {
    let stage = Stage::new();
    stage.server.fail(Some(ApiErrorKind::Unreachable));
    for _ in 0..5 {
        stage.record("n", "A");
        stage.record("n", "B");
        assert!(stage.calls_after(Duration::from_secs(20)).await.is_empty());
    }
    stage.server.fail(None);
    let mut calls = stage.calls_after(max_delay()).await;
    calls.sort();
    assert_eq!(calls, ["create A 5", "create B 5"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn does_not_retry_rejected_events() {
    let stage = Stage::new();
    stage.server.fail(Some(ApiErrorKind::Forbidden));
    stage.record("n", "A");
    assert!(stage.calls_after(AFTER_DEBOUNCE).await.is_empty());
    stage.server.fail(None);
    stage.record("n", "B");
    assert_eq!(stage.calls_after(max_delay()).await, ["create B 1"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn full_queue_drops_and_counts_oldest_events() {
    let stage = Stage::new();
    stage.server.fail(Some(ApiErrorKind::Unreachable));
    for number in 0..MAX_QUEUED + 7 {
        stage.record(&format!("n{number}"), &format!("R{number}"));
    }
    assert_eq!(stage.delivery.dropped(), 7);
    stage.server.fail(None);
    let calls = stage.calls_after(max_delay()).await;
    assert_eq!(calls.len(), MAX_QUEUED);
    assert_eq!(calls[0], "create R7 1");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn debounce_combines_repeated_events() {
    let stage = Stage::new();
    // Events that were recorded before the stage runs are not debounced.
    tokio::task::yield_now().await;
    stage.record("n", "A");
    stage.record("n", "B");
    assert!(stage.calls_after(DEBOUNCE / 2).await.is_empty());
    stage.record("n", "A");
    assert_eq!(stage.calls_after(AFTER_DEBOUNCE).await, ["create A 2", "create B 1"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn sends_queued_events_on_shutdown() {
    let stage = Stage::new();
    tokio::task::yield_now().await;
    stage.record("n", "A");
    tokio::time::sleep(DEBOUNCE / 2).await;
    let server = stage.server.clone();
    stage.stop().await;
    assert_eq!(server.take_calls(), ["create A 1"]);
}

#[tokio::test(start_paused = true)]
async fn delays_between_retries_have_jitter() {
    let stage = Stage::new();
    stage.server.fail(Some(ApiErrorKind::Unreachable));
    stage.record("n", "A");
    stage.calls_after(Duration::from_secs(600)).await;
    let attempts = stage.server.attempts.lock().clone();
    let delays: Vec<Duration> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(delays.len() > 12, "{delays:?}");
    for (failures, delay) in (1..).zip(&delays) {
        let (base, rounding) = (BACKOFF.delay_after(failures), Duration::from_millis(2));
        assert!(
            *delay >= base && *delay <= base.mul_f64(1.5) + rounding,
            "{delay:?} after {failures} failures"
        );
    }
    assert!(delays.iter().skip(6).any(|delay| *delay > BACKOFF.cap.mul_f64(1.02)), "{delays:?}");
    stage.stop().await;
}
