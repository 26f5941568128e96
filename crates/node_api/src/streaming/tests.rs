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

/// Within a time that only a hanging session needs.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it hangs")
}

/// A process whose client has a WebSocket: the client hears of it only when the runtime has accepted its streams.
async fn started(node: &Node, server: &SpdyServer, path: &str, protocol: &str) -> (Socket, Process) {
    let (socket, process) =
        soon(async { tokio::join!(node.websocket(path, protocol), server.accept()) }).await;
    (socket.unwrap(), process)
}

#[tokio::test]
async fn a_process_is_reached_through_a_websocket() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let path = "/exec/ns/web/main?command=cat&command=-n&input=1&output=1&error=1";
    let (mut socket, mut process) = started(&node, &server, path, V5).await;
    assert_eq!(process.streams(), ["error", "stdin", "stdout", "stderr"]);
    assert_eq!(node.asked(), "exec c1 [\"cat\", \"-n\"] in out err");
    let first = soon(socket.next()).await.unwrap().unwrap();
    assert_eq!(binary(first), [1], "the connection stands");

    socket.send(Message::binary(&b"\x00hello"[..])).await.unwrap();
    assert_eq!(soon(process.read("stdin", 5)).await, b"hello");
    process.write("stdout", b"out", false).await;
    assert_eq!(binary(soon(socket.next()).await.unwrap().unwrap()), b"\x01out");
    process.write("stderr", b"err", false).await;
    assert_eq!(binary(soon(socket.next()).await.unwrap().unwrap()), b"\x02err");
    socket.send(Message::binary(&b"\xff\x00"[..])).await.unwrap();
    soon(process.read_end("stdin")).await;
    // Output goes on after the input has ended.
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
async fn a_terminal_has_sizes_and_no_error_output() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let path = "/exec/ns/web/main?command=sh&input=1&output=1&error=1&tty=1";
    let (mut socket, mut process) = started(&node, &server, path, V5).await;
    assert_eq!(process.streams(), ["error", "stdin", "stdout", "resize"]);
    socket.send(Message::binary(&b"\x04{\"Width\":80,\"Height\":24}"[..])).await.unwrap();
    assert_eq!(soon(process.read("resize", 24)).await, b"{\"Width\":80,\"Height\":24}");
}

#[tokio::test]
async fn when_the_runtime_dies_the_client_is_told() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let (mut socket, process) = started(&node, &server, "/attach/ns/web/main?output=1", V5).await;
    assert_eq!(node.asked(), "attach c1 out tty");
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
async fn when_the_client_dies_the_runtime_is_told() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let (socket, mut process) = started(&node, &server, "/exec/ns/web/main?output=1&input=1", V5).await;
    drop(socket);
    soon(process.gone()).await;
    soon(node.no_sessions()).await;
}

#[tokio::test]
async fn a_session_on_which_nothing_is_said_ends_though_the_runtime_answers_pings() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let (_socket, mut process) = started(&node, &server, "/exec/ns/web/main?output=1&input=1", V5).await;
    tokio::time::pause();
    let five_hours = Duration::from_secs(5 * 60 * 60);
    tokio::time::timeout(five_hours, process.gone()).await.expect("ends");
}

#[tokio::test]
async fn a_client_that_reads_nothing_stops_the_runtime() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let (socket, mut process) = started(&node, &server, "/exec/ns/web/main?output=1", V5).await;
    let piece = vec![b'x'; 64 * 1024];
    let mut sent = 0;
    // What fits into the buffers of the sockets is taken; then nothing more.
    while sent < 1024
        && tokio::time::timeout(Duration::from_millis(500), process.write("stdout", &piece, false))
            .await
            .is_ok()
    {
        sent += 1;
    }
    assert!(sent < 512, "{sent} pieces of 64 KiB were taken from a runtime whose client reads nothing");
    drop(socket);
}

#[tokio::test]
async fn bytes_of_other_protocols_are_passed_on_untouched() {
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
    assert_eq!(node.asked(), "port-forward s1 []");
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
async fn spdy_in_a_websocket_is_unwrapped() {
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
async fn what_comes_to_nothing_has_its_code() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let spdy = async |path: &str| node.upgrade("POST", path, "SPDY/3.1", &[]).await.0;
    for (path, code, text) in [
        ("/exec/ns/web/main?command=x", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("/exec/ns/gone/main?output=1", 404, "pod does not exist"),
        ("/exec/ns/web/u9/main?output=1", 404, "pod not found"),
        ("/exec/ns/web/ended?output=1", 500, "container not found (\"ended\")"),
        ("/portForward/ns/gone", 404, "pod does not exist"),
        ("/portForward/ns/web/u9", 404, "pod not found"),
    ] {
        let answer = spdy(path).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{path}: {answer}");
        assert!(answer.contains(text), "{path}: {answer}");
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
        let answer = spdy("/exec/ns/web/main?output=1").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
        assert_eq!(answer.to_lowercase().contains("retry-after: 60"), code == "429", "{answer}");
    }
}

#[tokio::test]
async fn the_runtimes_refusals_reach_the_client_and_redirects_do_not() {
    for (answer, code) in [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone", "404"),
        ("HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/\r\ncontent-length: 0\r\n\r\n", "500"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "500"),
    ] {
        let server = SpdyServer::answering(answer).await;
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
async fn secrets_of_the_client_do_not_reach_the_runtime() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Node::start(&server.url()).await;
    let secret = [("Authorization", "Bearer secret")];
    let _open = node.upgrade("POST", "/exec/ns/web/main?output=1", "SPDY/3.1", &secret).await;
    let head = soon(server.head()).await;
    assert!(!head.contains("secret"), "{head}");
    assert!(head.to_lowercase().contains("upgrade: spdy/3.1"), "{head}");
}

#[tokio::test]
async fn a_stop_ends_every_session() {
    let server = SpdyServer::start("v4.channel.k8s.io").await;
    let node = Arc::new(Node::start(&server.url()).await);
    let (_socket, _process) = started(&node, &server, "/exec/ns/web/main?output=1", V5).await;
    node.stop();
    soon(node.no_sessions()).await;
}
