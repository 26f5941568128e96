//! The Node's heartbeat lease.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use model::Timestamp;

use super::owner::node_owner;

const NAMESPACE: &str = "kube-node-lease";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Name of the node and holder of the lease.
    pub node: String,
    /// `nodeLeaseDurationSeconds`.
    pub duration_seconds: i32,
}

pub fn first_lease(settings: &LeaseSettings, node_uid: &str, now: Timestamp) -> Lease {
    let bare = Lease {
        metadata: ObjectMeta {
            name: Some(settings.node.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec { holder_identity: Some(settings.node.clone()), ..LeaseSpec::default() }),
    };
    renewed(&bare, settings, Some(node_uid), now)
}

/// The lease renewed at `now`, owned by the Node if its UID is known, so that both are deleted together.
pub fn renewed(lease: &Lease, settings: &LeaseSettings, node_uid: Option<&str>, now: Timestamp) -> Lease {
    let mut lease = lease.clone();
    let spec = lease.spec.get_or_insert_default();
    spec.renew_time = Some(micro_time(now));
    // The lease may have been created with another configuration.
    spec.lease_duration_seconds = Some(settings.duration_seconds);
    let owners = lease.metadata.owner_references.get_or_insert_default();
    if let (true, Some(uid)) = (owners.is_empty(), node_uid) {
        owners.push(node_owner(&settings.node, uid));
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
    fn lease_has_node_as_holder_and_owner() {
        let settings = LeaseSettings { node: "n".into(), duration_seconds: 40 };
        let lease = first_lease(&settings, "u-1", Timestamp::from_nanos(5_000_001_500));
        let spec = lease.spec.as_ref().unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("n"), Some(40)));
        assert_eq!(serde_json::json!(spec.renew_time), "1970-01-01T00:00:05.000001Z");
        assert_eq!(lease.metadata.owner_references.as_ref().unwrap()[0].uid, "u-1");
        assert_eq!(lease.metadata.namespace.as_deref(), Some("kube-node-lease"));
        // The owner stays as it is, the duration follows the configuration.
        let settings = LeaseSettings { duration_seconds: 20, ..settings };
        let later = renewed(&lease, &settings, Some("u-2"), Timestamp::from_secs(6));
        assert_eq!(later.metadata, lease.metadata);
        let spec = later.spec.unwrap();
        assert_eq!(serde_json::json!(spec.renew_time), "1970-01-01T00:00:06.000000Z");
        assert_eq!(spec.lease_duration_seconds, Some(20));
    }

    #[test]
    fn adds_owner_once_node_uid_is_known() {
        let settings = LeaseSettings { node: "n".into(), duration_seconds: 40 };
        let owners =
            |uid| renewed(&Lease::default(), &settings, uid, Timestamp::ZERO).metadata.owner_references;
        assert_eq!(owners(None).unwrap().len(), 0);
        assert_eq!(owners(Some("u")).unwrap().len(), 1);
    }
}
