//! Authentication and authorization of all requests to the main port.
//!
//! Comes in: a request with its connection's [`Peer`]. Goes out: the request with its [`User`], or 401, 403 or 500 with
//! upstream's text.
//!
//! Invariant: a request is neither read nor routed before it has passed.

mod authentication;
mod authorization;
mod review_cache;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use decide::http::request_attributes::{RequestAttributes, StreamingVerb, request_attributes};
use model::User;

use crate::peer::Peer;
pub use authentication::{Authentication, TokenChecks};
pub use authorization::{AccessChecks, Authorization};

#[derive(Clone)]
pub struct Access {
    pub authentication: Arc<Authentication>,
    pub authorization: Arc<Authorization>,
    /// The verb that streaming requests are authorized with.
    pub streaming: StreamingVerb,
}

/// Passes a request on, or rejects it.
pub(crate) async fn guard(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    let user = match access.authentication.user(&peer, request.headers_mut()).await {
        Ok(user) => user,
        Err(reason) => {
            tracing::debug!(%reason, "failed to authenticate request");
            return (StatusCode::UNAUTHORIZED, "Unauthorized").into_response();
        }
    };
    peer.mark_authenticated();
    let attributes = request_attributes(request.method().as_str(), request.uri().path(), access.streaming);
    match access.authorization.allows(&user, attributes).await {
        Ok(true) => {}
        Ok(false) => {
            let text = format!("Forbidden ({})", describe(&user, attributes));
            tracing::debug!("{text}");
            return (StatusCode::FORBIDDEN, format!("{text}\n")).into_response();
        }
        Err((subresource, error)) => {
            let description = format!(
                "user={}, verb={}, resource=nodes, subresource={subresource}",
                user.name, attributes.verb
            );
            tracing::warn!(%error, "failed to authorize request with the API server ({description})");
            let text = format!("Authorization error ({description})");
            return (StatusCode::INTERNAL_SERVER_ERROR, text).into_response();
        }
    }
    request.extensions_mut().insert(user);
    next.run(request).await
}

fn describe(user: &User, attributes: RequestAttributes) -> String {
    format!(
        "user={}, verb={}, resource=nodes, subresource(s)=[{}]",
        user.name,
        attributes.verb,
        attributes.subresources.join(" ")
    )
}

#[cfg(test)]
mod tests;
