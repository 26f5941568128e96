//! A registry with one image `app` under every tag, which misbehaves on request.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::images::digest::Digest;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) is_index: bool,
    pub(super) needs_token: bool,
    /// Blobs are served by another address.
    pub(super) redirects_blobs: bool,
    /// Each connection ends after some bytes of a blob.
    pub(super) cuts_blobs: bool,
    pub(super) damages_blobs: bool,
    pub(super) damages_manifest: bool,
}

/// Stops when dropped.
#[derive(Debug)]
pub(super) struct TestRegistry {
    port: u16,
    shared: Arc<Shared>,
    pub(super) ranges: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    port: u16,
    top: Digest,
    /// Content and media type.
    blobs: BTreeMap<String, (Vec<u8>, &'static str)>,
    ranges: Arc<AtomicUsize>,
    requests: AtomicUsize,
    authorizations: AtomicUsize,
    leaked: AtomicUsize,
}

impl TestRegistry {
    pub(super) async fn start(options: Options, layers: &[Vec<u8>]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (top, blobs) = image(options, layers);
        let ranges = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(Shared {
            options,
            port,
            top,
            blobs,
            ranges: Arc::clone(&ranges),
            requests: AtomicUsize::new(0),
            authorizations: AtomicUsize::new(0),
            leaked: AtomicUsize::new(0),
        });
        let served = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = Arc::clone(&served);
                tokio::spawn(async move { served.serve(stream).await.is_ok() });
            }
        });
        Self { port, shared, ranges, task }
    }

    pub(super) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn top(&self) -> &Digest {
        &self.shared.top
    }

    pub(super) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    pub(super) fn authorizations(&self) -> usize {
        self.shared.authorizations.load(Ordering::Relaxed)
    }

    /// Requests of redirected blobs with an authorization.
    pub(super) fn leaked_authorizations(&self) -> usize {
        self.shared.leaked.load(Ordering::Relaxed)
    }
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Answer = (&'static str, String, Vec<u8>);

impl Shared {
    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut request = Vec::new();
        while !request.windows(4).any(|window| window == b"\r\n\r\n") {
            if stream.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
            // A TLS handshake.
            if request.first() == Some(&0x16) {
                return Ok(());
            }
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        if !text.starts_with("GET") && !text.starts_with("POST") {
            return Ok(());
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        let (status, headers, body) = self.answer(&text);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        let is_cut = self.options.cuts_blobs && text.contains("/blobs/") && body.len() > 1000;
        let sent = if is_cut { &body[..1000] } else { &body };
        stream.write_all(sent).await?;
        stream.shutdown().await
    }

    fn answer(&self, request: &str) -> Answer {
        let not_found = || ("404 Not Found", String::new(), b"{}".to_vec());
        let path = request.split_whitespace().nth(1).unwrap_or_default();
        let authorization = header(request, "authorization");
        self.authorizations.fetch_add(usize::from(authorization.is_some()), Ordering::Relaxed);
        if path.starts_with("/token") {
            return Self::token(request);
        }
        if let Some(digest) = path.strip_prefix("/cdn/") {
            self.leaked.fetch_add(usize::from(authorization.is_some()), Ordering::Relaxed);
            return self.blob(digest, request);
        }
        if self.options.needs_token && authorization != Some("Bearer good") {
            let challenge = format!(
                "WWW-Authenticate: Bearer realm=\"http://127.0.0.1:{}/token\",service=\"test\"\r\n",
                self.port
            );
            return ("401 Unauthorized", challenge, b"{}".to_vec());
        }
        let path = path.split('?').next().unwrap_or_default();
        if let Some((name, tag)) = path.split_once("/manifests/") {
            if !name.ends_with("/app") {
                return not_found();
            }
            let digest = if tag.starts_with("sha256:") { tag } else { self.top.as_str() };
            let Some((content, media_type)) = self.blobs.get(digest) else { return not_found() };
            let mut content = content.clone();
            if self.options.damages_manifest {
                content.push(b' ');
            }
            let headers = format!("Content-Type: {media_type}\r\nDocker-Content-Digest: {digest}\r\n");
            return ("200 OK", headers, content);
        }
        let Some((_, digest)) = path.split_once("/blobs/") else { return not_found() };
        if self.options.redirects_blobs {
            let location = format!("Location: http://localhost:{}/cdn/{digest}\r\n", self.port);
            return ("307 Temporary Redirect", location, Vec::new());
        }
        self.blob(digest, request)
    }

    fn token(request: &str) -> Answer {
        if request.starts_with("POST") {
            return ("404 Not Found", String::new(), b"{}".to_vec());
        }
        // ann:secret
        if header(request, "authorization") == Some("Basic YW5uOnNlY3JldA==") {
            return ("200 OK", String::new(), br#"{"token":"good"}"#.to_vec());
        }
        ("401 Unauthorized", String::new(), br#"{"details":"no such user"}"#.to_vec())
    }

    fn blob(&self, digest: &str, request: &str) -> Answer {
        let Some((content, _)) = self.blobs.get(digest) else {
            return ("404 Not Found", String::new(), Vec::new());
        };
        let mut content = content.clone();
        if self.options.damages_blobs && content.len() > 2000 {
            content[1000] ^= 1;
        }
        let range =
            header(request, "range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
        let Some(start) = range.and_then(|start| start.parse::<usize>().ok()) else {
            return ("200 OK", String::new(), content);
        };
        self.ranges.fetch_add(1, Ordering::Relaxed);
        let size = content.len();
        let headers = format!("Content-Range: bytes {start}-{}/{size}\r\n", size - 1);
        ("206 Partial Content", headers, content.split_off(start))
    }
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn image(options: Options, layers: &[Vec<u8>]) -> (Digest, BTreeMap<String, (Vec<u8>, &'static str)>) {
    let mut blobs = BTreeMap::new();
    let mut add = |content: Vec<u8>, media_type: &'static str| {
        let digest = Digest::of(&content);
        let descriptor = json!({"mediaType": media_type, "digest": digest, "size": content.len()});
        blobs.insert(digest.to_string(), (content, media_type));
        (digest, descriptor)
    };
    let diff_ids: Vec<_> = layers.iter().map(|layer| Digest::of(layer)).collect();
    let layers: Vec<_> = layers
        .iter()
        .map(|layer| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
            encoder.write_all(layer).unwrap();
            add(encoder.finish().unwrap(), "application/vnd.oci.image.layer.v1.tar+gzip").1
        })
        .collect();
    let config = json!({
        "os": "linux",
        "architecture": std::env::consts::ARCH,
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    let config = add(serde_json::to_vec(&config).unwrap(), "application/vnd.oci.image.config.v1+json").1;
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
    let (top, mut descriptor) = add(serde_json::to_vec(&manifest).unwrap(), MANIFEST);
    if !options.is_index {
        return (top, blobs);
    }
    descriptor["platform"] = json!({"os": "linux", "architecture": std::env::consts::ARCH});
    let mut other = descriptor.clone();
    other["platform"] = json!({"os": "windows", "architecture": "amd64"});
    other["digest"] = json!(Digest::of(b"missing"));
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [other, descriptor]});
    let top = add(serde_json::to_vec(&index).unwrap(), INDEX).0;
    (top, blobs)
}
