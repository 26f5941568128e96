//! Forwarded connections.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use runtime::streaming::{PortForwardRequest, StreamTimeouts};
use spdy::StreamId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_websockets::Message;

use crate::clients::{SpdyClient, WebSocketClient};
use crate::local_backend::Server;

fn url(server: &Server) -> String {
    let request = PortForwardRequest { sandbox: "sandbox".to_owned(), ports: Vec::new() };
    server.server.port_forward_url(request).unwrap()
}

/// A server that sends back what it receives, and a last line at the end.
async fn echo_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut chunk = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = connection.read(&mut chunk).await {
                    connection.write_all(&chunk[..read]).await.unwrap();
                }
                connection.write_all(b"end\n").await.unwrap();
            });
        }
    });
    port
}

async fn open_pair(client: &mut SpdyClient, port: u16, request: &str) -> (StreamId, StreamId) {
    let port = port.to_string();
    let stream = |kind| [("streamtype", kind), ("port", port.as_str()), ("requestid", request)];
    let error = client.open(&stream("error")).await;
    (error, client.open(&stream("data")).await)
}

async fn check_two_connections(mut client: SpdyClient) {
    let port = echo_server().await;
    let (first_error, first) = open_pair(&mut client, port, "0").await;
    let (second_error, second) = open_pair(&mut client, port, "1").await;
    client.write(first, b"one", false).await;
    client.write(second, b"two", false).await;
    client.read_until(second, "two").await;
    client.read_until(first, "one").await;
    // The end of the client's direction leaves the other one open.
    client.write(first, b"", true).await;
    assert_eq!(client.read_end(first).await, "oneend\n");
    assert_eq!(client.read_end(first_error).await, "");
    client.write(second, &[b'x'; 300_000], true).await;
    assert_eq!(client.read_end(second).await.len(), 300_000 + "twoend\n".len());
    assert_eq!(client.read_end(second_error).await, "");
}

#[tokio::test]
async fn connections_are_forwarded_over_spdy() {
    let server = Server::start().await;
    check_two_connections(SpdyClient::connect(&url(&server), "portforward.k8s.io").await).await;
    server.stop().await;
}

#[tokio::test]
async fn connections_are_forwarded_over_a_websocket_tunnel() {
    let server = Server::start().await;
    let client = WebSocketClient::connect(&url(&server), "SPDY/3.1+portforward.k8s.io").await;
    let (mut sink, mut source) = client.socket.split();
    let (inner, outer) = tokio::io::duplex(1000);
    let (mut reader, mut writer) = tokio::io::split(outer);
    let tunnel = tokio::spawn(async move {
        let wrap = async {
            let mut chunk = [0; 777];
            while let Ok(read @ 1..) = reader.read(&mut chunk).await {
                sink.send(Message::binary(chunk[..read].to_vec())).await.unwrap();
            }
        };
        let unwrap = async {
            while let Some(Ok(message)) = source.next().await {
                if message.is_binary() && writer.write_all(&message.into_payload()).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = wrap => {}
            () = unwrap => {}
        }
    });
    check_two_connections(SpdyClient::new(Box::new(inner))).await;
    tunnel.await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn closed_port_is_reported_and_other_connections_continue() {
    let server = Server::start().await;
    let mut client = SpdyClient::connect(&url(&server), "portforward.k8s.io").await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let port = echo_server().await;
    let (_, open) = open_pair(&mut client, port, "0").await;
    let (error, data) = open_pair(&mut client, closed, "1").await;
    let text = client.read_end(error).await;
    assert!(text.starts_with(&format!("error forwarding port {closed} to pod sandbox, uid : ")), "{text}");
    assert_eq!(client.read_end(data).await, "");
    client.write(open, b"x", true).await;
    assert_eq!(client.read_end(open).await, "xend\n");
    server.stop().await;
}

#[tokio::test]
async fn invalid_and_incomplete_pairs_are_reset() {
    let timeouts = StreamTimeouts { creation: Duration::from_millis(50), ..StreamTimeouts::default() };
    let server = Server::with_timeouts(timeouts).await;
    let mut client = SpdyClient::connect(&url(&server), "portforward.k8s.io").await;
    let invalid = client.open(&[("streamtype", "data"), ("port", "0"), ("requestid", "0")]).await;
    assert!(client.reset.contains(&invalid));
    let port = echo_server().await;
    let half = client.open(&[("streamtype", "error"), ("port", "80"), ("requestid", "1")]).await;
    assert!(!client.reset.contains(&half));
    while !client.reset.contains(&half) {
        client.ping(1).await;
    }
    let (_, data) = open_pair(&mut client, port, "2").await;
    client.write(data, b"x", true).await;
    assert_eq!(client.read_end(data).await, "xend\n");
    server.stop().await;
}
