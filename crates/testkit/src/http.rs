//! A minimal HTTP client for tests: GET from a local port.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

pub async fn get(port: u16, path: &str) -> Result<Answer> {
    get_from("127.0.0.1", port, path).await
}

/// Gets `path` from another address, for example a pod's.
pub async fn get_from(host: &str, port: u16, path: &str) -> Result<Answer> {
    let exchange = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        // HTTP/1.0, so that servers do not use chunked encoding.
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        std::io::Result::Ok(bytes)
    };
    let bytes = tokio::time::timeout(Duration::from_secs(30), exchange)
        .await
        .with_context(|| format!("GET {path}: timed out"))?
        .with_context(|| format!("GET {path} from {host}:{port}"))?;
    parse(&bytes).with_context(|| format!("GET {path}: not an HTTP response"))
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: bytes.get(end + 4..)?.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_head_and_body() {
        let answer = parse(b"HTTP/1.0 404 Not Found\r\nX: y\r\n\r\nnone").unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (404, b"none".as_slice()));
        assert!(parse(b"garbage").is_none());
    }
}
