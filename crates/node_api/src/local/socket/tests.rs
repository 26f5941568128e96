use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::*;

async fn ask(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn only_the_owner_can_open_the_socket_and_it_goes_with_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let socket = LocalSocket::bind(&path).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
    drop(socket);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_live_socket_is_left_alone_and_a_stale_one_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = LocalSocket::bind(&path).await.unwrap_err();
    assert!(matches!(error, LocalSocketError::InUse(_)), "{error}");
    assert!(error.to_string().contains("another agent"), "{error}");
    drop(other);
    LocalSocket::bind(&path).await.unwrap();
}

#[tokio::test]
async fn what_is_no_socket_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    std::fs::write(&path, "precious").unwrap();
    let error = LocalSocket::bind(&path).await.unwrap_err();
    assert!(matches!(error, LocalSocketError::NotASocket(_)), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    let long = folder.path().join("x".repeat(200));
    assert!(matches!(LocalSocket::bind(&long).await.unwrap_err(), LocalSocketError::TooLong(_)));
}

#[tokio::test]
async fn the_router_is_changed_while_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let (door, current) = watch::channel(starting_router("waiting for the runtime".to_owned()));
    let mut running = JoinSet::new();
    running.spawn(LocalSocket::bind(&path).await.unwrap().serve(current));
    let text = ask(&path).await;
    assert!(text.starts_with("HTTP/1.1 503") && text.contains("waiting for the runtime"), "{text}");
    let _before = door.send_replace(Router::new().route("/", get(async || "here")));
    let text = ask(&path).await;
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("here"), "{text}");
}

#[test]
fn strangers_are_not_served() {
    assert!(is_allowed(0, 1000));
    assert!(is_allowed(1000, 1000));
    assert!(!is_allowed(1001, 1000));
    assert!(!is_allowed(1001, 0));
}
