use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::*;

async fn get_root(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn socket_is_private_and_removed_on_drop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let socket = LocalSocket::bind(&path).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
    drop(socket);
    assert!(!path.exists());
}

#[tokio::test]
async fn rejects_live_socket_and_replaces_stale_one() {
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
async fn rejects_path_that_is_not_a_socket_or_too_long() {
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
async fn router_can_be_replaced_while_serving() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let (routers, current) = watch::channel(starting_router("waiting for the runtime".to_owned()));
    let mut running = JoinSet::new();
    running.spawn(LocalSocket::bind(&path).await.unwrap().serve(current));
    let text = get_root(&path).await;
    assert!(text.starts_with("HTTP/1.1 503") && text.contains("waiting for the runtime"), "{text}");
    let _before = routers.send_replace(Router::new().route("/", get(async || "here")));
    let text = get_root(&path).await;
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("here"), "{text}");
}

#[test]
fn allows_only_root_and_owner() {
    assert!(is_allowed(0, 1000));
    assert!(is_allowed(1000, 1000));
    assert!(!is_allowed(1001, 1000));
    assert!(!is_allowed(1001, 0));
}
