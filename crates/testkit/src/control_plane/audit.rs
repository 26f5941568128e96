//! The API server's audit log: requests and their results.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::ControlPlane;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditedRequest {
    /// User name; the impersonated one for an impersonated request.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    pub uri: String,
    /// Plural resource name; empty for non-resource paths.
    pub resource: String,
    /// `status`, `token`, ...; empty if none.
    pub subresource: String,
    /// Empty if none.
    pub namespace: String,
    /// Empty for lists and generated names.
    pub name: String,
    pub code: u16,
    /// Time of the request, RFC 3339 with microseconds.
    pub received: String,
    /// Time of the response, in the same format.
    pub answered: String,
    /// Request body; null except for writes by a node.
    pub body: Value,
}

impl ControlPlane {
    /// All completed requests so far, ordered by response time. A watch counts when its response begins.
    pub fn requests(&self) -> Result<Vec<AuditedRequest>> {
        let log = fs::read_to_string(self.folder().join("audit.log")).context("read the audit log")?;
        // The last line may still be incomplete.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().filter_map(|line| read(line).transpose()).collect()
    }

    pub fn requests_of(&self, user: &str) -> Result<Vec<AuditedRequest>> {
        let mut requests = self.requests()?;
        requests.retain(|request| request.user == user);
        Ok(requests)
    }

    /// Writes in a namespace by any user: shows which component moved, deleted or changed its pods.
    pub fn writes_in(&self, namespace: &str) -> Result<Vec<AuditedRequest>> {
        let mut requests = self.requests()?;
        requests.retain(|request| {
            request.namespace == namespace && !["get", "list", "watch"].contains(&request.verb.as_str())
        });
        Ok(requests)
    }

    pub fn requests_of_node(&self, node: &str) -> Result<Vec<AuditedRequest>> {
        self.requests_of(&format!("system:node:{node}"))
    }
}

/// Logs all requests with metadata, and writes by nodes with their bodies. For the control plane's own components only
/// changes to pods are logged; bindings with their bodies.
pub(super) fn write_policy(path: &Path) -> Result<()> {
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {
                "level": "Request",
                "users": ["system:kube-scheduler"],
                "verbs": ["create"],
                "resources": [{"group": "", "resources": ["pods/binding"]}],
            },
            {
                "level": "Metadata",
                "userGroups": ["system:serviceaccounts:kube-system"],
                "verbs": ["create", "delete", "patch", "update"],
                "resources": [{"group": "", "resources": ["pods", "pods/*"]}],
            },
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "None", "users": ["system:kube-scheduler", "system:kube-controller-manager", "system:apiserver"]},
            {
                "level": "Request",
                "userGroups": ["system:nodes"],
                "verbs": ["create", "update", "patch", "delete"],
                "omitManagedFields": true,
            },
            {
                // The policy matches the impersonating user, not the impersonated one.
                "level": "Request",
                "users": ["proxy"],
                "verbs": ["create", "update", "patch", "delete"],
                "omitManagedFields": true,
            },
            {"level": "Metadata"},
        ],
    });
    fs::write(path, policy.to_string()).with_context(|| format!("write {}", path.display()))
}

/// `None` for the end of a watch whose start was counted.
fn read(line: &str) -> Result<Option<AuditedRequest>> {
    let event: Value = serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"))?;
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let code = event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or(0);
    let verb = text("/verb");
    let begun = text("/stage") == "ResponseStarted";
    // A rejected watch has only a ResponseComplete entry.
    if verb == "watch" && !begun && code == 200 {
        return Ok(None);
    }
    if begun && verb != "watch" {
        return Ok(None);
    }
    Ok(Some(AuditedRequest {
        user: Some(text("/impersonatedUser/username"))
            .filter(|user| !user.is_empty())
            .unwrap_or_else(|| text("/user/username")),
        verb,
        uri: text("/requestURI"),
        resource: text("/objectRef/resource"),
        subresource: text("/objectRef/subresource"),
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: u16::try_from(code).unwrap_or(0),
        received: text("/requestReceivedTimestamp"),
        answered: text("/stageTimestamp"),
        body: event.pointer("/requestObject").cloned().unwrap_or_default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_write() {
        let line = json!({
            "stage": "ResponseComplete", "verb": "patch", "requestURI": "/api/v1/nodes/a/status",
            "user": {"username": "system:node:a"}, "responseStatus": {"code": 200},
            "objectRef": {"resource": "nodes", "subresource": "status", "name": "a"},
            "requestObject": {"status": {}},
        });
        let request = read(&line.to_string()).unwrap().unwrap();
        assert_eq!(request.subresource, "status");
        assert_eq!((request.user.as_str(), request.code), ("system:node:a", 200));
        assert_eq!(request.body, json!({"status": {}}));
    }

    #[test]
    fn counts_a_watch_once() {
        let event = |stage: &str, code: u16| {
            json!({"stage": stage, "verb": "watch", "responseStatus": {"code": code}}).to_string()
        };
        assert!(read(&event("ResponseStarted", 200)).unwrap().is_some());
        assert!(read(&event("ResponseComplete", 200)).unwrap().is_none());
        assert_eq!(read(&event("ResponseComplete", 403)).unwrap().unwrap().code, 403);
    }
}
