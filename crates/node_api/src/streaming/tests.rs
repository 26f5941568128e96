mod fakes;
mod spdy_server;

use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_websockets::Message;

use fakes::{Node, Socket, request};
use spdy_server::{Process, SpdyServer};

const V5: &str = "v5.channel.k8s.io";

fn binary(message: Message) -> Vec<u8> {
    assert!(message.is_binary(), "{message:?}");
    bytes::Bytes::from(message.into_payload()).to_vec()
}

/// Fails instead of hanging.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it hangs")
}

/// Starts a process with a WebSocket client. Both sides run concurrently because the client gets its response only after
/// the runtime has accepted the streams.
async fn start_process(node: &Node, server: &SpdyServer, path: &str, protocol: &str) -> (Socket, Process) {
    let (socket, process) =
        soon(async { tokio::join!(node.websocket(path, protocol), server.accept()) }).await;
    (socket.unwrap(), process)
}

#[tokio::test]
async fn websocket_client_talks_to_process() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let path = "/exec/ns/web/main?command=cat&command=-n&input=1&output=1&error=1";
    let (mut socket, mut process) = start_process(&node, &server, path, V5).await;
    assert_eq!(process.streams(), ["error", "stdin", "stdout", "stderr"]);
    assert_eq!(node.last_call(), "exec c1 [\"cat\", \"-n\"] in out err");
    let first = soon(socket.next()).await.unwrap().unwrap();
    assert_eq!(binary(first), [1], "the connection is established");

    socket.send(Message::binary(&b"\x00hello"[..])).await.unwrap();
    assert_eq!(soon(process.read("stdin", 5)).await, b"hello");
    process.write("stdout", b"out", false).await;
    assert_eq!(binary(soon(socket.next()).await.unwrap().unwrap()), b"\x01out");
    process.write("stderr", b"err", false).await;
    assert_eq!(binary(soon(socket.next()).await.unwrap().unwrap()), b"\x02err");
    socket.send(Message::binary(&b"\xff\x00"[..])).await.unwrap();
    soon(process.read_end("stdin")).await;
    // Output continues after the end of the input.
    process.write("stdout", b"bye", true).await;
    assert_eq!(binary(soon(socket.next()).await.unwrap().unwrap()), b"\x01bye");
    process.write("stderr", b"", true).await;
    process.write("error", b"{\"status\":\"Success\"}", true).await;
    let status = loop {
        let message = binary(soon(socket.next()).await.unwrap().unwrap());
        if message[0] == 3 {
            break message;
        }
    };
    assert_eq!(status, b"\x03{\"status\":\"Success\"}");
    assert!(soon(socket.next()).await.is_none_or(|end| end.is_ok_and(|message| message.is_close())));
    drop((socket, process));
    soon(node.no_sessions()).await;
}

#[tokio::test]
async fn tty_has_resize_stream_and_no_stderr() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let path = "/exec/ns/web/main?command=sh&input=1&output=1&error=1&tty=1";
    let (mut socket, mut process) = start_process(&node, &server, path, V5).await;
    assert_eq!(process.streams(), ["error", "stdin", "stdout", "resize"]);
    socket.send(Message::binary(&b"\x04{\"Width\":80,\"Height\":24}"[..])).await.unwrap();
    assert_eq!(soon(process.read("resize", 24)).await, b"{\"Width\":80,\"Height\":24}");
}

#[tokio::test]
async fn client_gets_error_status_when_runtime_connection_is_lost() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let (mut socket, process) = start_process(&node, &server, "/attach/ns/web/main?output=1", V5).await;
    assert_eq!(node.last_call(), "attach c1 out tty");
    drop(process);
    let mut last = Vec::new();
    while let Some(Ok(message)) = soon(socket.next()).await {
        if message.is_binary() {
            last = binary(message);
        }
    }
    assert_eq!(last[0], 3, "{last:?}");
    assert!(String::from_utf8_lossy(&last).contains("the connection to the container runtime was lost"));
    soon(node.no_sessions()).await;
}

#[tokio::test]
async fn closes_runtime_connection_when_client_disconnects() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let (socket, mut process) = start_process(&node, &server, "/exec/ns/web/main?output=1&input=1", V5).await;
    drop(socket);
    soon(process.wait_until_closed()).await;
    soon(node.no_sessions()).await;
}

#[tokio::test]
async fn idle_session_ends_despite_ping_replies() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let (_socket, mut process) =
        start_process(&node, &server, "/exec/ns/web/main?output=1&input=1", V5).await;
    tokio::time::pause();
    let five_hours = Duration::from_secs(5 * 60 * 60);
    tokio::time::timeout(five_hours, process.wait_until_closed()).await.expect("ends");
}

#[tokio::test]
async fn slow_client_applies_backpressure_to_runtime() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let (socket, mut process) = start_process(&node, &server, "/exec/ns/web/main?output=1", V5).await;
    let chunk = vec![b'x'; 64 * 1024];
    let mut sent = 0;
    // The runtime can write only as much as the socket buffers hold.
    while sent < 1024
        && tokio::time::timeout(Duration::from_millis(500), process.write("stdout", &chunk, false))
            .await
            .is_ok()
    {
        sent += 1;
    }
    assert!(sent < 512, "accepted {sent} chunks of 64 KiB although the client does not read");
    drop(socket);
}

#[tokio::test]
async fn passes_spdy_bytes_through_unchanged() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let (head, mut client) = node
        .upgrade(
            "POST",
            "/portForward/ns/web",
            "SPDY/3.1",
            &[("X-Stream-Protocol-Version", "portforward.k8s.io")],
        )
        .await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.to_lowercase().contains("upgrade: spdy/3.1"), "{head}");
    assert_eq!(node.last_call(), "port-forward s1 []");
    let mut raw = soon(server.accept_raw()).await;
    client.write_all(b"to the runtime").await.unwrap();
    let mut read = [0; 14];
    soon(raw.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"to the runtime");
    raw.write_all(b"and back").await.unwrap();
    let mut read = [0; 8];
    soon(client.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"and back");
    drop(raw);
    assert_eq!(soon(client.read(&mut read)).await.unwrap(), 0);
    drop(client);
    soon(node.no_sessions()).await;
}

#[tokio::test]
async fn unwraps_spdy_from_websocket_tunnel() {
    let server = SpdyServer::start("portforward.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let mut socket = node.websocket("/portForward/ns/web", "SPDY/3.1+portforward.k8s.io").await.unwrap();
    let mut raw = soon(server.accept_raw()).await;
    socket.send(Message::binary(&b"one"[..])).await.unwrap();
    socket.send(Message::binary(&b"two"[..])).await.unwrap();
    let mut read = [0; 6];
    soon(raw.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"onetwo");
    raw.write_all(b"back").await.unwrap();
    assert_eq!(binary(soon(socket.next()).await.unwrap().unwrap()), b"back");
    drop(socket);
    assert_eq!(soon(raw.read(&mut read)).await.unwrap_or(0), 0);
    soon(node.no_sessions()).await;
    let text = node.metrics.encode(agent::metrics::Format::Text);
    let line = "kubelet_websocket_streaming_requests_total{subresource=\"portforward\"} 1\n";
    assert!(text.contains(line), "{text}");
}

#[tokio::test]
async fn failures_have_specific_status_codes() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let spdy = async |path: &str| node.upgrade("POST", path, "SPDY/3.1", &[]).await.0;
    for (path, code, text) in [
        ("/exec/ns/web/main?command=x", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("/exec/ns/gone/main?output=1", 404, "pod does not exist"),
        ("/exec/ns/web/u9/main?output=1", 404, "pod not found"),
        ("/exec/ns/web/ended?output=1", 500, "container not found (\"ended\")"),
        ("/portForward/ns/web/u9", 404, "pod not found"),
        ("/portForward/ns/gone", 404, "pod does not exist"),
        ("/portForward/ns/web/u9", 404, "pod not found"),
    ] {
        let response = spdy(path).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {code} ")), "{path}: {response}");
        assert!(response.contains(text), "{path}: {response}");
    }
    let plain = request(&node, "POST", "/exec/ns/web/main?output=1").await;
    assert!(plain.starts_with("HTTP/1.1 400 ") && plain.contains("Upgrade request required"), "{plain}");
    let ports = node.upgrade("GET", "/portForward/ns/web?port=x", "websocket", &[]).await.0;
    assert!(ports.starts_with("HTTP/1.1 400 "), "{ports}");

    for (kind, code) in [
        (ports::runtime::RuntimeErrorKind::NotFound, "404"),
        (ports::runtime::RuntimeErrorKind::Exhausted, "429"),
        (ports::runtime::RuntimeErrorKind::Failed, "500"),
    ] {
        node.fail_with(kind);
        let response = spdy("/exec/ns/web/main?output=1").await;
        assert!(response.starts_with(&format!("HTTP/1.1 {code} ")), "{response}");
        assert_eq!(response.to_lowercase().contains("retry-after: 60"), code == "429", "{response}");
    }
}

#[tokio::test]
async fn forwards_runtime_errors_but_not_redirects() {
    for (response, code) in [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone", "404"),
        ("HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/\r\ncontent-length: 0\r\n\r\n", "500"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "500"),
    ] {
        let server = SpdyServer::with_response(response).await;
        let node = Node::start(&server.url()).await;
        let (found, _) = node.upgrade("POST", "/exec/ns/web/main?output=1", "SPDY/3.1", &[]).await;
        assert!(found.starts_with(&format!("HTTP/1.1 {code} ")), "{found}");
        assert!(!found.to_lowercase().contains("location:"), "{found}");
        let error = node.websocket("/exec/ns/web/main?output=1", V5).await.unwrap_err();
        assert!(error.contains(code), "{error}");
    }
    let node = Node::start("http://127.0.0.1:1/nobody").await;
    let (found, _) = node.upgrade("POST", "/exec/ns/web/main?output=1", "SPDY/3.1", &[]).await;
    assert!(found.starts_with("HTTP/1.1 500 "), "{found}");
}

#[tokio::test]
async fn strips_client_credentials_from_runtime_request() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let secret = [("Authorization", "Bearer secret")];
    let _open = node.upgrade("POST", "/exec/ns/web/main?output=1", "SPDY/3.1", &secret).await;
    let head = soon(server.head()).await;
    assert!(!head.contains("secret"), "{head}");
    assert!(head.to_lowercase().contains("upgrade: spdy/3.1"), "{head}");
}

#[tokio::test]
async fn stop_ends_all_sessions() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Arc::new(Node::start(&server.url()).await);
    let (_socket, _process) = start_process(&node, &server, "/exec/ns/web/main?output=1", V5).await;
    node.stop();
    soon(node.no_sessions()).await;
}
