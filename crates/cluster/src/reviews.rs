//! Token and access reviews for requests to the node.

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use model::{AccessQuestion, User};
use ports::api::access_reviews::ApiAccessReviews;
use ports::api::token_reviews::ApiTokenReviews;
use ports::api::{ApiError, ApiErrorKind};

use crate::ApiServerAdapter;
use crate::errors::{failure, with_deadline};

#[async_trait]
impl ApiTokenReviews for ApiServerAdapter {
    async fn owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.clients.reviews.clone());
        let response = with_deadline(api.create(&PostParams::default(), &review)).await?;
        let status = response.status.ok_or_else(|| incomplete("TokenReview"))?;
        if status.authenticated == Some(true) {
            return Ok(Some(user(status.user.unwrap_or_default())));
        }
        // The server reports an unknown token as an error; for the node it is simply not authenticated.
        tracing::debug!(error = status.error.unwrap_or_default(), "API server did not authenticate a token");
        Ok(None)
    }
}

#[async_trait]
impl ApiAccessReviews for ApiServerAdapter {
    async fn allowed(&self, question: &AccessQuestion) -> Result<bool, ApiError> {
        let api: Api<SubjectAccessReview> = Api::all(self.clients.reviews.clone());
        let response = with_deadline(api.create(&PostParams::default(), &access_review(question))).await?;
        let status = response.status.ok_or_else(|| incomplete("SubjectAccessReview"))?;
        Ok(status.allowed && status.denied != Some(true))
    }
}

fn access_review(question: &AccessQuestion) -> SubjectAccessReview {
    let user = &question.user;
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let attributes = ResourceAttributes {
        group: None,
        version: Some("v1".to_owned()),
        resource: Some("nodes".to_owned()),
        subresource: text(&question.subresource),
        name: text(&question.node),
        verb: text(&question.verb),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: text(&user.name),
        uid: text(&user.uid),
        groups: Some(user.groups.clone()).filter(|groups| !groups.is_empty()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

fn user(info: UserInfo) -> User {
    User {
        name: info.username.unwrap_or_default(),
        uid: info.uid.unwrap_or_default(),
        groups: info.groups.unwrap_or_default(),
        extra: info.extra.unwrap_or_default(),
    }
}

fn incomplete(kind: &str) -> ApiError {
    failure(ApiErrorKind::Server, format!("{kind} response has no status"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn access_review_has_user_and_node_subresource() {
        let question = AccessQuestion {
            user: User {
                name: "jane".to_owned(),
                groups: vec!["dev".to_owned()],
                extra: BTreeMap::from([("scopes".to_owned(), vec!["a".to_owned()])]),
                ..User::default()
            },
            verb: "get".to_owned(),
            node: "node-1".to_owned(),
            subresource: "metrics".to_owned(),
        };
        let expected = json!({
            "user": "jane",
            "groups": ["dev"],
            "extra": {"scopes": ["a"]},
            "resourceAttributes": {
                "verb": "get", "version": "v1", "resource": "nodes", "subresource": "metrics", "name": "node-1",
            },
        });
        assert_eq!(serde_json::to_value(access_review(&question).spec).unwrap(), expected);
    }
}
