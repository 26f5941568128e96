//! Requests for the content of one repository.

use std::path::Path;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RANGE};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::attempts::Attempts;
use super::response::{insert, message_of, read_body, text_of};
use super::server::{Capability, Server};
use super::{Credentials, RegistryError, endpoints};
use crate::images::digest::Digest;
use crate::images::manifest::ACCEPTED;

const MAX_ERROR_BODY: usize = 64 * 1024;

/// Fetches the content of one repository.
#[derive(Debug)]
pub(crate) struct Session {
    /// The reference that is pulled, for error messages.
    image: String,
    /// Path of the repository without the registry.
    pub(super) path: String,
    registry: String,
    servers: Vec<Server>,
    pub(super) credentials: Option<Credentials>,
}

/// A manifest or index as the registry sent it.
#[derive(Clone, Debug)]
pub(crate) struct FetchedDocument {
    pub(crate) content: Bytes,
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
}

impl Session {
    /// Reads the configuration of mirrors below `hosts_folder` and the certificates. Blocks on the disk.
    pub(crate) fn open(
        image: &str,
        repository: &str,
        hosts_folder: Option<&Path>,
        auth: Option<&cri::v1::AuthConfig>,
    ) -> Result<Self, RegistryError> {
        let (registry, path) = repository.split_once('/').unwrap_or(("", repository));
        let credentials = auth.map(|auth| Credentials::from_request(auth, registry)).transpose()?.flatten();
        let mut servers = Vec::new();
        for endpoint in endpoints(hosts_folder, registry)? {
            servers.push(Server::new(endpoint)?);
        }
        Ok(Self {
            image: image.to_owned(),
            path: path.to_owned(),
            registry: registry.to_owned(),
            servers,
            credentials,
        })
    }

    /// Fetches a manifest or index by tag or digest, and verifies the digest.
    pub(crate) async fn document(
        &self,
        version: &str,
        expected: Option<&Digest>,
    ) -> Result<FetchedDocument, RegistryError> {
        let mut attempts =
            self.attempts(if expected.is_some() { Capability::Pull } else { Capability::Resolve });
        loop {
            let server = attempts.next().await?;
            match self.document_of(server, version, expected).await {
                Ok(document) => return Ok(document),
                Err(error) => attempts.failed(error),
            }
        }
    }

    /// Opens the content of a blob from `offset` on. The second value is the offset at which the response begins.
    pub(crate) async fn blob(
        &self,
        digest: &Digest,
        offset: u64,
    ) -> Result<(Response<Incoming>, u64), RegistryError> {
        let mut attempts = self.attempts(Capability::Pull);
        loop {
            let server = attempts.next().await?;
            match self.blob_of(server, digest, offset).await {
                Ok(response) => return Ok(response),
                Err(error) => attempts.failed(error),
            }
        }
    }

    fn attempts(&self, capability: Capability) -> Attempts<'_> {
        let mut servers: Vec<_> = self.servers.iter().filter(|server| server.has(capability)).collect();
        servers.sort_by_key(|server| server.is_unreachable.load(Ordering::Relaxed));
        Attempts::new(servers, &self.image)
    }

    async fn document_of(
        &self,
        server: &Server,
        version: &str,
        expected: Option<&Digest>,
    ) -> Result<FetchedDocument, RegistryError> {
        let url = self.url(server, &format!("manifests/{version}"));
        let mut headers = HeaderMap::new();
        insert(&mut headers, ACCEPT, &format!("{}, */*", ACCEPTED.join(", ")));
        let response = self.send(server, &url, &headers).await?;
        let media_type = text_of(response.headers(), CONTENT_TYPE);
        let stated = text_of(response.headers(), HeaderName::from_static("docker-content-digest"));
        let stated = stated.parse::<Digest>().ok();
        let content = read_body(response, &url).await?;
        let digest = Digest::of(&content);
        if let Some(wanted) = expected.or(stated.as_ref()).filter(|wanted| **wanted != digest) {
            let problem = format!("manifest has the digest {digest} instead of {wanted}");
            return Err(RegistryError::Protocol { url, problem });
        }
        let media_type = media_type.split(';').next().unwrap_or_default().trim().to_owned();
        Ok(FetchedDocument { content, media_type, digest })
    }

    async fn blob_of(
        &self,
        server: &Server,
        digest: &Digest,
        offset: u64,
    ) -> Result<(Response<Incoming>, u64), RegistryError> {
        let url = self.url(server, &format!("blobs/{digest}"));
        let mut headers = HeaderMap::new();
        if offset > 0 {
            insert(&mut headers, RANGE, &format!("bytes={offset}-"));
        }
        let response = self.send(server, &url, &headers).await?;
        let begins = if response.status() == StatusCode::PARTIAL_CONTENT { offset } else { 0 };
        if begins > 0 && !continues(response.headers(), offset) {
            let problem = "the response begins at another offset than requested".to_owned();
            return Err(RegistryError::Protocol { url, problem });
        }
        Ok((response, begins))
    }

    fn url(&self, server: &Server, rest: &str) -> String {
        let base = format!("{}/{}/{rest}", server.endpoint.base, self.path);
        if server.endpoint.is_origin { base } else { format!("{base}?ns={}", self.registry) }
    }

    /// Sends a GET request, and answers one challenge; a token that expired is replaced once.
    async fn send(
        &self,
        server: &Server,
        url: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Incoming>, RegistryError> {
        const MAX_CHALLENGES: u32 = 2;
        for _ in 0..MAX_CHALLENGES {
            let authorization = server.authorization.lock().clone();
            let response = server.follow(url, headers, authorization.as_deref()).await?;
            if response.status() != StatusCode::UNAUTHORIZED {
                return self.checked(response, url).await;
            }
            let authorization = self.authorize(server, &response, url).await?;
            *server.authorization.lock() = Some(authorization);
        }
        let authorization = server.authorization.lock().clone();
        let response = server.follow(url, headers, authorization.as_deref()).await?;
        self.checked(response, url).await
    }

    async fn checked(
        &self,
        response: Response<Incoming>,
        url: &str,
    ) -> Result<Response<Incoming>, RegistryError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = Limited::new(response.into_body(), MAX_ERROR_BODY).collect().await;
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let message = message_of(&body, status);
        let (url, status) = (url.to_owned(), status.as_u16());
        Err(match status {
            404 => RegistryError::NotFound { image: self.image.clone() },
            401 | 403 => self.denied(&message),
            500..=599 => RegistryError::ServerError { url, status, message },
            _ => RegistryError::Status { url, status, message },
        })
    }

    pub(super) fn denied(&self, message: &str) -> RegistryError {
        RegistryError::Denied { image: self.image.clone(), message: message.to_owned() }
    }
}

fn continues(headers: &HeaderMap, offset: u64) -> bool {
    let range = headers.get("content-range").and_then(|value| value.to_str().ok()).unwrap_or_default();
    range.strip_prefix("bytes ").is_some_and(|range| range.starts_with(&format!("{offset}-")))
}
