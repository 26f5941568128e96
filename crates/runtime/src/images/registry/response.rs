//! Headers and bodies of responses; bodies are bounded.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::RegistryError;
use super::server::RESPONSE_TIMEOUT;
use crate::images::manifest::MAX_DOCUMENT_SIZE;

pub(super) async fn read_body(response: Response<Incoming>, url: &str) -> Result<Bytes, RegistryError> {
    let limit = usize::try_from(MAX_DOCUMENT_SIZE).unwrap_or(usize::MAX);
    let body = Limited::new(response.into_body(), limit).collect();
    match tokio::time::timeout(RESPONSE_TIMEOUT, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let problem = format!("the document is larger than {limit} bytes");
            Err(RegistryError::Protocol { url: url.to_owned(), problem })
        }
        Ok(Err(source)) => Err(RegistryError::Unreachable { url: url.to_owned(), source }),
        Err(_) => Err(RegistryError::Stalled { url: url.to_owned(), seconds: RESPONSE_TIMEOUT.as_secs() }),
    }
}

/// The text of the registry's first error, or the name of the status.
pub(super) fn message_of(body: &[u8], status: StatusCode) -> String {
    const MAX_MESSAGE: usize = 300;
    let document: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = document.as_ref().and_then(|document| {
        let error = document.pointer("/errors/0");
        let text = error.and_then(|error| error.get("message")).or_else(|| document.get("details"));
        text.and_then(serde_json::Value::as_str)
    });
    let message = message.filter(|message| !message.is_empty());
    let message = message.or(status.canonical_reason()).unwrap_or("unknown error");
    message.chars().filter(|character| !character.is_control()).take(MAX_MESSAGE).collect()
}

pub(super) fn text_of(headers: &HeaderMap, name: HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// Values from outside that are no valid header are left out.
pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_the_registry_is_bounded_text() {
        let body = br#"{"errors":[{"code":"DENIED","message":"no\n access"}]}"#;
        assert_eq!(message_of(body, StatusCode::FORBIDDEN), "no access");
        assert_eq!(message_of(b"<html>", StatusCode::FORBIDDEN), "Forbidden");
    }
}
