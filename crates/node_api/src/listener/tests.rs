use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

struct Server {
    address: SocketAddr,
    cancel: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cancel = CancellationToken::new();
        let router = Router::new().route("/", get(async || "hello"));
        let running = tokio::spawn(accept("test", listener, None, router, cancel.clone()));
        Self { address, cancel, running }
    }

    async fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[tokio::test]
async fn answers_and_stops_though_a_connection_stays_open() {
    let server = Server::start().await;
    let answer = server.ask("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    let _open = TcpStream::connect(server.address).await.unwrap();
    server.cancel.cancel();
    tokio::time::timeout(Duration::from_secs(5), server.running).await.expect("stops").unwrap();
}

#[tokio::test]
async fn a_header_has_a_limit() {
    let server = Server::start().await;
    let long = "x".repeat(2 * 1024 * 1024);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nhost: x\r\nlong: {long}\r\n\r\n");
    // The server may close before all is sent.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let again = server.ask("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(again.ends_with("hello"));
    server.cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_header_that_does_not_come_is_not_waited_for() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nslow: ").await.unwrap();
    let mut answer = Vec::new();
    // A byte now and then does not keep it open either.
    let drip = async {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if stream.write_all(b"x").await.is_err() {
                break;
            }
            let mut byte = [0; 64];
            match tokio::time::timeout(Duration::from_millis(1), stream.read(&mut byte)).await {
                Ok(Ok(0) | Err(_)) => break,
                Ok(Ok(read)) => answer.extend_from_slice(&byte[..read]),
                Err(_) => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(600), drip).await.expect("cut off");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    server.cancel.cancel();
}
