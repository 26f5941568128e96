//! Service account tokens of projected volumes: requests, file owner, renewal.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ServiceAccountTokenProjection, Volume};
use model::{IssuedToken, Pod, Timestamp, TokenRequest, TokenSpec};
use timing::up_to;

/// A token is renewed at this age at the latest.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// Tokens are renewed earlier by a random part of this, so that not all are renewed at once.
const MAX_JITTER: Duration = Duration::from_secs(10);

pub fn token_spec(source: &ServiceAccountTokenProjection) -> TokenSpec {
    let audience = source.audience.clone().filter(|audience| !audience.is_empty());
    TokenSpec { audiences: audience.into_iter().collect(), expiration_seconds: source.expiration_seconds }
}

/// All tokens that the volumes request.
pub fn token_specs<'a>(volumes: impl IntoIterator<Item = &'a Volume>) -> BTreeSet<TokenSpec> {
    let projected = volumes.into_iter().filter_map(|volume| volume.projected.as_ref());
    let sources = projected.flat_map(|projected| projected.sources.iter().flatten());
    sources.filter_map(|source| source.service_account_token.as_ref()).map(token_spec).collect()
}

pub fn token_request(pod: &Pod, wish: TokenSpec) -> TokenRequest {
    TokenRequest {
        namespace: pod.namespace().to_owned(),
        account: pod.spec.service_account_name.clone().unwrap_or_default(),
        account_uid: None,
        pod_name: pod.name().to_owned(),
        pod_uid: pod.uid.clone(),
        wish,
    }
}

/// When a token is renewed: after four fifths of its lifetime, and after a day at the latest. `random` is between 0 and 1.
pub fn renew_at(token: &IssuedToken, random: f64) -> Timestamp {
    let lifetime = Duration::from_secs(u64::try_from(token.expiration_seconds).unwrap_or(0));
    let issued_at = token.expires_at.as_nanos().saturating_sub(nanos(lifetime));
    let used = (lifetime - lifetime / 5).min(MAX_AGE).saturating_sub(up_to(MAX_JITTER, random));
    Timestamp::from_nanos(issued_at.saturating_add(nanos(used)))
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The user that all containers run as, who owns the token files; `None` if they differ or one has no user.
pub fn token_owner(pod: &Pod) -> Option<u32> {
    let of_pod = pod.spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let mut users = pod.containers().chain(pod.ephemeral_containers()).map(|entry| {
        let own = entry.container.security_context.as_ref();
        own.and_then(|own| own.run_as_user).or(of_pod)
    });
    let first = users.next()??;
    let all_same = users.all(|user| user == Some(first));
    all_same.then(|| u32::try_from(first).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_objects::pod;

    #[test]
    fn renews_tokens_after_four_fifths_or_a_day() {
        let cases = [
            // lifetime, jitter, seconds after the issue
            (3600, 0.0, 2880),
            (3600, 1.0, 2870),
            (600, 0.5, 475),
            (365 * 24 * 3600, 0.0, 24 * 3600),
            (0, 0.0, 0),
        ];
        for (lifetime, jitter, expected) in cases {
            let issued = 1_000_000;
            let token = IssuedToken {
                token: String::new(),
                expires_at: Timestamp::from_secs(issued + lifetime),
                expiration_seconds: lifetime,
            };
            assert_eq!(
                renew_at(&token, jitter),
                Timestamp::from_secs(issued + expected),
                "{lifetime} {jitter}"
            );
        }
    }

    #[test]
    fn token_owner_is_the_user_of_all_containers() {
        let cases = [
            (json!({"containers": [{"name": "a"}]}), None),
            (json!({"containers": [{"name": "a", "securityContext": {"runAsUser": 5}}]}), Some(5)),
            (
                json!({
                    "securityContext": {"runAsUser": 7},
                    "initContainers": [{"name": "i"}],
                    "containers": [{"name": "a", "securityContext": {"runAsUser": 7}}],
                }),
                Some(7),
            ),
            (
                json!({
                    "securityContext": {"runAsUser": 7},
                    "containers": [{"name": "a"}, {"name": "b", "securityContext": {"runAsUser": 8}}],
                }),
                None,
            ),
            (
                json!({"containers": [{"name": "a", "securityContext": {"runAsUser": 5}}, {"name": "b"}]}),
                None,
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(token_owner(&pod(spec.clone())), expected, "{spec}");
        }
    }

    #[test]
    fn token_specs_have_audience_and_expiration() {
        let pod = pod(json!({"containers": [], "volumes": [
            {"name": "a", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                {"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 600}},
            ]}},
            {"name": "b", "emptyDir": {}},
        ]}));
        let wishes = token_specs(pod.spec.volumes.iter().flatten());
        let expected = [
            TokenSpec { audiences: vec![], expiration_seconds: Some(3607) },
            TokenSpec { audiences: vec!["vault".into()], expiration_seconds: Some(600) },
        ];
        assert_eq!(wishes, expected.into());
    }
}
