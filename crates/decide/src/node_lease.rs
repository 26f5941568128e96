//! The lease by which the control plane sees that the node lives.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use model::Timestamp;

/// Where the leases of nodes lie.
const NAMESPACE: &str = "kube-node-lease";

/// What every lease of the node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseTerms {
    /// The node's name, which is the holder too.
    pub node: String,
    /// `nodeLeaseDurationSeconds`.
    pub duration_seconds: i32,
}

/// A lease for a node that has none.
#[must_use]
pub fn first_lease(terms: &LeaseTerms, node_uid: &str, now: Timestamp) -> Lease {
    let bare = Lease {
        metadata: ObjectMeta {
            name: Some(terms.node.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec { holder_identity: Some(terms.node.clone()), ..LeaseSpec::default() }),
    };
    renewed(&bare, terms, Some(node_uid), now)
}

/// The lease with the time of now. It goes away with its node, as soon as that is known.
#[must_use]
pub fn renewed(lease: &Lease, terms: &LeaseTerms, node_uid: Option<&str>, now: Timestamp) -> Lease {
    let mut lease = lease.clone();
    let spec = lease.spec.get_or_insert_default();
    spec.renew_time = Some(micro_time(now));
    // It may have been made with another configuration.
    spec.lease_duration_seconds = Some(terms.duration_seconds);
    let owners = lease.metadata.owner_references.get_or_insert_default();
    if let (true, Some(uid)) = (owners.is_empty(), node_uid) {
        owners.push(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: terms.node.clone(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        });
    }
    lease
}

fn micro_time(now: Timestamp) -> MicroTime {
    MicroTime(jiff::Timestamp::from_microsecond(now.as_nanos().div_euclid(1000)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_by_its_node_and_owned_by_it() {
        let terms = LeaseTerms { node: "n".into(), duration_seconds: 40 };
        let lease = first_lease(&terms, "u-1", Timestamp::from_nanos(5_000_001_500));
        let spec = lease.spec.as_ref().unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("n"), Some(40)));
        assert_eq!(serde_json::json!(spec.renew_time), "1970-01-01T00:00:05.000001Z");
        assert_eq!(lease.metadata.owner_references.as_ref().unwrap()[0].uid, "u-1");
        assert_eq!(lease.metadata.namespace.as_deref(), Some("kube-node-lease"));
        // The owner stays as it is, the duration follows the configuration.
        let terms = LeaseTerms { duration_seconds: 20, ..terms };
        let later = renewed(&lease, &terms, Some("u-2"), Timestamp::from_secs(6));
        assert_eq!(later.metadata, lease.metadata);
        let spec = later.spec.unwrap();
        assert_eq!(serde_json::json!(spec.renew_time), "1970-01-01T00:00:06.000000Z");
        assert_eq!(spec.lease_duration_seconds, Some(20));
    }

    #[test]
    fn an_owner_is_added_once_it_is_known() {
        let terms = LeaseTerms { node: "n".into(), duration_seconds: 40 };
        let owners = |uid| renewed(&Lease::default(), &terms, uid, Timestamp::ZERO).metadata.owner_references;
        assert_eq!(owners(None).unwrap().len(), 0);
        assert_eq!(owners(Some("u")).unwrap().len(), 1);
    }
}
