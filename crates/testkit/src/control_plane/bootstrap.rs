//! Credentials for a node without an identity: a bootstrap token, and permission to request a certificate with it.

use anyhow::Result;
use serde_json::{Value, json};

use super::ControlPlane;

const TOKEN_ID: &str = "podwrd";
const TOKEN_SECRET: &str = "0123456789abcdef";
/// The bootstrap token of every test cluster.
pub(super) const TOKEN: &str = "podwrd.0123456789abcdef";

impl ControlPlane {
    pub(super) async fn grant_bootstrap(&self) -> Result<()> {
        let bindings = [
            ("bootstrap-asks", "system:bootstrappers", "system:node-bootstrapper"),
            (
                "bootstrap-approved",
                "system:bootstrappers",
                "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            ),
            (
                "rotation-approved",
                "system:nodes",
                "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            ),
        ];
        let mut items = vec![token()];
        items.extend(bindings.map(|(name, group, role)| binding(name, group, role)));
        self.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items})).await
    }
}

fn token() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": format!("bootstrap-token-{TOKEN_ID}"), "namespace": "kube-system"},
        "stringData": {
            "token-id": TOKEN_ID,
            "token-secret": TOKEN_SECRET,
            "usage-bootstrap-authentication": "true",
        },
    })
}

fn binding(name: &str, group: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    })
}
