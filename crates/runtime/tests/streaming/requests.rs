//! URLs and handshakes.

use runtime::streaming::PortForwardRequest;

use crate::clients::{SpdyClient, WebSocketClient, request};
use crate::local_backend::{OUTPUT, Server};

const SPDY: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";

#[tokio::test]
async fn url_works_once_and_only_for_its_route() {
    let server = Server::start().await;
    let url = server.exec("echo once", OUTPUT);
    let (head, _) = request(&url.replace("/exec/", "/attach/"), SPDY).await;
    assert!(head.starts_with("http/1.1 404 "), "{head}");
    let mut client = SpdyClient::connect(&url, "v4.channel.k8s.io").await;
    let [_, stdout, _] = client.open_all(["error", "stdout", "stderr"]).await;
    assert_eq!(client.read_end(stdout).await, "once\n");
    let (head, _) = request(&url, SPDY).await;
    assert!(head.starts_with("http/1.1 404 "), "{head}");
    server.stop().await;
}

#[tokio::test]
async fn request_without_upgrade_or_known_protocol_is_refused() {
    let server = Server::start().await;
    let answer = async |headers: &str| request(&server.exec("true", OUTPUT), headers).await.0;
    assert!(answer("").await.starts_with("http/1.1 400 "));
    assert!(answer(SPDY).await.starts_with("http/1.1 400 "));
    let refused = answer(&format!("{SPDY}X-Stream-Protocol-Version: v9\r\n")).await;
    assert!(refused.starts_with("http/1.1 403 "), "{refused}");
    assert_eq!(refused.matches("x-accepted-stream-protocol-versions: ").count(), 4, "{refused}");
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: v9\r\n";
    assert!(answer(websocket).await.starts_with("http/1.1 400 "));
    let forward = PortForwardRequest { sandbox: "s".to_owned(), ports: Vec::new() };
    let url = server.server.port_forward_url(forward).unwrap();
    let (head, _) = request(&url, websocket).await;
    assert!(head.starts_with("http/1.1 400 "), "{head}");
    server.stop().await;
}

#[tokio::test]
async fn failure_to_start_is_reported_as_internal_error() {
    let server = Server::start().await;
    let exec = runtime::streaming::ExecRequest {
        container: "c".to_owned(),
        command: vec!["/no/such/program".to_owned()],
        options: OUTPUT,
    };
    let url = server.server.exec_url(exec.clone()).unwrap();
    let mut client = WebSocketClient::connect(&url, "v4.channel.k8s.io").await;
    let status = client.read_end().await.remove(&3).unwrap();
    assert!(status.contains(r#""reason":"InternalError","code":500"#), "{status}");
    assert!(status.contains("error executing command in container: No such file"), "{status}");
    let url = server.server.exec_url(exec).unwrap();
    let mut client = SpdyClient::connect(&url, "v9, channel.k8s.io").await;
    let [error, stdout, _] = client.open_all(["error", "stdout", "stderr"]).await;
    assert_eq!(client.read_end(stdout).await, "");
    let text = client.read_end(error).await;
    assert!(text.starts_with("Internal error occurred: error executing"), "{text}");
    server.stop().await;
}
