//! A node that serves the streaming paths, and a client of it.

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agent::metrics::Metrics;
use agent::pipeline::observation::{Observations, observations};
use agent::pipeline::tables::{Writer, table};
use async_trait::async_trait;
use model::{
    ContainerId, ContainerSpec, ContainerState, ContainerStatus, ContainerSummary, ExecOutput,
    LinuxResources, Moment, NamespaceMode, Observation, ObservedPod, Pod, PodFullName, PodSource, PodUid,
    SandboxId, SandboxSpec, SandboxState, SandboxStatus, StreamChoice, Timestamp,
};
use ports::runtime::{Containers, RuntimeError, RuntimeErrorKind, Streaming};
use serde_json::json;
use testkit::builders::parse_pod;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_websockets::{ClientBuilder, WebSocketStream};

use crate::pod_lookup::PodLookup;
use crate::streaming::{StreamSessions, StreamingDeps, routes};

pub(super) type Socket = WebSocketStream<TcpStream>;

pub(super) struct Node {
    address: SocketAddr,
    runtime: Arc<FakeRuntime>,
    sessions: StreamSessions,
    pub(super) metrics: Arc<Metrics>,
    cancel: CancellationToken,
    _tables: (Writer<Pod>, Observations),
}

struct FakeRuntime {
    url: String,
    last_call: Mutex<String>,
    failure: Mutex<Option<RuntimeErrorKind>>,
}

impl FakeRuntime {
    fn record_call(&self, call: String) -> Result<String, RuntimeError> {
        *self.last_call.lock() = call;
        match *self.failure.lock() {
            None => Ok(self.url.clone()),
            Some(kind) => Err(RuntimeError { operation: "exec", kind, message: "because".into() }),
        }
    }
}

fn stream_names(streams: StreamChoice) -> String {
    let all =
        [(streams.stdin, " in"), (streams.stdout, " out"), (streams.stderr, " err"), (streams.tty, " tty")];
    all.into_iter().filter(|(is_open, _)| *is_open).map(|(_, name)| name).collect()
}

#[async_trait]
impl Streaming for FakeRuntime {
    async fn exec_url(
        &self,
        id: &ContainerId,
        command: &[String],
        streams: StreamChoice,
    ) -> Result<String, RuntimeError> {
        self.record_call(format!("exec {id} {command:?}{}", stream_names(streams)))
    }

    async fn attach_url(&self, id: &ContainerId, streams: StreamChoice) -> Result<String, RuntimeError> {
        self.record_call(format!("attach {id}{}", stream_names(streams)))
    }

    async fn port_forward_url(&self, id: &SandboxId, ports: &[u16]) -> Result<String, RuntimeError> {
        self.record_call(format!("port-forward {id} {ports:?}"))
    }
}

/// The tests create, stop and list no containers.
struct NoContainers;

#[async_trait]
impl Containers for NoContainers {
    async fn create_container(
        &self,
        _: &SandboxId,
        _: &ContainerSpec,
        _: &SandboxSpec,
    ) -> Result<ContainerId, RuntimeError> {
        unreachable!()
    }

    async fn start_container(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        unreachable!()
    }

    async fn stop_container(&self, _: &ContainerId, _: Duration) -> Result<(), RuntimeError> {
        unreachable!()
    }

    async fn remove_container(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        unreachable!()
    }

    async fn container_status(&self, _: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        unreachable!()
    }

    async fn list_containers(&self, _: Option<&PodUid>) -> Result<Vec<ContainerSummary>, RuntimeError> {
        unreachable!()
    }

    async fn reopen_container_log(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        unreachable!()
    }

    async fn exec(&self, _: &ContainerId, _: &[String], _: Duration) -> Result<ExecOutput, RuntimeError> {
        unreachable!()
    }

    async fn update_resources(&self, _: &ContainerId, _: &LinuxResources) -> Result<(), RuntimeError> {
        unreachable!()
    }
}

impl Node {
    /// A node with the pod `ns/web`: `main` runs, with a terminal, and `ended` does not.
    pub(super) async fn start(url: &str) -> Self {
        let (desired, reader) = table(Vec::new());
        let (observed, observer) = observations(Vec::new());
        let object = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "u1"},
                            "spec": {"containers": [{"name": "main", "tty": true}, {"name": "ended"}]}});
        let pod = parse_pod(object, PodSource::Api);
        desired.set(&"u1".into(), Arc::new(pod));
        // An observation that is newer than every request, so that no new one is started.
        let newest = (0..1000).fold(Moment::START, |_, _| observed.moments.next());
        observed.rows.set(&"u1".into(), Arc::new(observed_pod(newest)));
        let runtime = Arc::new(FakeRuntime {
            url: url.to_owned(),
            last_call: Mutex::default(),
            failure: Mutex::default(),
        });
        let (sessions, metrics) = (StreamSessions::default(), Arc::new(Metrics::new()));
        let deps = StreamingDeps {
            pods: PodLookup::new(reader, None),
            observer,
            streams: runtime.clone(),
            containers: Arc::new(NoContainers),
            sessions: sessions.clone(),
            metrics: metrics.clone(),
            translate: true,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes(deps)).await.unwrap() });
        let cancel = CancellationToken::new();
        tokio::spawn(sessions.clone().run(cancel.clone()));
        Self { address, runtime, sessions, metrics, cancel, _tables: (desired, observed) }
    }

    pub(super) fn last_call(&self) -> String {
        self.runtime.last_call.lock().clone()
    }

    pub(super) fn fail_with(&self, kind: RuntimeErrorKind) {
        *self.runtime.failure.lock() = Some(kind);
    }

    pub(super) fn stop(&self) {
        self.cancel.cancel();
    }

    pub(super) async fn no_sessions(&self) {
        while self.sessions.count() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) async fn websocket(&self, path: &str, protocol: &str) -> Result<Socket, String> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let uri = format!("ws://{}{path}", self.address).parse().unwrap();
        let name = axum::http::header::SEC_WEBSOCKET_PROTOCOL;
        let builder =
            ClientBuilder::from_uri(uri).add_header(name.clone(), protocol.parse().unwrap()).unwrap();
        let (socket, response) = builder.connect_on(stream).await.map_err(|error| format!("{error:?}"))?;
        assert_eq!(response.headers().get(name).unwrap(), protocol);
        Ok(socket)
    }

    /// Requests an upgrade without a client library; returns the response and the connection.
    pub(super) async fn upgrade(
        &self,
        method: &str,
        path: &str,
        to: &str,
        headers: &[(&str, &str)],
    ) -> (String, TcpStream) {
        let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: {to}\r\n{more}\r\n"
        );
        self.send(&text).await
    }

    async fn send(&self, text: &str) -> (String, TcpStream) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut received = Vec::new();
        // Reads the head, and the body unless the status is 101.
        loop {
            let head = received.windows(4).position(|window| window == b"\r\n\r\n");
            let text = String::from_utf8_lossy(&received).to_lowercase();
            let length =
                text.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next()?.parse().ok());
            let chunked_end = text.contains("chunked") && text.ends_with("0\r\n\r\n");
            if let Some(head) = head
                && (text.starts_with("http/1.1 101")
                    || length.is_some_and(|length: usize| received.len() >= head + 4 + length)
                    || chunked_end)
            {
                return (String::from_utf8(received).unwrap(), stream);
            }
            let byte = stream.read_u8().await.unwrap_or_else(|error| panic!("{error}: {text}"));
            received.push(byte);
        }
    }
}

/// A request without an upgrade.
pub(super) async fn request(node: &Node, method: &str, path: &str) -> String {
    node.send(&format!("{method} {path} HTTP/1.1\r\nHost: node\r\n\r\n")).await.0
}

fn observed_pod(moment: Moment) -> ObservedPod {
    let sandbox = SandboxStatus {
        id: "s1".into(),
        attempt: 0,
        state: SandboxState::Ready,
        created_at: Timestamp::ZERO,
        ips: Some(Vec::new()),
        network: NamespaceMode::Pod,
        runtime_handler: String::new(),
    };
    ObservedPod {
        uid: "u1".into(),
        full_name: PodFullName { namespace: "ns".into(), name: "web".into() },
        sandboxes: vec![sandbox],
        containers: vec![
            container("c1", "main", ContainerState::Running),
            container("c2", "ended", ContainerState::Exited),
        ],
        moment,
        observation: Observation::Complete,
    }
}

fn container(id: &str, name: &str, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        id: id.into(),
        sandbox_id: "s1".into(),
        name: name.into(),
        attempt: 0,
        state,
        created_at: Timestamp::ZERO,
        started_at: Timestamp::ZERO,
        finished_at: Timestamp::ZERO,
        exit_code: 0,
        image: String::new(),
        image_ref: String::new(),
        image_id: String::new(),
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
