use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::connection_table::ConnectionLimits;
use super::*;

struct Server {
    address: SocketAddr,
    cancel: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        Self::with(ConnectionTable::default()).await
    }

    async fn with(table: ConnectionTable) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cancel = CancellationToken::new();
        let router = Router::new().route("/", get(async || "hello"));
        let running = tokio::spawn(accept("test", listener, None, router, table, cancel.clone()));
        Self { address, cancel, running }
    }

    async fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        String::from_utf8_lossy(&response).into_owned()
    }
}

#[tokio::test]
async fn stops_while_client_keeps_connection_open() {
    let server = Server::start().await;
    let response = server.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("hello"), "{response}");
    let _open = TcpStream::connect(server.address).await.unwrap();
    server.cancel.cancel();
    tokio::time::timeout(Duration::from_secs(5), server.running).await.expect("stops").unwrap();
}

const REQUEST: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// Reads up to the end of the first response.
async fn read_response(stream: &mut TcpStream) -> String {
    let mut response = Vec::new();
    while !response.ends_with(b"hello") {
        let mut bytes = [0; 512];
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "connection closed after {}", String::from_utf8_lossy(&response));
        response.extend_from_slice(&bytes[..read]);
    }
    String::from_utf8(response).unwrap()
}

#[tokio::test]
async fn silent_connections_do_not_shut_out_others() {
    let limits = ConnectionLimits { total: 8, unrecognised: 4, local_reserve: 0 };
    let server = Server::with(ConnectionTable::new(limits)).await;
    let mut regular = TcpStream::connect(server.address).await.unwrap();
    regular.write_all(REQUEST.as_bytes()).await.unwrap();
    read_response(&mut regular).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let response = server.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(response.ends_with("hello"), "{response}");
    // Silent connections displace each other, and no recognised one.
    regular.write_all(REQUEST.as_bytes()).await.unwrap();
    read_response(&mut regular).await;
    server.cancel.cancel();
}

#[tokio::test]
async fn idle_connections_do_not_shut_out_others() {
    let limits = ConnectionLimits { total: 8, unrecognised: 4, local_reserve: 0 };
    let server = Server::with(ConnectionTable::new(limits)).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(REQUEST.as_bytes()).await.unwrap();
        read_response(&mut stream).await;
        idle.push(stream);
    }
    // The longest idle connection was closed.
    assert_eq!(idle[0].read(&mut [0]).await.unwrap_or(0), 0);
    server.cancel.cancel();
}

#[tokio::test]
async fn rejects_oversized_header() {
    let server = Server::start().await;
    let long = "x".repeat(2 * 1024 * 1024);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nhost: x\r\nlong: {long}\r\n\r\n");
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    let response = String::from_utf8_lossy(&response);
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 431"), "{response}");
    let again = server.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(again.ends_with("hello"));
    server.cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn closes_connection_when_header_is_incomplete() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nslow: ").await.unwrap();
    let mut response = Vec::new();
    // One byte every five seconds does not keep it open.
    let drip = async {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if stream.write_all(b"x").await.is_err() {
                break;
            }
            let mut byte = [0; 64];
            match tokio::time::timeout(Duration::from_millis(1), stream.read(&mut byte)).await {
                Ok(Ok(0) | Err(_)) => break,
                Ok(Ok(read)) => response.extend_from_slice(&byte[..read]),
                Err(_) => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(600), drip).await.expect("connection stays open");
    let response = String::from_utf8_lossy(&response);
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 408"), "{response}");
    server.cancel.cancel();
}
