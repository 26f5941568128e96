//! Least privilege: which refused requests are the agent's fault.
//!
//! The API server learns what a node may read from the same news as the node, by watches of its own. Two refusals follow
//! from that and are nobody's fault; every other one is the agent's.
//!
//! 1. The Node authorizer keeps a graph of pods and what they name: a node may have a ConfigMap, Secret, claim, volume,
//!    attachment or token once the graph has the edge from the pod. The graph is fed by informers of the API server, the
//!    node by its own watch; the node may be first by some milliseconds. The same question is granted soon after.
//! 2. After its start the API server answers before its authorizers have read their rules and objects. Whatever is
//!    asked for then may be refused.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use testkit::control_plane::AuditedRequest;

/// What a node may have only because a pod names it.
const NAMED_BY_PODS: [&str; 7] = [
    "configmaps",
    "secrets",
    "serviceaccounts",
    "persistentvolumeclaims",
    "persistentvolumes",
    "volumeattachments",
    "resourceclaims",
];
/// How far the graph may be behind the node's watch.
const LAG: Duration = Duration::from_secs(10);
/// How long after its start the API server may refuse what it grants later.
const START: Duration = Duration::from_secs(20);

/// Requests that were refused and should never have been made.
pub(super) fn forbidden<'a>(
    requests: &'a [AuditedRequest],
    starts: &[SystemTime],
) -> Vec<&'a AuditedRequest> {
    let refused = requests.iter().filter(|request| [401, 403].contains(&request.code));
    refused.filter(|one| !is_lag(one, requests) && !is_start(one, starts)).collect()
}

fn is_lag(refused: &AuditedRequest, all: &[AuditedRequest]) -> bool {
    let object = |request: &AuditedRequest| {
        let AuditedRequest { resource, subresource, namespace, name, .. } = request;
        [resource, subresource, namespace, name].map(Clone::clone)
    };
    let Some(at) = time(refused) else { return false };
    let granted = all.iter().filter(|other| other.code < 300 && object(other) == object(refused));
    let soon = |other: &AuditedRequest| {
        time(other).is_some_and(|then| then > at && then.duration_since(at).unsigned_abs() <= LAG)
    };
    NAMED_BY_PODS.contains(&refused.resource.as_str()) && granted.into_iter().any(soon)
}

fn is_start(refused: &AuditedRequest, starts: &[SystemTime]) -> bool {
    let Some(at) = time(refused) else { return false };
    let since = |start: &SystemTime| SystemTime::from(at).duration_since(*start);
    starts.iter().any(|start| since(start).is_ok_and(|passed| passed <= START))
}

fn time(request: &AuditedRequest) -> Option<Timestamp> {
    request.received.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(second: i64, code: u16, resource: &str, name: &str) -> AuditedRequest {
        AuditedRequest {
            code,
            resource: resource.to_owned(),
            name: name.to_owned(),
            received: Timestamp::from_second(1_000 + second).unwrap().to_string(),
            ..AuditedRequest::default()
        }
    }

    fn check(requests: &[AuditedRequest], starts: &[i64]) -> usize {
        let starts: Vec<SystemTime> = starts
            .iter()
            .map(|second| SystemTime::from(Timestamp::from_second(1_000 + second).unwrap()))
            .collect();
        forbidden(requests, &starts).len()
    }

    #[test]
    fn only_what_is_granted_soon_to_the_same_question_is_lag() {
        let refused = asked(0, 403, "secrets", "a");
        assert_eq!(check(&[refused.clone(), asked(1, 200, "secrets", "a")], &[]), 0);
        assert_eq!(check(&[refused.clone(), asked(1, 200, "secrets", "b")], &[]), 1);
        assert_eq!(check(&[refused.clone(), asked(11, 200, "secrets", "a")], &[]), 1);
        assert_eq!(check(&[asked(-1, 200, "secrets", "a"), refused], &[]), 1);
    }

    #[test]
    fn what_needs_no_pod_is_never_lag() {
        let requests = [asked(0, 403, "nodes", "n"), asked(1, 200, "nodes", "n")];
        assert_eq!(check(&requests, &[]), 1);
        // Unless the API server has just been started.
        assert_eq!(check(&requests, &[-5]), 0);
        assert_eq!(check(&requests, &[-25, 5]), 1);
    }
}
