//! Requests service account tokens.

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1 as authentication;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use model::{IssuedToken, Timestamp, TokenRequest};
use ports::api::tokens::ApiTokens;
use ports::api::{ApiError, ApiErrorKind};

use crate::Clients;
use crate::deadline::with_deadline;

/// Implements [`ApiTokens`].
pub struct TokensAdapter {
    client: Client,
}

impl TokensAdapter {
    #[must_use]
    pub fn new(clients: &Clients) -> Self {
        Self { client: clients.main.clone() }
    }
}

#[async_trait]
impl ApiTokens for TokensAdapter {
    async fn create(&self, request: &TokenRequest) -> Result<IssuedToken, ApiError> {
        let api: Api<core::ServiceAccount> = Api::namespaced(self.client.clone(), &request.namespace);
        let body = body(request);
        let post = PostParams::default();
        let response = with_deadline(api.create_token_request(&request.account, &post, &body)).await?;
        issued(response).ok_or_else(|| ApiError {
            kind: ApiErrorKind::Server,
            message: "TokenRequest response has no token".to_owned(),
            retry_after: None,
        })
    }
}

fn issued(response: authentication::TokenRequest) -> Option<IssuedToken> {
    let status = response.status?;
    Some(IssuedToken {
        token: status.token.filter(|token| !token.is_empty())?,
        expires_at: Timestamp::from_api_time(&status.expiration_timestamp?),
        // The server may choose a different duration than requested.
        expiration_seconds: response.spec?.expiration_seconds?,
    })
}

fn body(request: &TokenRequest) -> authentication::TokenRequest {
    authentication::TokenRequest {
        metadata: ObjectMeta { uid: request.account_uid.clone(), ..ObjectMeta::default() },
        spec: Some(authentication::TokenRequestSpec {
            audiences: Some(request.wish.audiences.clone()),
            expiration_seconds: request.wish.expiration_seconds,
            bound_object_ref: Some(authentication::BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(request.pod_name.clone()),
                uid: Some(request.pod_uid.to_string()),
            }),
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use model::TokenSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_token_bound_to_pod() {
        let request = TokenRequest {
            namespace: "ns".into(),
            account: "default".into(),
            account_uid: None,
            pod_name: "p".into(),
            pod_uid: "u".into(),
            wish: TokenSpec { audiences: vec!["vault".into()], expiration_seconds: Some(3607) },
        };
        let spec = serde_json::to_value(body(&request).spec.unwrap()).unwrap();
        let expected = json!({
            "audiences": ["vault"],
            "expirationSeconds": 3607,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
        });
        assert_eq!(spec, expected);
    }
}
