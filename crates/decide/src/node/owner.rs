use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// The Node as the owner of an object: both are deleted together.
pub(crate) fn node_owner(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}
