//! An image registry for tests: one image under every name, or the images of an archive; with an optional password.
//!
//! It counts requests and can delay them, so that tests can check the number of pulls and of concurrent pulls.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::images;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

#[derive(Clone, Debug, Default)]
pub struct RegistryOptions {
    /// `user:password` in base64; `None` for anonymous access.
    pub password: Option<String>,
    /// Delay of each tag lookup.
    pub delay: Duration,
}

/// A registry on a local port; stops when dropped.
#[derive(Debug)]
pub struct Registry {
    port: u16,
    state: Arc<State>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    options: RegistryOptions,
    manifests: Manifests,
    blobs: Blobs,
    counts: Mutex<Counts>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    lookups: BTreeMap<String, usize>,
    now: usize,
    most: usize,
}

/// Content by its digest.
type Blobs = BTreeMap<String, Vec<u8>>;

/// Digests of manifests.
#[derive(Debug)]
enum Manifests {
    /// The same image under every name.
    Any(String),
    /// By repository and tag, without a host.
    Named(BTreeMap<String, String>),
}

impl Manifests {
    fn digest(&self, name: &str) -> Option<&str> {
        match self {
            Self::Any(digest) => Some(digest),
            Self::Named(digests) => digests.get(name).map(String::as_str),
        }
    }
}

impl Registry {
    /// Starts a registry that serves the demo image.
    pub async fn start(options: RegistryOptions) -> Result<Self> {
        let folder = images::workspace().join("target/test-images");
        let (named, blobs) = read_images(&images::write_test_images(&folder)?)?;
        let demo = named.get(repository(images::DEMO)).context("the demo image")?;
        Self::serve(options, Manifests::Any(demo.clone()), blobs).await
    }

    /// Starts a registry that serves the images of an archive, each under its name without the host.
    pub async fn start_with(archive: &Path) -> Result<Self> {
        let (named, blobs) = read_images(archive)?;
        Self::serve(RegistryOptions::default(), Manifests::Named(named), blobs).await
    }

    async fn serve(options: RegistryOptions, manifests: Manifests, blobs: Blobs) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("open the registry")?;
        let port = listener.local_addr().context("open the registry")?.port();
        let state = Arc::new(State { options, manifests, blobs, counts: Mutex::default() });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                connections.spawn(async move { state.serve(stream).await.is_ok() });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, state, task })
    }

    /// `host:port`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.host())
    }

    /// The hexadecimal digest of an image's manifest, by its full name.
    pub fn digest(&self, name: &str) -> Option<&str> {
        self.state.manifests.digest(repository(name))
    }

    /// Number of authorized lookups of an image by its tag.
    pub fn lookups(&self, name: &str) -> usize {
        self.state.counts().lookups.get(name).copied().unwrap_or_default()
    }

    /// Maximum number of concurrent lookups.
    pub fn most_at_once(&self) -> usize {
        self.state.counts().most
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Answer<'a> {
    status: &'static str,
    headers: String,
    body: &'a [u8],
}

impl State {
    fn counts(&self) -> parking_lot::MutexGuard<'_, Counts> {
        self.counts.lock()
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        let request = String::from_utf8_lossy(&request).into_owned();
        let mut arguments = request.split_whitespace();
        let (method, path) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
        let answer = self.answer(method, path, &request).await;
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
            answer.status,
            answer.body.len(),
            answer.headers
        );
        stream.write_all(head.as_bytes()).await?;
        if method != "HEAD" {
            stream.write_all(answer.body).await?;
        }
        stream.shutdown().await
    }

    async fn answer(&self, method: &str, path: &str, request: &str) -> Answer<'_> {
        if let Some(password) = &self.options.password
            && !request.lines().any(|line| line.trim_end().ends_with(&format!("Basic {password}")))
        {
            let headers = "WWW-Authenticate: Basic realm=\"test\"\r\n".to_owned();
            return Answer { status: "401 Unauthorized", headers, body: b"{}" };
        }
        let Some(rest) = path.strip_prefix("/v2/").map(|rest| rest.split('?').next().unwrap_or(rest)) else {
            return Answer { status: "404 Not Found", headers: String::new(), body: b"" };
        };
        let digest = match rest.split_once("/manifests/") {
            Some((name, tag)) if !tag.starts_with("sha256:") => {
                let name = format!("{name}:{tag}");
                if method == "HEAD" {
                    self.look_up(&name).await;
                }
                self.manifests.digest(&name).unwrap_or_default()
            }
            Some((_, digest)) => digest.trim_start_matches("sha256:"),
            None => rest.rsplit_once("/blobs/sha256:").map_or("", |(_, digest)| digest),
        };
        match self.blobs.get(digest) {
            Some(body) => {
                let kind = if rest.contains("/manifests/") { MANIFEST } else { "application/octet-stream" };
                let headers = format!("Content-Type: {kind}\r\nDocker-Content-Digest: sha256:{digest}\r\n");
                Answer { status: "200 OK", headers, body }
            }
            None => Answer { status: "404 Not Found", headers: String::new(), body: b"" },
        }
    }

    async fn look_up(&self, name: &str) {
        {
            let mut counts = self.counts();
            *counts.lookups.entry(name.to_owned()).or_default() += 1;
            counts.now += 1;
            counts.most = counts.most.max(counts.now);
        }
        tokio::time::sleep(self.options.delay).await;
        self.counts().now -= 1;
    }
}

/// The images of an archive: digests of their manifests by repository and tag, and all blobs.
fn read_images(archive: &Path) -> Result<(BTreeMap<String, String>, Blobs)> {
    let file = File::open(archive).with_context(|| format!("open {}", archive.display()))?;
    let (mut blobs, mut index) = (BTreeMap::new(), Value::Null);
    for entry in tar::Archive::new(file).entries().context("read the images")? {
        let mut entry = entry.context("read the images")?;
        let path = entry.path().context("read the images")?.display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).context("read the images")?;
        if let Some(digest) = path.strip_prefix("blobs/sha256/") {
            blobs.insert(digest.to_owned(), content);
        } else if path == "index.json" {
            index = serde_json::from_slice(&content).context("read index.json")?;
        }
    }
    let manifests = index.get("manifests").and_then(Value::as_array).context("manifests of index.json")?;
    let mut named = BTreeMap::new();
    for manifest in manifests {
        let name =
            manifest["annotations"]["io.containerd.image.name"].as_str().context("name of an image")?;
        let digest = manifest["digest"].as_str().context("digest of an image")?;
        named.insert(repository(name).to_owned(), digest.trim_start_matches("sha256:").to_owned());
    }
    Ok((named, blobs))
}

/// An image's name without the host.
fn repository(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, repository)| repository)
}
