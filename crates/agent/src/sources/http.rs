//! Pods from a URL, polled.
//!
//! An unchanged body is ignored, an empty one means no pods. Failures are told a few times and then only
//! counted; the last good set stays wanted.

mod way;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use decide::proxies::{Proxies, Proxy, ProxyScheme};
use http::header::{AUTHORIZATION, COOKIE, LOCATION, PROXY_AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use manifest::Place;
use model::{ConfigObject, PodSource, Snapshot, SnapshotKind};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{ManifestReader, Reading};
use crate::objects::LocalObjects;
use crate::source_report::SourceReports;
use way::Way;

/// Deadline of one request.
const DEADLINE: Duration = Duration::from_secs(10);
/// The largest body that is read.
const LARGEST: usize = 10 * 1024 * 1024;
/// Redirections in a row that are followed.
const REDIRECTIONS: usize = 10;
/// What is told only to the server that was configured, and to those below its name.
const CONFIDENTIAL: [HeaderName; 3] = [AUTHORIZATION, COOKIE, WWW_AUTHENTICATE];
/// Failures in a row that are told as warnings.
const TOLD: u32 = 3;

/// A source that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum HttpSourceError {
    /// The URL is none.
    #[error("staticPodURL {url:?} is not a URL")]
    Url {
        /// As configured.
        url: String,
        /// Why.
        source: http::uri::InvalidUri,
    },
    /// A header cannot be sent.
    #[error("staticPodURLHeader {name:?} is not a valid header")]
    Header {
        /// Its name; the value may be secret.
        name: String,
    },
    /// The machine's certificates cannot be read.
    #[error("the machine's root certificates cannot be read")]
    Certificates(#[source] std::io::Error),
}

/// What the source needs.
pub struct Parts {
    /// `staticPodURL`.
    pub url: String,
    /// `staticPodURLHeader`.
    pub headers: BTreeMap<String, Vec<String>>,
    /// `httpCheckFrequency`.
    pub check_frequency: Duration,
    /// Through whom servers are reached.
    pub proxies: Proxies,
    /// Reads manifests.
    pub reader: ManifestReader,
    /// Where snapshots go.
    pub snapshots: mpsc::Sender<Snapshot>,
    /// Where ConfigMaps and Secrets go.
    pub objects: Arc<LocalObjects>,
    /// How the source is, for whoever asks.
    pub report: Arc<SourceReports>,
}

/// The polling source.
pub struct HttpSource {
    parts: Parts,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    client: Client<HttpsConnector<Way>, Empty<Bytes>>,
    last_body: Option<Bytes>,
    last_objects: Vec<Arc<ConfigObject>>,
    wanted: usize,
    failures: u32,
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("no answer within {DEADLINE:?}")]
    Deadline,
    #[error("request failed: {0}")]
    Request(String),
    #[error("answered {0}")]
    Status(StatusCode),
    #[error("stopped after {REDIRECTIONS} redirects")]
    Redirections,
    #[error("body cannot be read or is larger than 10 MiB: {0}")]
    Body(String),
    #[error("{}", .0.join("; "))]
    Manifest(Vec<String>),
}

impl HttpSource {
    /// Checks the settings.
    ///
    /// # Errors
    /// When the URL or a header cannot be used.
    pub fn new(parts: Parts) -> Result<Self, HttpSourceError> {
        let uri: Uri =
            parts.url.parse().map_err(|source| HttpSourceError::Url { url: parts.url.clone(), source })?;
        let mut headers = Vec::new();
        for (name, values) in &parts.headers {
            let invalid = || HttpSourceError::Header { name: name.clone() };
            let key: HeaderName = name.parse().map_err(|_| invalid())?;
            for value in values {
                headers.push((key.clone(), HeaderValue::from_str(value).map_err(|_| invalid())?));
            }
        }
        let tls = hyper_rustls::HttpsConnectorBuilder::new()
            .with_native_roots()
            .map_err(HttpSourceError::Certificates)?
            .https_or_http()
            .enable_http1()
            .wrap_connector(Way::new(parts.proxies.clone()));
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(tls);
        Ok(Self {
            parts,
            uri,
            headers,
            client,
            last_body: None,
            last_objects: Vec::new(),
            wanted: 0,
            failures: 0,
        })
    }

    /// Polls until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                listening = self.poll() => if !listening { return },
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(self.parts.check_frequency) => {}
            }
        }
    }

    /// One request; false when nobody listens any more.
    async fn poll(&mut self) -> bool {
        let result = match tokio::time::timeout(DEADLINE, self.fetch()).await {
            Ok(Ok(body)) => self.read(body),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(FetchError::Deadline),
        };
        match result {
            Ok(None) => {
                self.failures = 0;
                self.parts.report.good(PodSource::Http, self.wanted);
                true
            }
            Ok(Some(snapshot)) => {
                self.failures = 0;
                self.wanted = snapshot.pods.len();
                self.parts.report.good(PodSource::Http, self.wanted);
                self.parts.snapshots.send(snapshot).await.is_ok()
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.parts.report.failing(PodSource::Http, error.to_string());
                if self.failures <= TOLD {
                    tracing::warn!(url = %self.parts.url, %error, "pods cannot be read from the URL; keeping the last ones");
                } else {
                    tracing::debug!(url = %self.parts.url, %error, failures = self.failures, "pods cannot be read from the URL");
                }
                true
            }
        }
    }

    async fn fetch(&self) -> Result<Bytes, FetchError> {
        let mut place = self.uri.clone();
        for _ in 0..=REDIRECTIONS {
            let response = self.ask(&place).await?;
            if let Some(next) = redirection(&place, &response) {
                place = next;
                continue;
            }
            if !response.status().is_success() {
                return Err(FetchError::Status(response.status()));
            }
            let body = Limited::new(response.into_body(), LARGEST).collect().await;
            return Ok(body.map_err(|error| FetchError::Body(error.to_string()))?.to_bytes());
        }
        Err(FetchError::Redirections)
    }

    async fn ask(&self, place: &Uri) -> Result<Response<Incoming>, FetchError> {
        let failed = |error: &dyn std::fmt::Display| FetchError::Request(error.to_string());
        let trusted = is_within(&self.uri, place);
        // A tunnel is asked for by the connection itself.
        let proxy = way::proxy(&self.parts.proxies, place).map_err(|error| failed(&error))?;
        let forwards =
            |proxy: &&Proxy| proxy.scheme == ProxyScheme::Http && place.scheme_str() == Some("http");
        let shown = proxy.filter(forwards).and_then(Proxy::authorization);
        let mut request = Request::get(place.clone());
        if let Some(headers) = request.headers_mut() {
            for (name, value) in &self.headers {
                if trusted || !CONFIDENTIAL.contains(name) {
                    headers.append(name, value.clone());
                }
            }
        }
        if let Some(shown) = shown {
            request = request.header(PROXY_AUTHORIZATION, shown);
        }
        let request = request.body(Empty::new()).map_err(|error| failed(&error))?;
        self.client.request(request).await.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|source| format!(": {source}"));
            FetchError::Request(format!("{error}{}", cause.unwrap_or_default()))
        })
    }

    fn read(&mut self, body: Bytes) -> Result<Option<Snapshot>, FetchError> {
        if self.last_body.as_ref() == Some(&body) {
            return Ok(None);
        }
        let reading = if body.iter().all(u8::is_ascii_whitespace) {
            Reading::default()
        } else {
            let place = Place::Url(&self.parts.url);
            self.parts.reader.read(&body, place).map_err(FetchError::Manifest)?
        };
        let forbidden = reading.forbidden_changes(&self.last_objects);
        if !forbidden.is_empty() {
            return Err(FetchError::Manifest(forbidden));
        }
        // Objects first, so that the pods find them.
        self.parts.objects.set(PodSource::Http, reading.objects.clone());
        self.last_objects = reading.objects;
        let pods = reading.pods;
        // Only a body that could be used is remembered: a bad one is reported each time.
        self.last_body = Some(body);
        Ok(Some(Snapshot { source: PodSource::Http, kind: SnapshotKind::Set, pods }))
    }
}

/// Where an answer sends us.
fn redirection<T>(from: &Uri, response: &Response<T>) -> Option<Uri> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    resolved(from, response.headers().get(LOCATION)?.to_str().ok()?)
}

/// A place as seen from another one.
fn resolved(from: &Uri, to: &str) -> Option<Uri> {
    let (scheme, authority) = (from.scheme_str()?, from.authority()?.as_str());
    let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole = if to.contains("://") {
        to.to_owned()
    } else if let Some(elsewhere) = to.strip_prefix("//") {
        format!("{scheme}://{elsewhere}")
    } else if to.starts_with('/') {
        format!("{scheme}://{authority}{to}")
    } else if to.starts_with('?') {
        format!("{scheme}://{authority}{}{to}", from.path())
    } else {
        format!("{scheme}://{authority}{folder}/{to}")
    };
    whole.parse().ok()
}

/// Whether a place is on the same host as another, or on one below its name.
fn is_within(first: &Uri, place: &Uri) -> bool {
    match (first.host(), place.host()) {
        (Some(first), Some(host)) => {
            host.eq_ignore_ascii_case(first)
                || host.to_ascii_lowercase().ends_with(&format!(".{}", first.to_ascii_lowercase()))
        }
        (Some(_) | None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_resolved() {
        let from: Uri = "https://a.example:8443/pods/all?x=1".parse().unwrap();
        for (to, expected) in [
            ("http://b.example/c", "http://b.example/c"),
            ("//b.example/c", "https://b.example/c"),
            ("/c?d", "https://a.example:8443/c?d"),
            ("c", "https://a.example:8443/pods/c"),
            ("?y=2", "https://a.example:8443/pods/all?y=2"),
        ] {
            assert_eq!(resolved(&from, to).unwrap(), expected, "{to}");
        }
        let answer = |code: u16| Response::builder().status(code).header(LOCATION, "/c").body(()).unwrap();
        assert!([301, 302, 303, 307, 308].iter().all(|code| redirection(&from, &answer(*code)).is_some()));
        assert!([200, 300, 304, 404].iter().all(|code| redirection(&from, &answer(*code)).is_none()));
        let within = |place: &str| is_within(&from, &place.parse().unwrap());
        assert!(within("http://A.example/") && within("https://x.a.example/"));
        assert!(!within("https://nota.example/") && !within("https://example/"));
    }
}
