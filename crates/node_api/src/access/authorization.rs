//! What a user may do.

use std::sync::Arc;
use std::time::Duration;

use decide::request_attributes::RequestAttributes;
use model::{AccessQuestion, User};
use ports::api::ApiError;
use ports::api::access_reviews::ApiAccessReviews;

use super::verdicts::Verdicts;

/// Verdicts that are remembered.
const REMEMBERED: usize = 8192;
/// Users whose names and groups are longer are asked for each time, so that nobody fills the memory.
const LONGEST_REMEMBERED: usize = 10_000;

/// Who decides.
pub enum Authorization {
    /// Nobody may do anything.
    Nobody,
    /// Whoever is authenticated may do everything.
    AlwaysAllow,
    /// The API server.
    Webhook(AccessChecks),
}

/// Questions to the API server.
pub struct AccessChecks {
    reviews: Arc<dyn ApiAccessReviews>,
    node: String,
    allowed_ttl: Duration,
    denied_ttl: Duration,
    verdicts: Verdicts<AccessQuestion, bool>,
}

impl AccessChecks {
    /// Asks about parts of this node; remembers a yes and a no as long as `authorization.webhook` says.
    #[must_use]
    pub fn new(
        reviews: Arc<dyn ApiAccessReviews>,
        node: String,
        allowed_ttl: Duration,
        denied_ttl: Duration,
    ) -> Self {
        Self { reviews, node, allowed_ttl, denied_ttl, verdicts: Verdicts::new(REMEMBERED) }
    }

    async fn allows(&self, question: AccessQuestion) -> Result<bool, ApiError> {
        if size(&question.user) > LONGEST_REMEMBERED {
            return self.reviews.allowed(&question).await;
        }
        let (reviews, asked) = (self.reviews.clone(), Arc::new(question.clone()));
        let ask = move || {
            let (reviews, asked) = (reviews.clone(), asked.clone());
            async move { reviews.allowed(&asked).await }
        };
        let ttl = |allowed: &bool| if *allowed { self.allowed_ttl } else { self.denied_ttl };
        self.verdicts.get(question, ask, ttl).await
    }
}

impl Authorization {
    /// Whether one of the parts of the node is open to the user; an error names the part that was asked for.
    pub(super) async fn allows(
        &self,
        user: &User,
        attributes: RequestAttributes,
    ) -> Result<bool, (&'static str, ApiError)> {
        let checks = match self {
            Self::Nobody => return Ok(false),
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
