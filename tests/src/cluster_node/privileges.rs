//! Least privilege: finds rejected requests that are the agent's fault.
//!
//! The API server updates a node's permissions from its own watches, in parallel with the node. Two kinds of rejection
//! result from that and are not a fault; every other one is the agent's.
//!
//! 1. The Node authorizer has a graph of pods and the objects that they reference: a node may read a ConfigMap, Secret,
//!    claim, volume, attachment or token once the graph has the edge from the pod. The graph is fed by informers of the
//!    API server, the node by its own watch; the node may be ahead by some milliseconds. The same request is accepted
//!    soon after.
//! 2. After its start the API server serves requests before its authorizers have loaded rules and objects. Any request
//!    may be rejected then.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use testkit::control_plane::AuditedRequest;

/// Resources that a node may read only because a pod references them.
const REFERENCED_BY_PODS: [&str; 7] = [
    "configmaps",
    "secrets",
    "serviceaccounts",
    "persistentvolumeclaims",
    "persistentvolumes",
    "volumeattachments",
    "resourceclaims",
];
/// Maximum lag of the graph behind the node's watch.
const MAX_LAG: Duration = Duration::from_secs(10);
/// How long after its start the API server may reject valid requests.
const STARTUP_TIME: Duration = Duration::from_secs(20);

/// Rejected requests that the agent should not have sent.
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
        time(other).is_some_and(|then| then > at && then.duration_since(at).unsigned_abs() <= MAX_LAG)
    };
    REFERENCED_BY_PODS.contains(&refused.resource.as_str()) && granted.into_iter().any(soon)
}

fn is_start(refused: &AuditedRequest, starts: &[SystemTime]) -> bool {
    let Some(at) = time(refused) else { return false };
    let since = |start: &SystemTime| SystemTime::from(at).duration_since(*start);
    starts.iter().any(|start| since(start).is_ok_and(|passed| passed <= STARTUP_TIME))
}

fn time(request: &AuditedRequest) -> Option<Timestamp> {
    request.received.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audited(second: i64, code: u16, resource: &str, name: &str) -> AuditedRequest {
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
    fn rejection_is_lag_only_if_same_request_succeeds_soon() {
        let refused = audited(0, 403, "secrets", "a");
        assert_eq!(check(&[refused.clone(), audited(1, 200, "secrets", "a")], &[]), 0);
        assert_eq!(check(&[refused.clone(), audited(1, 200, "secrets", "b")], &[]), 1);
        assert_eq!(check(&[refused.clone(), audited(11, 200, "secrets", "a")], &[]), 1);
        assert_eq!(check(&[audited(-1, 200, "secrets", "a"), refused], &[]), 1);
    }

    #[test]
    fn rejection_without_pod_reference_is_never_lag() {
        let requests = [audited(0, 403, "nodes", "n"), audited(1, 200, "nodes", "n")];
        assert_eq!(check(&requests, &[]), 1);
        // Unless the API server has just been started.
        assert_eq!(check(&requests, &[-5]), 0);
        assert_eq!(check(&requests, &[-25, 5]), 1);
    }
}
