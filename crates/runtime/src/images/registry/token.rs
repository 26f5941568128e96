//! Requests of bearer tokens.

use form_urlencoded::Serializer;
use http::{Method, Uri};
use serde::Deserialize;

use super::{BearerChallenge, Credentials};

const CLIENT: &str = "podward";

/// A request to the token server.
#[derive(Debug)]
pub(super) struct TokenRequest {
    pub(super) method: Method,
    pub(super) url: Uri,
    pub(super) form: Option<String>,
    pub(super) authorization: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenResponse {
    token: String,
    access_token: String,
}

/// The requests to try, one after the other: servers without OAuth2 refuse the first.
pub(super) fn requests(
    challenge: &BearerChallenge,
    repository: &str,
    credentials: Option<&Credentials>,
) -> Result<Vec<TokenRequest>, String> {
    let scope = if challenge.scope.is_empty() {
        format!("repository:{repository}:pull")
    } else {
        challenge.scope.clone()
    };
    let mut requests = Vec::new();
    if let Some(form) = credentials.and_then(|credentials| form(challenge, &scope, credentials)) {
        let url = parse(&challenge.realm)?;
        requests.push(TokenRequest { method: Method::POST, url, form: Some(form), authorization: None });
    }
    let query = {
        let mut query = Serializer::new(String::new());
        query.append_pair("service", &challenge.service);
        for scope in scope.split(' ') {
            query.append_pair("scope", scope);
        }
        query.finish()
    };
    let separator = if challenge.realm.contains('?') { '&' } else { '?' };
    requests.push(TokenRequest {
        method: Method::GET,
        url: parse(&format!("{}{separator}{query}", challenge.realm))?,
        form: None,
        authorization: credentials.and_then(Credentials::basic),
    });
    Ok(requests)
}

fn form(challenge: &BearerChallenge, scope: &str, credentials: &Credentials) -> Option<String> {
    let mut form = Serializer::new(String::new());
    match credentials {
        Credentials::Password { user, password } => {
            form.append_pair("grant_type", "password")
                .append_pair("username", user)
                .append_pair("password", password);
        }
        Credentials::IdentityToken(token) => {
            form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", token);
        }
        Credentials::RegistryToken(_) => return None,
    }
    form.append_pair("service", &challenge.service)
        .append_pair("scope", scope)
        .append_pair("client_id", CLIENT)
        .append_pair("access_type", "offline");
    Some(form.finish())
}

fn parse(url: &str) -> Result<Uri, String> {
    url.parse().map_err(|_| format!("invalid address {url:?} of a token server"))
}

/// The token in the body of a response.
pub(super) fn read(body: &[u8]) -> Option<String> {
    let response: TokenResponse = serde_json::from_slice(body).ok()?;
    [response.token, response.access_token].into_iter().find(|token| !token.is_empty())
}

/// Whether a refusal of the first request means that the server has only the second.
pub(super) fn is_unknown_method(status: u16) -> bool {
    matches!(status, 400 | 401 | 404 | 405)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_sent_as_form_and_then_as_basic() {
        let challenge = BearerChallenge {
            realm: "https://auth.example/token?a=b".into(),
            service: "registry".into(),
            ..BearerChallenge::default()
        };
        let credentials = Credentials::Password { user: "ann".into(), password: "a&b".into() };
        let requests = requests(&challenge, "library/app", Some(&credentials)).unwrap();
        let [post, get] = requests.as_slice() else { panic!("two requests") };
        assert!(post.form.as_ref().unwrap().contains("password=a%26b"));
        assert_eq!(
            get.url.to_string(),
            "https://auth.example/token?a=b&service=registry&scope=repository%3Alibrary%2Fapp%3Apull"
        );
        assert!(get.authorization.as_ref().unwrap().starts_with("Basic "));
    }

    #[test]
    fn both_names_of_the_token_are_read() {
        assert_eq!(read(br#"{"access_token":"a"}"#).as_deref(), Some("a"));
        assert_eq!(read(br#"{"token":"t","access_token":"a"}"#).as_deref(), Some("t"));
        assert_eq!(read(b"{}"), None);
    }
}
