use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{AsyncBufReadExt, AsyncReadExt, TryStreamExt};
use http::Request;
use http::header::RETRY_AFTER;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use kube::Client;
use ports::telemetry::request_meter::{RequestMeter, SentRequest};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::clients::{ClientConnections, ClientSettings, Clients};
use crate::identity::test_certificates::issued;
use crate::identity::{Credential, CurrentCertificate, ServerAccess};
use crate::test_server::{FAR_FUTURE, Peer, Reply, TestServer, reply};

struct Fixture {
    server: TestServer,
    clients: Clients,
    connections: ClientConnections,
    certificate: CurrentCertificate,
    meter: Arc<Meter>,
    _folder: TempDir,
}

/// Records the size of each response in order of completion, and the resolved names.
#[derive(Default)]
struct Meter {
    bytes: Mutex<Vec<u64>>,
    names: Mutex<Vec<String>>,
}

impl RequestMeter for Meter {
    fn answered(&self, _: SentRequest<'_>, _: Option<u16>) {}
    fn ended(&self, _: SentRequest<'_>, _: Duration, _: u64) {}
    fn received(&self, _: SentRequest<'_>, bytes: u64) {
        self.bytes.lock().push(bytes);
    }
    fn resolved(&self, host: &str, _: Duration) {
        self.names.lock().push(host.to_owned());
    }
    fn waited(&self, _: SentRequest<'_>, _: Duration) {}
    fn repeated(&self, _: SentRequest<'_>, _: u16) {}
}

impl Fixture {
    async fn start<F, R>(settings: ClientSettings, handler: F) -> Self
    where
        F: Fn(Request<Incoming>, Peer) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        let server = TestServer::start(handler).await;
        let folder = TempDir::new().unwrap();
        let file = write(&folder, "kubeconfig", &server.kubeconfig(&json!({})));
        let access = ServerAccess::read(&file).await.unwrap();
        let certificate = CurrentCertificate::new(None);
        let meter = Arc::new(Meter::default());
        let (clients, connections) =
            Clients::open(access, Some(certificate.clone()), settings, meter.clone()).await.unwrap();
        Self { server, clients, connections, certificate, meter, _folder: folder }
    }

    fn identify_as(&self, name: &str) {
        let (certificate, key) = issued(&self.server.authority, name, &[], 0, FAR_FUTURE);
        self.certificate.set(Credential::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap());
    }

    fn clients(&self) -> [&Client; 4] {
        [&self.clients.heartbeat, &self.clients.urgent, &self.clients.main, &self.clients.events]
    }
}

fn write(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).unwrap()
}

/// A watch response that sends one line and stays open.
fn endless(text: &str) -> Reply {
    let line = Bytes::from(format!("{text}\n"));
    let first = futures::stream::once(async move { Ok(Frame::data(line)) });
    let rest = futures::stream::pending();
    let body = StreamBody::new(futures::StreamExt::chain(first, rest));
    http::Response::new(BodyExt::boxed(body))
}

#[tokio::test]
async fn new_certificate_reaches_all_clients_without_errors() {
    let (release, arrived) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (server_release, server_arrived) = (release.clone(), arrived.clone());
    let fixture = Fixture::start(ClientSettings::default(), move |request, peer| {
        let (release, arrived) = (server_release.clone(), server_arrived.clone());
        async move {
            match request.uri().path() {
                "/watch" => endless(&peer.names.common_name),
                "/slow" => {
                    arrived.add_permits(1);
                    release.acquire().await.unwrap().forget();
                    reply(200, peer.names.common_name)
                }
                _ => reply(200, peer.names.common_name),
            }
        }
    })
    .await;
    fixture.identify_as("old");
    for client in fixture.clients() {
        assert_eq!(client.request_text(get("/")).await.unwrap(), "old");
    }
    let mut watch = fixture.clients.main.request_stream(get("/watch?watch=true")).await.unwrap();
    let mut line = String::new();
    watch.read_line(&mut line).await.unwrap();
    assert_eq!(line, "old\n");

    let in_flight = fixture.clients.main.request_text(get("/slow"));
    let changed = async {
        arrived.acquire().await.unwrap().forget();
        fixture.identify_as("new");
        fixture.connections.renew();
        // The watch ends without an error, so that the watcher resumes it at once.
        let mut rest = String::new();
        assert_eq!(watch.read_to_string(&mut rest).await.unwrap(), 0);
        for client in fixture.clients() {
            assert_eq!(client.request_text(get("/")).await.unwrap(), "new");
        }
        release.add_permits(1);
    };
    let (answer, ()) = tokio::join!(in_flight, changed);
    assert_eq!(answer.unwrap(), "old");
}

#[tokio::test]
async fn meters_responses_but_not_watches() {
    let fixture =
        Fixture::start(ClientSettings::default(), async |request: Request<Incoming>, _: Peer| match request
            .uri()
            .path()
        {
            "/watch" => endless("x"),
            _ => reply(200, "x".repeat(1000)),
        })
        .await;
    fixture.identify_as("node");
    let watch = fixture.clients.main.request_stream(get("/watch?watch=true")).await.unwrap();
    fixture.clients.main.request_text(get("/")).await.unwrap();
    drop(watch);
    assert_eq!(*fixture.meter.bytes.lock(), [1000]);
    // The server URL has an IP address, so there is no name to resolve.
    assert_eq!(*fixture.meter.names.lock(), [""; 0]);
}

#[tokio::test]
async fn requests_do_not_wait_behind_watches_that_fill_a_connection() {
    let fixture = Fixture::start(
        ClientSettings::default(),
        async |request: Request<Incoming>, peer: Peer| match request.uri().path() {
            "/watch" => endless("x"),
            _ => reply(200, peer.connection.to_string()),
        },
    )
    .await;
    fixture.identify_as("node");
    let mut watches = Vec::new();
    for _ in 0..170 {
        watches.push(fixture.clients.main.request_stream(get("/watch?watch=true")).await.unwrap());
    }
    let limit = Duration::from_secs(20);
    let answer = tokio::time::timeout(limit, fixture.clients.urgent.request_text(get("/"))).await;
    answer.expect("the request waits behind watches").unwrap();
    let third = fixture.clients.main.request_text(get("/")).await.unwrap();
    assert_eq!(third, "2", "170 watches fill two connections of 80");
}

#[tokio::test]
async fn heartbeat_uses_a_separate_connection() {
    let fixture = Fixture::start(ClientSettings::default(), async |_, peer: Peer| {
        reply(200, peer.connection.to_string())
    })
    .await;
    fixture.identify_as("node");
    let mut connections = Vec::new();
    for client in fixture.clients() {
        connections.push(client.request_text(get("/")).await.unwrap());
    }
    assert_eq!(connections, ["0", "1", "1", "1"]);
}

#[tokio::test]
async fn retries_requests_on_retry_after() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = requests.clone();
    let fixture = Fixture::start(ClientSettings::default(), move |request: Request<Incoming>, _| {
        let number = counter.fetch_add(1, Ordering::Relaxed);
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            if number < 2 {
                let mut busy = reply(if number == 0 { 429 } else { 503 }, "");
                busy.headers_mut().insert(RETRY_AFTER, "0".parse().unwrap());
                return busy;
            }
            reply(200, body)
        }
    })
    .await;
    fixture.identify_as("node");
    let request = Request::post("/").body(b"sent again".to_vec()).unwrap();
    assert_eq!(fixture.clients.urgent.request_text(request).await.unwrap(), "sent again");
    assert_eq!(requests.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn fails_with_timeout_if_the_server_does_not_respond() {
    let settings =
        ClientSettings { heartbeat_timeout: Duration::from_millis(300), ..ClientSettings::default() };
    let fixture =
        Fixture::start(settings, async |request: Request<Incoming>, _| match request.uri().path() {
            "/body" => endless("half of it"),
            _ => std::future::pending().await,
        })
        .await;
    fixture.identify_as("node");
    for path in ["/", "/body"] {
        let error = fixture.clients.heartbeat.request_text(get(path)).await.unwrap_err();
        assert!(format!("{error:?}").contains("Timeout"), "{path}: {error:?}");
    }
}

#[tokio::test]
async fn requests_wait_for_the_first_certificate() {
    let settings =
        ClientSettings { heartbeat_timeout: Duration::from_millis(200), ..ClientSettings::default() };
    let fixture = Fixture::start(settings, async |_, peer: Peer| reply(200, peer.names.common_name)).await;
    fixture.certificate.set_waiting_for("approval of x".to_owned());
    let error = fixture.clients.heartbeat.request_text(get("/")).await.unwrap_err();
    assert!(format!("{error:?}").contains("approval of x"), "{error:?}");
    let waiting = fixture.clients.main.request_text(get("/"));
    let (answer, ()) = tokio::join!(waiting, async { fixture.identify_as("node") });
    assert_eq!(answer.unwrap(), "node");
}

#[tokio::test]
async fn authenticates_with_each_kind_of_kubeconfig_credential() {
    let server = TestServer::start(async |request: Request<Incoming>, peer: Peer| {
        let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let received = json!({
            "certificate": peer.names.common_name,
            "authorization": header("authorization"),
            "agent": header("user-agent"),
        });
        reply(200, received.to_string())
    })
    .await;
    let folder = TempDir::new().unwrap();
    let (certificate, key) = issued(&server.authority, "of-files", &[], 0, FAR_FUTURE);
    write(&folder, "both.pem", &format!("{certificate}{key}"));
    write(&folder, "token", "of-file");
    let inline = |text: &str| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let program = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "of-program"},
    });
    let cases = [
        (json!({"client-certificate": "both.pem", "client-key": "both.pem"}), "of-files", None),
        (
            json!({"client-certificate-data": inline(&certificate), "client-key-data": inline(&key)}),
            "of-files",
            None,
        ),
        (json!({"token": "inline"}), "", Some("Bearer inline")),
        (json!({"tokenFile": folder.path().join("token")}), "", Some("Bearer of-file")),
        (
            json!({"exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "echo",
                "args": [program.to_string()],
                "interactiveMode": "Never",
            }}),
            "",
            Some("Bearer of-program"),
        ),
    ];
    for (user, name, authorization) in cases {
        let file = write(&folder, "kubeconfig", &server.kubeconfig(&user));
        let clients = Clients::from_kubeconfig(&file).await.unwrap();
        let received = clients.main.request_text(get("/")).await.unwrap();
        let received: serde_json::Value = serde_json::from_str(&received).unwrap();
        assert_eq!(received["certificate"], name, "{user}");
        assert_eq!(received["authorization"].as_str(), authorization, "{user}");
        assert!(received["agent"].as_str().unwrap().starts_with("kubelet/v1.36.4 (linux/"), "{received}");
    }
}

#[tokio::test]
async fn verifies_server_certificate_unless_disabled() {
    let server = TestServer::start(async |_, _| reply(200, "hello")).await;
    let folder = TempDir::new().unwrap();
    let mut config: serde_json::Value =
        serde_json::from_str(&server.kubeconfig(&json!({"token": "t"}))).unwrap();
    let other = crate::identity::test_certificates::Authority::new();
    let cluster = &mut config["clusters"][0]["cluster"];
    cluster.as_object_mut().unwrap().remove("certificate-authority-data");
    cluster["certificate-authority"] = json!("authority.pem");
    write(&folder, "authority.pem", &other.pem());
    let request = async |config: &serde_json::Value| {
        let file = write(&folder, "kubeconfig", &config.to_string());
        Clients::from_kubeconfig(&file).await.unwrap().main.request_text(get("/")).await
    };
    assert!(request(&config).await.is_err());
    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
    assert_eq!(request(&config).await.unwrap(), "hello");
}

#[tokio::test]
async fn watch_delivers_events_as_they_arrive() {
    let fixture = Fixture::start(ClientSettings::default(), async |_, _| {
        let event = json!({"type": "BOOKMARK", "object": {
            "kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "spec": {"containers": []}}});
        endless(&event.to_string())
    })
    .await;
    fixture.identify_as("node");
    let events = fixture
        .clients
        .main
        .request_events::<k8s_openapi::api::core::v1::Pod>(get("/api/v1/pods?watch=true"))
        .await
        .unwrap();
    let mut events = Box::pin(events);
    assert!(matches!(events.try_next().await.unwrap(), Some(kube::core::WatchEvent::Bookmark(_))));
    fixture.connections.renew();
    assert!(events.try_next().await.unwrap().is_none());
}
