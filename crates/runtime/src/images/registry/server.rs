//! Requests to one server, with redirects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::Mutex;

use super::connector::{HttpClient, client};
use super::response::{insert, text_of};
use super::{Endpoint, RegistryError};

pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_REDIRECTS: usize = 10;
pub(super) const AGENT: &str = concat!("podward/", env!("CARGO_PKG_VERSION"));

#[derive(Debug)]
pub(super) struct Server {
    pub(super) endpoint: Endpoint,
    client: HttpClient,
    /// The header that the server accepted last.
    pub(super) authorization: Mutex<Option<String>>,
    /// The last request got no response; other servers are asked first.
    pub(super) is_unreachable: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capability {
    Resolve,
    Pull,
}

impl Server {
    /// Blocks on the files of certificates.
    pub(super) fn new(endpoint: Endpoint) -> Result<Self, RegistryError> {
        Ok(Self {
            client: client(&endpoint)?,
            endpoint,
            authorization: Mutex::new(None),
            is_unreachable: AtomicBool::new(false),
        })
    }

    pub(super) fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::Resolve => self.endpoint.resolves,
            Capability::Pull => self.endpoint.pulls,
        }
    }

    /// Sends a GET request and follows redirects. Only the host of the first request gets the authorization.
    pub(super) async fn follow(
        &self,
        url: &str,
        headers: &HeaderMap,
        authorization: Option<&str>,
    ) -> Result<Response<Incoming>, RegistryError> {
        let invalid = |problem: String| RegistryError::Protocol { url: url.to_owned(), problem };
        let mut target: Uri = url.parse().map_err(|_| invalid("the address is invalid".to_owned()))?;
        let first = target.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::new(Full::default());
            *request.uri_mut() = target.clone();
            *request.headers_mut() = headers.clone();
            insert(request.headers_mut(), USER_AGENT, AGENT);
            let is_same = target.authority() == first.authority() && target.scheme() == first.scheme();
            if is_same {
                for (name, value) in &self.endpoint.headers {
                    if let Ok(name) = name.parse::<HeaderName>() {
                        insert(request.headers_mut(), name, value);
                    }
                }
                if let Some(authorization) = authorization {
                    insert(request.headers_mut(), AUTHORIZATION, authorization);
                }
            }
            let response = self.exchange(request, url).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = text_of(response.headers(), LOCATION);
            target = redirected(&target, &location)
                .ok_or_else(|| invalid(format!("redirect to {location:?} is not allowed")))?;
        }
        Err(invalid("too many redirects".to_owned()))
    }

    pub(super) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        url: &str,
    ) -> Result<Response<Incoming>, RegistryError> {
        let response = tokio::time::timeout(RESPONSE_TIMEOUT, self.client.request(request)).await;
        self.is_unreachable.store(!matches!(response, Ok(Ok(_))), Ordering::Relaxed);
        match response {
            Ok(response) => response
                .map_err(|error| RegistryError::Unreachable { url: url.to_owned(), source: error.into() }),
            Err(_) => {
                Err(RegistryError::Stalled { url: url.to_owned(), seconds: RESPONSE_TIMEOUT.as_secs() })
            }
        }
    }
}

/// The target of a redirect; never from TLS to plain HTTP.
fn redirected(from: &Uri, location: &str) -> Option<Uri> {
    let target: Uri = if location.starts_with('/') && !location.starts_with("//") {
        format!("{}://{}{location}", from.scheme_str()?, from.authority()?).parse().ok()?
    } else {
        location.parse().ok()?
    };
    match (from.scheme_str()?, target.scheme_str()?) {
        (_, "https") | ("http", "http") => Some(target),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_never_leaves_tls() {
        let check = |from: &str, location: &str, expected: Option<&str>| {
            let target = redirected(&from.parse().unwrap(), location).map(|target| target.to_string());
            assert_eq!(target.as_deref(), expected, "{location}");
        };
        check("https://a/v2", "https://cdn/x?y", Some("https://cdn/x?y"));
        check("https://a/v2", "http://a/x", None);
        check("http://a/v2", "http://a/x", Some("http://a/x"));
        check("https://a:1/v2", "/blobs/x", Some("https://a:1/blobs/x"));
        check("https://a/v2", "file:///etc/passwd", None);
        check("https://a/v2", "", None);
    }
}
