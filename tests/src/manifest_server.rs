//! A small HTTP server for `staticPodURL`.

use parking_lot::Mutex;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Serves one document, which can be changed at any time.
#[derive(Debug)]
pub struct ManifestServer {
    port: u16,
    answer: Arc<Mutex<Answer>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Debug)]
enum Answer {
    Text(String),
    Failure,
}

impl ManifestServer {
    /// Starts the server; it responds with an error until a document is set.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("open the manifest server")?;
        let port = listener.local_addr().context("open the manifest server")?.port();
        let answer = Arc::new(Mutex::new(Answer::Failure));
        let shared = Arc::clone(&answer);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = shared.lock().clone();
                let _ = respond(stream, &answer).await;
            }
        });
        Ok(Self { port, answer, task })
    }

    /// The value for `staticPodURL`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/pods", self.port)
    }

    pub fn serve(&self, manifest: &Value) {
        self.serve_text(&manifest.to_string());
    }

    pub fn serve_text(&self, text: &str) {
        self.set(Answer::Text(text.to_owned()));
    }

    /// Responds with status 500 from now on.
    pub fn fail(&self) {
        self.set(Answer::Failure);
    }

    fn set(&self, answer: Answer) {
        *self.answer.lock() = answer;
    }
}

impl Drop for ManifestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(mut stream: TcpStream, answer: &Answer) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let (status, body) = match answer {
        Answer::Text(text) => ("200 OK", text.as_str()),
        Answer::Failure => ("500 Internal Server Error", "broken on purpose"),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
