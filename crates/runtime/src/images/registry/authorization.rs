//! Answers to challenges.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT, WWW_AUTHENTICATE};
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;

use super::response::{insert, message_of, read_body};
use super::server::{AGENT, Server};
use super::session::Session;
use super::{Challenge, Credentials, RegistryError, choose_challenge, token};

impl Session {
    /// The header that answers the challenge of a response.
    pub(super) async fn authorize(
        &self,
        server: &Server,
        response: &Response<Incoming>,
        url: &str,
    ) -> Result<String, RegistryError> {
        let headers =
            response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        // Mirrors get no credentials of the pull.
        let credentials = self.credentials.as_ref().filter(|_| server.endpoint.is_origin);
        match choose_challenge(headers) {
            Some(Challenge::Bearer(challenge)) => {
                if let Some(Credentials::RegistryToken(token)) = credentials {
                    return Ok(format!("Bearer {token}"));
                }
                if challenge.error == "insufficient_scope" {
                    return Err(self.denied("insufficient_scope"));
                }
                let invalid = |problem| RegistryError::Protocol { url: url.to_owned(), problem };
                let requests = token::requests(&challenge, &self.path, credentials).map_err(invalid)?;
                self.fetch_token(server, requests).await
            }
            Some(Challenge::Basic) => credentials
                .and_then(Credentials::basic)
                .ok_or_else(|| self.denied("the registry asks for a user and a password")),
            None => Err(self.denied("the registry asks for no known kind of credentials")),
        }
    }

    async fn fetch_token(
        &self,
        server: &Server,
        requests: Vec<token::TokenRequest>,
    ) -> Result<String, RegistryError> {
        let mut refused = self.denied("no token server");
        for request in requests {
            let url = request.url.to_string();
            // A registry that is reached by TLS cannot send the password over plain HTTP.
            if request.url.scheme_str() != Some("https") && server.endpoint.base.starts_with("https:") {
                let problem = "the token server is not reached by https".to_owned();
                return Err(RegistryError::Protocol { url, problem });
            }
            let is_form = request.form.is_some();
            let response = server.exchange(token_request(request)?, &url).await?;
            let status = response.status();
            let body = read_body(response, &url).await?;
            if status.is_success() {
                let token = token::read(&body);
                let problem = || "the token server sent no token".to_owned();
                return token
                    .map(|token| format!("Bearer {token}"))
                    .ok_or_else(|| RegistryError::Protocol { url, problem: problem() });
            }
            refused = match status.as_u16() {
                400..=499 => self.denied(&message_of(&body, status)),
                status_code => RegistryError::ServerError {
                    url,
                    status: status_code,
                    message: message_of(&body, status),
                },
            };
            if !is_form || !token::is_unknown_method(status.as_u16()) {
                return Err(refused);
            }
        }
        Err(refused)
    }
}

fn token_request(request: token::TokenRequest) -> Result<Request<Full<Bytes>>, RegistryError> {
    let token::TokenRequest { method, url, form, authorization } = request;
    let mut built = Request::new(Full::from(form.unwrap_or_default()));
    *built.uri_mut() = url;
    insert(built.headers_mut(), USER_AGENT, AGENT);
    if method == Method::POST {
        insert(built.headers_mut(), CONTENT_TYPE, "application/x-www-form-urlencoded");
    }
    *built.method_mut() = method;
    if let Some(authorization) = authorization {
        insert(built.headers_mut(), AUTHORIZATION, &authorization);
    }
    Ok(built)
}
