//! Requests service account tokens.

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1 as authentication;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use model::{IssuedToken, Timestamp, TokenRequest};
use ports::api::tokens::ApiTokens;
use ports::api::{ApiError, ApiErrorKind};

use crate::ApiServerAdapter;
use crate::errors::{failure, with_deadline};

#[async_trait]
impl ApiTokens for ApiServerAdapter {
    async fn create(&self, request: &TokenRequest) -> Result<IssuedToken, ApiError> {
        let api = self.namespaced::<core::ServiceAccount>(&request.namespace);
        let (post, body) = (PostParams::default(), body(request));
        let response = with_deadline(api.create_token_request(&request.account, &post, &body)).await?;
        issued(response).ok_or_else(|| failure(ApiErrorKind::Server, "TokenRequest response has no token"))
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
