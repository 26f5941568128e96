//! Authorizes users for subresources of this node.

use std::sync::Arc;
use std::time::Duration;

use decide::http::request_attributes::RequestAttributes;
use model::{AccessQuestion, User};
use ports::api::ApiError;
use ports::api::access_reviews::ApiAccessReviews;

use super::review_cache::ReviewCache;

const MAX_CACHED_REVIEWS: usize = 8192;
/// In bytes. Reviews of larger users are not cached, so that clients cannot fill the memory.
const MAX_CACHED_USER: usize = 10_000;

pub enum Authorization {
    DenyAll,
    /// Allows every authenticated user everything.
    AlwaysAllow,
    /// Asks the API server.
    Webhook(AccessChecks),
}

pub struct AccessChecks {
    reviews: Arc<dyn ApiAccessReviews>,
    node: String,
    allowed_ttl: Duration,
    denied_ttl: Duration,
    cache: ReviewCache<AccessQuestion, bool>,
}

impl AccessChecks {
    /// The TTLs are those of `authorization.webhook`.
    #[must_use]
    pub fn new(
        reviews: Arc<dyn ApiAccessReviews>,
        node: String,
        allowed_ttl: Duration,
        denied_ttl: Duration,
    ) -> Self {
        Self { reviews, node, allowed_ttl, denied_ttl, cache: ReviewCache::new(MAX_CACHED_REVIEWS) }
    }

    async fn allows(&self, question: AccessQuestion) -> Result<bool, ApiError> {
        if size(&question.user) > MAX_CACHED_USER {
            return self.reviews.allowed(&question).await;
        }
        let (reviews, shared) = (self.reviews.clone(), Arc::new(question.clone()));
        let review = move || {
            let (reviews, question) = (reviews.clone(), shared.clone());
            async move { reviews.allowed(&question).await }
        };
        let ttl = |allowed: &bool| if *allowed { self.allowed_ttl } else { self.denied_ttl };
        self.cache.get(question, review, ttl).await
    }
}

impl Authorization {
    /// Whether the user may access one of the subresources. An error contains the subresource of the failed review.
    pub(super) async fn allows(
        &self,
        user: &User,
        attributes: RequestAttributes,
    ) -> Result<bool, (&'static str, ApiError)> {
        let checks = match self {
            Self::DenyAll => return Ok(false),
            Self::AlwaysAllow => return Ok(true),
            Self::Webhook(checks) => checks,
        };
        for subresource in attributes.subresources {
            let question = AccessQuestion {
                user: user.clone(),
                verb: attributes.verb.to_owned(),
                node: checks.node.clone(),
                subresource: (*subresource).to_owned(),
            };
            if checks.allows(question).await.map_err(|error| (*subresource, error))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn size(user: &User) -> usize {
    let extra = user.extra.iter().map(|(key, values)| key.len() + lengths(values));
    user.name.len() + user.uid.len() + lengths(&user.groups) + extra.sum::<usize>()
}

fn lengths(texts: &[String]) -> usize {
    texts.iter().map(String::len).sum()
}
