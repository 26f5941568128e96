//! Pods from a URL, polled.
//!
//! An unchanged body is ignored, an empty one means no pods. The first failures in a row are logged as warnings, later
//! ones only for debugging; the last valid pods stay desired.

mod connector;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE, LOCATION, PROXY_AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use manifest::ManifestLocation;
use model::{ConfigObject, PodSource, Snapshot, SnapshotKind};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use values::proxies::{Proxies, Proxy, ProxyScheme};

use super::{ManifestReader, Reading};
use crate::cluster::objects::LocalObjects;
use crate::pipeline::source_report::SourceReports;
use connector::ProxyConnector;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;
const MAX_REDIRECTS: usize = 10;
/// Sent only to the configured host and its subdomains.
const SENSITIVE_HEADERS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, WWW_AUTHENTICATE];
/// Failures in a row that are logged as warnings.
const MAX_WARNINGS: u32 = 3;

#[derive(Debug, thiserror::Error)]
pub enum HttpSourceError {
    #[error("staticPodURL {url:?} is not a URL")]
    Url { url: String, source: http::uri::InvalidUri },
    #[error("staticPodURLHeader {name:?} is not a valid header")]
    Header {
        /// Without the value, which may be secret.
        name: String,
    },
    #[error("failed to read the machine's root certificates")]
    Certificates(#[source] std::io::Error),
}

pub struct HttpSourceDeps {
    /// `staticPodURL`.
    pub url: String,
    /// `staticPodURLHeader`.
    pub headers: BTreeMap<String, Vec<String>>,
    /// `httpCheckFrequency`.
    pub check_frequency: Duration,
    pub proxies: Proxies,
    pub reader: ManifestReader,
    pub snapshots: mpsc::Sender<Snapshot>,
    pub objects: Arc<LocalObjects>,
    pub report: Arc<SourceReports>,
}

pub struct HttpSource {
    deps: HttpSourceDeps,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    client: Client<HttpsConnector<ProxyConnector>, Empty<Bytes>>,
    last_body: Option<Bytes>,
    last_objects: Vec<Arc<ConfigObject>>,
    pod_count: usize,
    failures: u32,
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("no answer within {REQUEST_TIMEOUT:?}")]
    Timeout,
    #[error("request failed: {0}")]
    Request(String),
    #[error("answered {0}")]
    Status(StatusCode),
    #[error("stopped after {MAX_REDIRECTS} redirects")]
    TooManyRedirects,
    #[error("body cannot be read or is larger than 10 MiB: {0}")]
    Body(String),
    #[error("{}", .0.join("; "))]
    Manifest(Vec<String>),
}

impl HttpSource {
    /// # Errors
    /// When the URL or a header is invalid, or the machine's root certificates cannot be read.
    pub fn new(deps: HttpSourceDeps) -> Result<Self, HttpSourceError> {
        let uri: Uri =
            deps.url.parse().map_err(|source| HttpSourceError::Url { url: deps.url.clone(), source })?;
        let mut headers = Vec::new();
        for (name, values) in &deps.headers {
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
            .wrap_connector(ProxyConnector::new(deps.proxies.clone()));
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(tls);
        Ok(Self {
            deps,
            uri,
            headers,
            client,
            last_body: None,
            last_objects: Vec::new(),
            pod_count: 0,
            failures: 0,
        })
    }

    /// Polls until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let polling = async {
            while self.poll().await {
                tokio::time::sleep(self.deps.check_frequency).await;
            }
        };
        cancel.run_until_cancelled(polling).await;
    }

    /// Polls once; returns false when the receiver of snapshots has ended.
    async fn poll(&mut self) -> bool {
        let result = match tokio::time::timeout(REQUEST_TIMEOUT, self.fetch()).await {
            Ok(Ok(body)) => self.read(body),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(FetchError::Timeout),
        };
        match result {
            Ok(changed) => {
                self.failures = 0;
                self.pod_count = changed.as_ref().map_or(self.pod_count, |snapshot| snapshot.pods.len());
                self.deps.report.record_success(PodSource::Http, self.pod_count);
                match changed {
                    Some(snapshot) => self.deps.snapshots.send(snapshot).await.is_ok(),
                    None => true,
                }
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.deps.report.record_failure(PodSource::Http, error.to_string());
                if self.failures <= MAX_WARNINGS {
                    tracing::warn!(url = %self.deps.url, %error, "failed to read pods from the URL, keeping the last ones");
                } else {
                    tracing::debug!(url = %self.deps.url, %error, failures = self.failures, "failed to read pods from the URL");
                }
                true
            }
        }
    }

    async fn fetch(&self) -> Result<Bytes, FetchError> {
        let mut uri = self.uri.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.request(&uri).await?;
            if let Some(next) = redirect_target(&uri, &response) {
                uri = next;
                continue;
            }
            if !response.status().is_success() {
                return Err(FetchError::Status(response.status()));
            }
            let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
            return Ok(body.map_err(|error| FetchError::Body(error.to_string()))?.to_bytes());
        }
        Err(FetchError::TooManyRedirects)
    }

    async fn request(&self, uri: &Uri) -> Result<Response<Incoming>, FetchError> {
        let failed = |error: &dyn std::fmt::Display| FetchError::Request(error.to_string());
        let trusted = is_same_or_subdomain(&self.uri, uri);
        // For a tunnel the connector sends the authorization.
        let proxy = connector::proxy_for(&self.deps.proxies, uri).map_err(|error| failed(&error))?;
        let forwards = |proxy: &&Proxy| proxy.scheme == ProxyScheme::Http && uri.scheme_str() == Some("http");
        let proxy_authorization = proxy.filter(forwards).and_then(Proxy::authorization);
        let mut request = Request::get(uri.clone());
        if let Some(headers) = request.headers_mut() {
            for (name, value) in &self.headers {
                if trusted || !SENSITIVE_HEADERS.contains(name) {
                    headers.append(name, value.clone());
                }
            }
        }
        if let Some(value) = proxy_authorization {
            request = request.header(PROXY_AUTHORIZATION, value);
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
            let location = ManifestLocation::Url(&self.deps.url);
            self.deps.reader.read(&body, location).map_err(FetchError::Manifest)?
        };
        let forbidden = reading.forbidden_changes(&self.last_objects);
        if !forbidden.is_empty() {
            return Err(FetchError::Manifest(forbidden));
        }
        // Objects first, so that the pods find them.
        self.deps.objects.set(PodSource::Http, reading.objects.clone());
        self.last_objects = reading.objects;
        let pods = reading.pods;
        // Only a valid body is stored: an invalid one is reported at every poll.
        self.last_body = Some(body);
        Ok(Some(Snapshot { source: PodSource::Http, kind: SnapshotKind::Set, pods }))
    }
}

/// The target of a redirect response.
fn redirect_target<T>(from: &Uri, response: &Response<T>) -> Option<Uri> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    resolve_reference(from, response.headers().get(LOCATION)?.to_str().ok()?)
}

/// Resolves a URI reference against a base URI.
fn resolve_reference(from: &Uri, to: &str) -> Option<Uri> {
    let (scheme, authority) = (from.scheme_str()?, from.authority()?.as_str());
    let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    let absolute = if to.contains("://") {
        to.to_owned()
    } else if let Some(rest) = to.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if to.starts_with('/') {
        format!("{scheme}://{authority}{to}")
    } else if to.starts_with('?') {
        format!("{scheme}://{authority}{}{to}", from.path())
    } else {
        format!("{scheme}://{authority}{folder}/{to}")
    };
    absolute.parse().ok()
}

/// Whether a URI has the same host as `first`, or a subdomain of it.
fn is_same_or_subdomain(first: &Uri, uri: &Uri) -> bool {
    match (first.host(), uri.host()) {
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
    fn resolves_redirects_and_recognizes_subdomains() {
        let from: Uri = "https://a.example:8443/pods/all?x=1".parse().unwrap();
        for (to, expected) in [
            ("http://b.example/c", "http://b.example/c"),
            ("//b.example/c", "https://b.example/c"),
            ("/c?d", "https://a.example:8443/c?d"),
            ("c", "https://a.example:8443/pods/c"),
            ("?y=2", "https://a.example:8443/pods/all?y=2"),
        ] {
            assert_eq!(resolve_reference(&from, to).unwrap(), expected, "{to}");
        }
        let answer = |code: u16| Response::builder().status(code).header(LOCATION, "/c").body(()).unwrap();
        assert!(
            [301, 302, 303, 307, 308].iter().all(|code| redirect_target(&from, &answer(*code)).is_some())
        );
        assert!([200, 300, 304, 404].iter().all(|code| redirect_target(&from, &answer(*code)).is_none()));
        let within = |uri: &str| is_same_or_subdomain(&from, &uri.parse().unwrap());
        assert!(within("http://A.example/") && within("https://x.a.example/"));
        assert!(!within("https://nota.example/") && !within("https://example/"));
    }
}
