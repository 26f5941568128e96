//! Commands over both transports.

use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt;
use runtime::streaming::{StreamOptions, StreamTimeouts};
use tokio_websockets::Message;

use crate::clients::{SpdyClient, WebSocketClient, within};
use crate::local_backend::{ALL, OUTPUT, Server, eventually};

const FAILED: &str =
    r#""reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;

#[tokio::test]
async fn websocket_carries_streams_and_status() {
    let server = Server::start().await;
    for protocol in ["v5.channel.k8s.io", "v4.channel.k8s.io"] {
        let url = server.exec("read line; echo out $line; echo err >&2; exit 3", ALL);
        let mut client = WebSocketClient::connect(&url, protocol).await;
        client.write(0, b"text\n").await;
        let all = client.read_end().await;
        assert_eq!((all[&1].as_str(), all[&2].as_str()), ("out text\n", "err\n"), "{protocol}");
        assert!(all[&3].ends_with(FAILED), "{}", all[&3]);
        assert_eq!(client.close_code, Some(1000));
    }
    let mut client = WebSocketClient::connect(&server.exec("true", OUTPUT), "v5.channel.k8s.io").await;
    assert_eq!(client.read_end().await[&3], r#"{"status":"Success"}"#);
    server.stop().await;
}

#[tokio::test]
async fn first_version_reports_only_failures_as_text() {
    let server = Server::start().await;
    let mut client = WebSocketClient::connect(&server.exec("echo x", OUTPUT), "").await;
    let all = client.read_end().await;
    assert_eq!((all[&1].as_str(), all.get(&3)), ("x\n", None));
    let mut client = WebSocketClient::connect(&server.exec("exit 3", OUTPUT), "channel.k8s.io").await;
    assert!(client.read_end().await[&3].ends_with("exit code 3"));
    server.stop().await;
}

#[tokio::test]
async fn base64_messages_are_text() {
    let server = Server::start().await;
    let url = server.exec("read line; echo $line", ALL);
    let mut client = WebSocketClient::connect(&url, "v4.base64.channel.k8s.io").await;
    client.socket.send(Message::text("0bHMK")).await.unwrap();
    let all = client.read_end().await;
    assert_eq!(all[&b'1'], "bHMK");
    assert!(all.contains_key(&b'3'));
    server.stop().await;
}

#[tokio::test]
async fn version_5_client_ends_input_and_receives_the_rest() {
    let server = Server::start().await;
    let url = server.exec("cat; echo ended", ALL);
    let mut client = WebSocketClient::connect(&url, "v5.channel.k8s.io").await;
    client.write(0, b"text\n").await;
    client.write(255, &[0]).await;
    assert_eq!(client.read_end().await[&1], "text\nended\n");
    server.stop().await;
}

#[tokio::test]
async fn spdy_carries_streams_and_status() {
    let server = Server::start().await;
    let url = server.exec("cat; echo err >&2; exit 3", ALL);
    let mut client = SpdyClient::connect(&url, "v9, v4.channel.k8s.io").await;
    let [error, stdin, stdout, stderr] = client.open_all(["error", "stdin", "stdout", "stderr"]).await;
    client.ping(7).await;
    client.write(stdin, b"text\n", false).await;
    client.read_until(stdout, "text\n").await;
    client.write(stdin, b"more\n", true).await;
    assert_eq!(client.read_end(stdout).await, "text\nmore\n");
    assert_eq!(client.read_end(stderr).await, "err\n");
    let status = client.read_end(error).await;
    assert!(status.ends_with(FAILED), "{status}");
    client.wait_until_closed().await;
    server.stop().await;
}

#[tokio::test]
async fn large_output_and_input_arrive_completely() {
    let server = Server::start().await;
    let url = server.exec("head -c 20000000 /dev/zero | tr '\\0' x; wc -c", ALL);
    let mut client = SpdyClient::connect(&url, "v4.channel.k8s.io").await;
    let [_, stdin, stdout, _] = client.open_all(["error", "stdin", "stdout", "stderr"]).await;
    client.wait_for_bytes(stdout, 20_000_000).await;
    for _ in 0..100 {
        client.write(stdin, &[b'y'; 100_000], false).await;
    }
    client.write(stdin, b"", true).await;
    assert!(client.read_end(stdout).await.ends_with("x10000000\n"));
    server.stop().await;
}

#[tokio::test]
async fn client_that_leaves_ends_the_whole_process_tree() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    let alive = |path: &std::path::Path| {
        let pid = std::fs::read_to_string(path).unwrap_or_default();
        // A zombie of the test's own init is dead.
        std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim())).is_ok_and(|text| !text.is_empty())
    };
    for transport in ["websocket", "spdy"] {
        let path = folder.path().join(transport);
        let script = format!("sleep 1000 & echo $! > {}; echo ready; wait", path.display());
        let url = server.exec(&script, ALL);
        if transport == "spdy" {
            let mut client = SpdyClient::connect(&url, "v4.channel.k8s.io").await;
            let [_, _, stdout, _] = client.open_all(["error", "stdin", "stdout", "stderr"]).await;
            client.read_until(stdout, "ready").await;
            eventually(|| alive(&path)).await;
        } else {
            let mut client = WebSocketClient::connect(&url, "v5.channel.k8s.io").await;
            client.read_until(1, "ready").await;
            eventually(|| alive(&path)).await;
        }
        eventually(|| !alive(&path)).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn stopped_server_ends_its_sessions() {
    let server = Server::start().await;
    let mut client =
        WebSocketClient::connect(&server.exec("echo ready; sleep 1000", ALL), "v5.channel.k8s.io").await;
    client.read_until(1, "ready").await;
    server.stop().await;
    assert!(!client.read_end().await.contains_key(&3), "there is no status of a killed process");
}

#[tokio::test]
async fn background_process_that_keeps_the_output_does_not_delay_the_status() {
    let server = Server::start().await;
    let mut client =
        WebSocketClient::connect(&server.exec("echo x; sleep 5 & exit 3", OUTPUT), "v5.channel.k8s.io").await;
    let all = client.read_end().await;
    assert_eq!(all[&1], "x\n");
    assert!(all[&3].ends_with(FAILED));
    server.stop().await;
}

#[tokio::test]
async fn unread_input_does_not_delay_pings_or_the_end() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("go");
    let script = format!("echo ready; while [ ! -e {} ]; do sleep 0.01; done", path.display());
    let mut client = WebSocketClient::connect(&server.exec(&script, ALL), "v5.channel.k8s.io").await;
    client.read_until(1, "ready").await;
    for _ in 0..6 {
        client.write(0, &[b'x'; 32 * 1024]).await;
    }
    client.socket.send(Message::ping(Bytes::from_static(b"p"))).await.unwrap();
    let pong = async {
        loop {
            let message = futures::StreamExt::next(&mut client.socket).await.unwrap().unwrap();
            if message.is_pong() {
                return;
            }
        }
    };
    within(pong).await;
    std::fs::write(&path, "").unwrap();
    assert_eq!(client.read_end().await[&3], r#"{"status":"Success"}"#);
    server.stop().await;
}

#[tokio::test]
async fn client_that_opens_not_all_streams_is_disconnected() {
    let timeouts = StreamTimeouts { creation: Duration::from_millis(100), ..StreamTimeouts::default() };
    let server = Server::with_timeouts(timeouts).await;
    let mut client = SpdyClient::connect(&server.exec("true", OUTPUT), "v4.channel.k8s.io").await;
    client.open_all(["error", "stdout"]).await;
    client.wait_until_closed().await;
    let mut client = SpdyClient::connect(&server.exec("true", OUTPUT), "v4.channel.k8s.io").await;
    let [refused] = client.open_all(["unknown"]).await;
    assert!(client.reset.contains(&refused));
    client.wait_until_closed().await;
    server.stop().await;
}

#[tokio::test]
async fn idle_session_ends() {
    let timeouts = StreamTimeouts { idle: Duration::from_millis(200), ..StreamTimeouts::default() };
    let server = Server::with_timeouts(timeouts).await;
    let url = server.exec("echo ready; sleep 1000", OUTPUT);
    let mut client = WebSocketClient::connect(&url, "v5.channel.k8s.io").await;
    assert_eq!(client.read_end().await[&1], "ready\n");
    let mut client = SpdyClient::connect(&server.exec("sleep 1000", OUTPUT), "v4.channel.k8s.io").await;
    client.open_all(["error", "stdout", "stderr"]).await;
    client.wait_until_closed().await;
    server.stop().await;
}

#[tokio::test]
async fn only_chosen_streams_are_expected() {
    let server = Server::start().await;
    let options = StreamOptions { stdout: true, stderr: true, tty: true, ..StreamOptions::default() };
    // With a terminal there is no stderr stream, and a stream for its size.
    let mut client = SpdyClient::connect(&server.exec("echo x", options), "v4.channel.k8s.io").await;
    let [error, stdout, _] = client.open_all(["error", "stdout", "resize"]).await;
    assert_eq!(client.read_end(stdout).await, "x\n");
    assert_eq!(client.read_end(error).await, r#"{"status":"Success"}"#);
    let mut client = SpdyClient::connect(&server.exec("echo x", options), "v2.channel.k8s.io").await;
    let [error, stdout] = client.open_all(["error", "stdout"]).await;
    assert_eq!(client.read_end(stdout).await, "x\n");
    assert_eq!(client.read_end(error).await, "");
    server.stop().await;
}
