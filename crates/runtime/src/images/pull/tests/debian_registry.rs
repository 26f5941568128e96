//! Debian's registry on a local port, with images pushed by the test.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::images::digest::Digest;

/// Stops when dropped.
#[derive(Debug)]
pub(super) struct Registry {
    process: Child,
    port: u16,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Registry {
    pub(super) async fn start(folder: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let root = folder.join("registry");
        let config = json!({
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": root}},
            "http": {"addr": format!("127.0.0.1:{port}")},
        });
        let path = folder.join("registry.yml");
        std::fs::write(&path, config.to_string()).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start docker-registry");
        let client = Client::builder(TokioExecutor::new()).build_http();
        let registry = Self { process, port, client };
        for _ in 0..300 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return registry;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("docker-registry did not open its port");
    }

    pub(super) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Pushes an image of these layers, compressed with gzip.
    pub(super) async fn push(&self, repository: &str, tag: &str, layers: &[Vec<u8>], config: &Value) {
        let diff_ids: Vec<_> = layers.iter().map(|layer| Digest::of(layer)).collect();
        let mut descriptors = Vec::new();
        for layer in layers {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(layer).unwrap();
            let media_type = "application/vnd.docker.image.rootfs.diff.tar.gzip";
            descriptors.push(self.push_blob(repository, encoder.finish().unwrap(), media_type).await);
        }
        let config = json!({
            "os": "linux",
            "architecture": std::env::consts::ARCH,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let media_type = "application/vnd.docker.container.image.v1+json";
        let config = self.push_blob(repository, serde_json::to_vec(&config).unwrap(), media_type).await;
        let media_type = "application/vnd.docker.distribution.manifest.v2+json";
        let manifest =
            json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": descriptors});
        let url = format!("http://{}/v2/{repository}/manifests/{tag}", self.host());
        self.send(Method::PUT, &url, media_type, serde_json::to_vec(&manifest).unwrap()).await;
    }

    async fn push_blob(&self, repository: &str, content: Vec<u8>, media_type: &str) -> Value {
        let digest = Digest::of(&content);
        let size = content.len();
        let url = format!("http://{}/v2/{repository}/blobs/uploads/", self.host());
        let location = self.send(Method::POST, &url, "application/octet-stream", Vec::new()).await;
        let url = format!("{location}&digest={digest}");
        self.send(Method::PUT, &url, "application/octet-stream", content).await;
        json!({"mediaType": media_type, "digest": digest, "size": size})
    }

    async fn send(&self, method: Method, url: &str, media_type: &str, body: Vec<u8>) -> String {
        let request = Request::builder().method(method).uri(url).header("content-type", media_type);
        let response = self.client.request(request.body(Full::from(body)).unwrap()).await.unwrap();
        assert!([StatusCode::ACCEPTED, StatusCode::CREATED].contains(&response.status()), "{response:?}");
        let location = response.headers().get("location").and_then(|location| location.to_str().ok());
        location.unwrap_or_default().to_owned()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
