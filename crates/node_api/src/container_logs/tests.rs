mod fake_files;

use std::sync::Arc;
use std::time::Duration;

use agent::kept_status::KeptStatus;
use agent::observation::{Observations, observations};
use agent::published::{Writer, table};
use axum::http::Request;
use http_body_util::BodyExt;
use model::{ContainerStatus, Moment, Observation, ObservedPod, Pod, PodSource, Timestamp};
use serde_json::{Value, json};
use tower::util::ServiceExt;

use super::*;
use fake_files::FakeFiles;

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }
}

struct Node {
    files: FakeFiles,
    router: Router,
    desired: Writer<Pod>,
    statuses: Writer<KeptStatus>,
    observed: Observations,
}

fn node() -> Node {
    let files = FakeFiles::default();
    let (desired, desired_reader) = table(Vec::new());
    let (statuses, status_reader) = table(Vec::new());
    let (observed, observer) = observations(Vec::new());
    let parts = LogParts {
        pods: PodLookup::new(desired_reader, None),
        statuses: status_reader,
        observer,
        files: Arc::new(files.clone()),
        clock: Arc::new(FixedClock),
        split_streams: false,
    };
    Node { router: routes(parts), files, desired, statuses, observed }
}

impl Node {
    /// A pod whose container `main` is in that state.
    fn pod(&self, state: ContainerState) {
        let object = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "u1"},
                            "spec": {"containers": [{"name": "main"}, {"name": "other"}]}});
        let pod = Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap();
        self.desired.set(&"u1".into(), Arc::new(pod));
        let shown = match state {
            ContainerState::Running => json!({"running": {}}),
            _ => json!({"terminated": {"exitCode": 0, "containerID": "x://c1"}}),
        };
        let main = json!({"name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                          "containerID": "x://c1", "state": shown});
        let status: Value = json!({"containerStatuses": [main]});
        self.statuses.set(&"u1".into(), Arc::new(KeptStatus::of(&serde_json::from_value(status).unwrap())));
        self.observe(state);
    }

    fn observe(&self, state: ContainerState) {
        let main = ContainerStatus { log_path: "/logs/0.log".into(), ..status(state) };
        let pod = ObservedPod {
            uid: "u1".into(),
            full_name: model::PodFullName { namespace: "ns".into(), name: "web".into() },
            sandboxes: Vec::new(),
            containers: vec![main],
            moment: Moment::START,
            observation: Observation::Complete,
        };
        self.observed.rows.set(&"u1".into(), Arc::new(pod));
    }

    fn write(&self, lines: &[&str]) {
        for line in lines {
            self.files.append(format!("2026-01-02T03:04:05Z stdout F {line}\n").as_bytes());
        }
    }

    async fn get(&self, path: &str) -> Response {
        let request = Request::get(path).body(Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn check(&self, path: &str, code: u16, text: &str) {
        let answer = self.get(path).await;
        assert_eq!(answer.status(), code, "{path}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(String::from_utf8_lossy(&body), text, "{path}");
    }
}

fn status(state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        id: "c1".into(),
        sandbox_id: "s1".into(),
        name: "main".into(),
        attempt: 0,
        state,
        created_at: Timestamp::ZERO,
        started_at: Timestamp::ZERO,
        finished_at: Timestamp::ZERO,
        exit_code: 0,
        image: String::new(),
        image_ref: String::new(),
        image_id: String::new(),
        reason: String::new(),
        message: String::new(),
        annotations: Default::default(),
        log_path: String::new(),
        mounts: Vec::new(),
        image_mounts: Vec::new(),
        image_handler: String::new(),
        resources: None,
        pid: None,
        user: Default::default(),
        stop_signal: Default::default(),
    }
}

async fn frame(body: &mut Body) -> String {
    let frame = tokio::time::timeout(Duration::from_secs(20), body.frame()).await.expect("no piece came");
    String::from_utf8(frame.unwrap().unwrap().into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn shows_what_the_query_asks_for() {
    let node = node();
    node.pod(ContainerState::Running);
    node.write(&["one", "two", "three"]);
    let path = |query: &str| format!("/containerLogs/ns/web/main{query}");
    node.check(&path(""), 200, "one\ntwo\nthree\n").await;
    node.check(&path("?tailLines=2"), 200, "two\nthree\n").await;
    node.check(&path("?tail=1"), 200, "three\n").await;
    node.check(&path("?tail=all"), 200, "one\ntwo\nthree\n").await;
    node.check(&path("?tailLines=0"), 200, "").await;
    node.check(&path("?limitBytes=5"), 200, "one\nt").await;
    node.check(&path("?sinceSeconds=1"), 200, "").await;
    node.check(&path("?sinceTime=2026-01-02T03:04:05Z&tailLines=1"), 200, "three\n").await;
    node.check(&path("?timestamps=true&tailLines=1"), 200, "2026-01-02T03:04:05.000000000Z three\n").await;
}

#[tokio::test(start_paused = true)]
async fn refusals_have_upstreams_codes() {
    let node = node();
    node.pod(ContainerState::Running);
    let missing = "pod \"gone\" does not exist";
    node.check("/containerLogs/ns/gone/main", 404, missing).await;
    node.check("/containerLogs/other/web/main", 404, "pod \"web\" does not exist").await;
    node.check("/containerLogs/ns/web/nope", 404, "container \"nope\" not found in pod \"web\"").await;
    for (query, code) in [
        ("tailLines=x", 400),
        ("tailLines=-1", 422),
        ("limitBytes=0", 422),
        ("sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", 422),
        ("stream=Stdout", 400),
        ("previous=true", 400),
    ] {
        let answer = node.get(&format!("/containerLogs/ns/web/main?{query}")).await;
        assert_eq!(answer.status(), code, "{query}");
    }
    let waiting = "container \"other\" in pod \"web\" is not available";
    node.check("/containerLogs/ns/web/other", 400, waiting).await;
    let answer = node.get("/containerLogs/ns/web/main").await;
    assert_eq!(answer.status(), 400, "there is no log file");
}

#[tokio::test(start_paused = true)]
async fn follows_through_rotations_to_the_containers_end() {
    let node = node();
    node.pod(ContainerState::Running);
    node.write(&["one", "two"]);
    let answer = node.get("/containerLogs/ns/web/main?follow=true&tailLines=1").await;
    let mut body = answer.into_body();
    assert_eq!(frame(&mut body).await, "two\n");
    node.write(&["three"]);
    assert_eq!(frame(&mut body).await, "three\n");
    // Two rotations while nobody reads: what was written in between is not lost.
    for stamp in ["20260101-000000", "20260101-000001"] {
        node.write(&[stamp]);
        node.files.rotate();
    }
    node.write(&["last"]);
    assert_eq!(frame(&mut body).await, "20260101-000000\n");
    assert_eq!(frame(&mut body).await, "20260101-000001\n");
    assert_eq!(frame(&mut body).await, "last\n");
    node.write(&["and out"]);
    node.observe(ContainerState::Exited);
    assert_eq!(frame(&mut body).await, "and out\n");
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn following_what_has_ended_ends() {
    let node = node();
    node.pod(ContainerState::Exited);
    node.write(&["one"]);
    node.check("/containerLogs/ns/web/main?follow=true", 200, "one\n").await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_costs_one_piece() {
    let node = node();
    node.pod(ContainerState::Running);
    let line = "x".repeat(1000);
    node.write(&vec![line.as_str(); 20_000]);
    let mut body = node.get("/containerLogs/ns/web/main").await.into_body();
    // Pieces are made when they are asked for, and none is larger than what is read at once.
    let mut total = 0;
    while let Some(piece) = body.frame().await {
        let piece = piece.unwrap().into_data().unwrap();
        assert!(piece.len() <= 64 * 1024, "{}", piece.len());
        total += piece.len();
    }
    assert_eq!(total, 20_000 * 1001);
}
