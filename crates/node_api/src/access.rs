//! Who asks, and whether they may: in front of every path of the main port.
//!
//! Comes in: a request with what its connection showed ([`Peer`]). Goes out: the request with its [`User`], or 401, 403
//! or 500 in upstream's words.
//!
//! Invariant: nothing of a request is read or routed before it passed.

mod authentication;
mod authorization;
mod verdicts;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use decide::request_attributes::{RequestAttributes, StreamingVerb, request_attributes};
use model::User;

use crate::peer::Peer;
pub use authentication::{Authentication, TokenChecks};
pub use authorization::{AccessChecks, Authorization};

/// The rules of the main port.
#[derive(Clone)]
pub struct Access {
    /// Who asks.
    pub authentication: Arc<Authentication>,
    /// What they may.
    pub authorization: Arc<Authorization>,
    /// How streaming requests count.
    pub streaming: StreamingVerb,
}

/// Lets a request through, or answers it.
pub(crate) async fn guard(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    let user = match access.authentication.user(&peer, request.headers_mut()).await {
        Ok(user) => user,
        Err(reason) => {
            tracing::debug!(%reason, "a request was not authenticated");
            return (StatusCode::UNAUTHORIZED, "Unauthorized").into_response();
        }
    };
    peer.recognised();
    let attributes = request_attributes(request.method().as_str(), request.uri().path(), access.streaming);
    match access.authorization.allows(&user, attributes).await {
        Ok(true) => {}
        Ok(false) => {
            let words = words(&user, attributes);
            tracing::debug!("Forbidden ({words})");
            return (StatusCode::FORBIDDEN, format!("Forbidden ({words})\n")).into_response();
        }
        Err((subresource, error)) => {
            let words = format!(
                "user={}, verb={}, resource=nodes, subresource={subresource}",
                user.name, attributes.verb
            );
            tracing::warn!(%error, "the API server could not be asked whether a request is allowed ({words})");
            let text = format!("Authorization error ({words})");
            return (StatusCode::INTERNAL_SERVER_ERROR, text).into_response();
        }
    }
    request.extensions_mut().insert(user);
    next.run(request).await
}

fn words(user: &User, attributes: RequestAttributes) -> String {
    format!(
        "user={}, verb={}, resource=nodes, subresource(s)=[{}]",
        user.name,
        attributes.verb,
        attributes.subresources.join(" ")
    )
}

#[cfg(test)]
mod tests;
