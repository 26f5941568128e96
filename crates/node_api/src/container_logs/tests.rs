mod fake_files;

use std::sync::Arc;
use std::time::Duration;

use agent::pipeline::cached_status::CachedStatus;
use agent::pipeline::observation::{Observations, observations};
use agent::pipeline::tables::{Writer, table};
use axum::http::Request;
use http_body_util::BodyExt;
use model::{ContainerStatus, Moment, Observation, ObservedPod, Pod, PodSource, Timestamp};
use serde_json::{Value, json};
use testkit::builders::parse_pod;
use testkit::fake_clock::FakeClock;
use tower::util::ServiceExt;

use super::*;
use fake_files::FakeFiles;

struct Node {
    files: FakeFiles,
    router: Router,
    desired: Writer<Pod>,
    statuses: Writer<CachedStatus>,
    observed: Observations,
}

fn node() -> Node {
    let files = FakeFiles::default();
    let (desired, desired_reader) = table(Vec::new());
    let (statuses, status_reader) = table(Vec::new());
    let (observed, observer) = observations(Vec::new());
    let deps = ContainerLogDeps {
        pods: PodLookup::new(desired_reader, None),
        statuses: status_reader,
        observer,
        files: Arc::new(files.clone()),
        clock: Arc::new(FakeClock::fixed(1_800_000_000)),
        split_streams: false,
    };
    Node { router: routes(deps), files, desired, statuses, observed }
}

impl Node {
    /// Adds a pod whose container `main` is in that state.
    fn pod(&self, state: ContainerState) {
        let object = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "u1"},
                            "spec": {"containers": [{"name": "main"}, {"name": "other"}]}});
        let pod = parse_pod(object, PodSource::Api);
        self.desired.set(&"u1".into(), Arc::new(pod));
        let state_json = match state {
            ContainerState::Running => json!({"running": {}}),
            _ => json!({"terminated": {"exitCode": 0, "containerID": "x://c1"}}),
        };
        let main = json!({"name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                          "containerID": "x://c1", "state": state_json});
        let status: Value = json!({"containerStatuses": [main]});
        self.statuses.set(&"u1".into(), Arc::new(CachedStatus::of(&serde_json::from_value(status).unwrap())));
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
        let response = self.get(path).await;
        assert_eq!(response.status(), code, "{path}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
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
    let frame = tokio::time::timeout(Duration::from_secs(20), body.frame()).await.expect("no data arrived");
    String::from_utf8(frame.unwrap().unwrap().into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn applies_query_options_to_log() {
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
async fn rejects_with_upstream_status_codes() {
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
        let response = node.get(&format!("/containerLogs/ns/web/main?{query}")).await;
        assert_eq!(response.status(), code, "{query}");
    }
    let unavailable = "container \"other\" in pod \"web\" is not available";
    node.check("/containerLogs/ns/web/other", 400, unavailable).await;
    let response = node.get("/containerLogs/ns/web/main").await;
    assert_eq!(response.status(), 400, "there is no log file");
}

#[tokio::test(start_paused = true)]
async fn follows_log_across_rotations_until_container_exits() {
    let node = node();
    node.pod(ContainerState::Running);
    node.write(&["one", "two"]);
    let response = node.get("/containerLogs/ns/web/main?follow=true&tailLines=1").await;
    let mut body = response.into_body();
    assert_eq!(frame(&mut body).await, "two\n");
    node.write(&["three"]);
    assert_eq!(frame(&mut body).await, "three\n");
    // Two rotations while the client does not read: no line is lost.
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
async fn follow_ends_for_exited_container() {
    let node = node();
    node.pod(ContainerState::Exited);
    node.write(&["one"]);
    node.check("/containerLogs/ns/web/main?follow=true", 200, "one\n").await;
}

#[tokio::test(start_paused = true)]
async fn buffers_at_most_one_chunk_for_slow_reader() {
    let node = node();
    node.pod(ContainerState::Running);
    let line = "x".repeat(1000);
    node.write(&vec![line.as_str(); 20_000]);
    let mut body = node.get("/containerLogs/ns/web/main").await.into_body();
    // Each chunk is created on demand and bounded in size.
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        let chunk = frame.unwrap().into_data().unwrap();
        assert!(chunk.len() <= 64 * 1024, "{}", chunk.len());
        total += chunk.len();
    }
    assert_eq!(total, 20_000 * 1001);
}
