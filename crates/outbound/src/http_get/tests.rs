use parking_lot::Mutex;
use std::time::Duration;

use ports::outbound::Outbound;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::NetworkOutbound;

/// Responds to each request with the result of a function, and records the requests.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(handler: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::with(None, handler).await
    }

    async fn with(
        tls: Option<TlsAcceptor>,
        handler: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                match &tls {
                    None => respond(stream, &recorded, &handler).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            respond(stream, &recorded, &handler).await;
                        }
                    }
                }
            }
        });
        Self { port, requests, _tasks: tasks }
    }

    fn get(&self, path: &str) -> HttpGet {
        HttpGet {
            scheme: Scheme::Http,
            host: "127.0.0.1".into(),
            port: self.port,
            path: path.into(),
            headers: Vec::new(),
            purpose: Purpose::Probe,
            limit: Some(Duration::from_secs(20)),
        }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

async fn respond(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    recorded: &Mutex<Vec<String>>,
    handler: &(impl Fn(&str) -> String + Sync),
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let request = String::from_utf8(request).unwrap();
    let text = handler(&request);
    recorded.lock().push(request);
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 2\r\n\r\nto")
}

fn acceptor(protocols: &[&[u8]]) -> TlsAcceptor {
    let certificate = CertificateDer::from(include_bytes!("tests/certificate.der").as_slice());
    let key = PrivatePkcs8KeyDer::from(include_bytes!("tests/key.der").as_slice());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn get(request: &HttpGet) -> Result<HttpAnswer, OutboundError> {
    NetworkOutbound::new().http_get(request).await
}

#[tokio::test]
async fn returns_any_status_as_response() {
    let server = Server::start(|_| response(503, "busy")).await;
    let answer = get(&server.get("/healthz?deep=1")).await.unwrap();
    assert_eq!(answer, HttpAnswer { status: 503, body: b"busy".to_vec() });
    let host = format!("Host: 127.0.0.1:{}\r\n", server.port);
    let request = server.requests().remove(0);
    assert!(request.starts_with("GET /healthz?deep=1 HTTP/1.1\r\n"), "{request}");
    for line in ["User-Agent: kube-probe/1.36\r\n", "Accept: */*\r\n", "Connection: close\r\n", &host] {
        assert!(request.contains(line), "{line} in {request}");
    }
    assert_eq!(request.lines().filter(|line| line.contains(':')).count(), 4, "{request}");
}

#[tokio::test]
async fn spec_headers_replace_defaults() {
    let server = Server::start(|_| response(200, "")).await;
    let mut request = server.get("/");
    let pairs =
        [("host", "example.com"), ("User-Agent", ""), ("accept", "text/html"), ("X-A", "1"), ("x-a", "2")];
    request.headers = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    request.purpose = Purpose::Hook;
    get(&request).await.unwrap();
    let sent = server.requests().remove(0);
    for line in ["Host: example.com\r\n", "Accept: text/html\r\n", "X-A: 1\r\n", "X-A: 2\r\n"] {
        assert!(sent.contains(line), "{line} in {sent}");
    }
    assert!(!sent.contains("User-Agent") && !sent.contains("*/*"), "{sent}");
    request.headers = vec![("Accept".into(), String::new())];
    get(&request).await.unwrap();
    let sent = server.requests().remove(1);
    assert!(sent.contains("User-Agent: kube-lifecycle/1.36\r\n") && !sent.contains("Accept"), "{sent}");
}

#[tokio::test]
async fn follows_redirects_to_the_same_host_only() {
    let server = Server::start(|request| match request.split(' ').nth(1) {
        Some("/") => redirect(302, "/new"),
        Some("/away") => redirect(301, "http://10.255.255.1/"),
        Some("/loop") => redirect(307, "/loop"),
        Some("/nowhere") => "HTTP/1.1 302 X\r\nContent-Length: 2\r\n\r\nno".to_owned(),
        _ => response(200, "arrived"),
    })
    .await;
    assert_eq!(get(&server.get("/")).await.unwrap().body, b"arrived");
    assert_eq!(get(&server.get("/away")).await.unwrap(), HttpAnswer { status: 301, body: b"to".to_vec() });
    assert_eq!(get(&server.get("/nowhere")).await.unwrap().status, 302);
    let before = server.requests().len();
    let error = get(&server.get("/loop")).await.unwrap_err();
    assert_eq!(error.to_string(), "Get \"/loop\": stopped after 10 redirects");
    assert_eq!(server.requests().len() - before, 10);
}

#[tokio::test]
async fn truncates_body_at_ten_kilobytes() {
    let server = Server::start(|_| response(200, &"x".repeat(50_000))).await;
    assert_eq!(get(&server.get("/")).await.unwrap().body.len(), 10 * 1024);
}

#[tokio::test]
async fn failure_messages_match_upstream() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let server = Server::start(|_| String::new()).await;
    let closed = HttpGet { port, ..server.get("/x") };
    assert_eq!(
        get(&closed).await.unwrap_err().to_string(),
        format!("Get \"http://127.0.0.1:{port}/x\": dial tcp 127.0.0.1:{port}: connect: connection refused")
    );
    assert_eq!(
        get(&server.get("/x")).await.unwrap_err().to_string(),
        format!("Get \"http://127.0.0.1:{}/x\": EOF", server.port)
    );
    let tcp = NetworkOutbound::new().tcp_connect("127.0.0.1", port, Duration::from_secs(5)).await;
    assert_eq!(
        tcp.unwrap_err().to_string(),
        format!("dial tcp 127.0.0.1:{port}: connect: connection refused")
    );
}

#[tokio::test]
async fn unresponsive_http_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Server::start(|_| String::new()).await;
    let limit = Some(Duration::from_millis(50));
    let silent = HttpGet { port, limit, ..server.get("/") };
    assert_eq!(
        get(&silent).await.unwrap_err(),
        OutboundError::Failed(format!(
            "Get \"http://127.0.0.1:{port}/\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        ))
    );
}

#[tokio::test]
async fn incomplete_body_is_a_body_error() {
    let server = Server::start(|_| "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_owned()).await;
    assert_eq!(get(&server.get("/")).await.unwrap_err(), OutboundError::Body("unexpected EOF".into()));
}

#[tokio::test]
async fn accepts_any_certificate() {
    let server = Server::with(Some(acceptor(&[b"http/1.1"])), |_| response(200, "safe")).await;
    let request = HttpGet { scheme: Scheme::Https, ..server.get("/") };
    assert_eq!(get(&request).await.unwrap().body, b"safe");
}

#[tokio::test]
async fn detects_plain_http_response_to_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 64]).await;
        let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request").await;
        let _ = stream.shutdown().await;
        let _ = stream.read(&mut [0; 4096]).await;
    });
    let server = Server::start(|_| String::new()).await;
    let request = HttpGet { scheme: Scheme::Https, port, ..server.get("/") };
    let error = get(&request).await.unwrap_err();
    assert_eq!(
        error,
        OutboundError::PlainAnswer(format!(
            "Get \"https://127.0.0.1:{port}/\": http: server gave HTTP response to HTTPS client"
        ))
    );
}

#[tokio::test]
async fn uses_http2_over_tls_if_negotiated() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = acceptor(&[b"h2"]).accept(stream).await.unwrap();
        let service = hyper::service::service_fn(|request: Request<Incoming>| async move {
            let text = format!("{:?} {}", request.version(), request.uri());
            Ok::<_, std::convert::Infallible>(Response::new(http_body_util::Full::new(Bytes::from(text))))
        });
        let server = hyper::server::conn::http2::Builder::new(ConnectionTasks::default());
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    });
    let server = Server::start(|_| String::new()).await;
    let request = HttpGet { scheme: Scheme::Https, port, ..server.get("/x") };
    let answer = get(&request).await.unwrap();
    assert_eq!(String::from_utf8(answer.body).unwrap(), format!("HTTP/2.0 https://127.0.0.1:{port}/x"));
}

#[tokio::test]
async fn invalid_header_name_fails_the_request() {
    let server = Server::start(|_| response(200, "")).await;
    let request = HttpGet { headers: vec![("a b".into(), "x".into())], ..server.get("/") };
    assert!(matches!(get(&request).await.unwrap_err(), OutboundError::Request(_)));
}
