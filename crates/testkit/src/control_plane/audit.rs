//! The API server's audit log: who asked for what, and what came of it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::ControlPlane;

/// One request that was answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditedRequest {
    /// User name, as the API server knew it; the one asked for when somebody asks for another.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// Plural kind of the object; empty for other paths.
    pub resource: String,
    /// `status`, `token`, ...; empty when none.
    pub subresource: String,
    /// Namespace of the object; empty when none.
    pub namespace: String,
    /// Name of the object; empty for lists and generated names.
    pub name: String,
    /// HTTP status of the answer.
    pub code: u16,
    /// When the request came, RFC 3339 with microseconds.
    pub received: String,
    /// When it was answered, in the same form.
    pub answered: String,
    /// What was sent; null unless it is a write of a node.
    pub body: Value,
}

impl ControlPlane {
    /// All answered requests so far, oldest answer first. A watch counts when its answer begins.
    pub fn requests(&self) -> Result<Vec<AuditedRequest>> {
        let log = fs::read_to_string(self.folder().join("audit.log")).context("read the audit log")?;
        // The last line may still be written.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().filter_map(|line| read(line).transpose()).collect()
    }

    /// The requests of one user.
    pub fn requests_of(&self, user: &str) -> Result<Vec<AuditedRequest>> {
        let mut requests = self.requests()?;
        requests.retain(|request| request.user == user);
        Ok(requests)
    }

    /// What was written in a namespace, by anybody: who moved, deleted or changed its pods.
    pub fn writes_in(&self, namespace: &str) -> Result<Vec<AuditedRequest>> {
        let mut requests = self.requests()?;
        requests.retain(|request| {
            request.namespace == namespace && !["get", "list", "watch"].contains(&request.verb.as_str())
        });
        Ok(requests)
    }

    /// The requests of a node's agent.
    pub fn requests_of_node(&self, node: &str) -> Result<Vec<AuditedRequest>> {
        self.requests_of(&format!("system:node:{node}"))
    }
}

/// Everything with its subject, and what nodes write with its content. Of the control plane's own programs only what
/// they do to pods: where one was placed is told with its content.
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
                // The policy goes by who asks, not by whom it is asked for.
                "level": "Request",
                "users": ["door"],
                "verbs": ["create", "update", "patch", "delete"],
                "omitManagedFields": true,
            },
            {"level": "Metadata"},
        ],
    });
    fs::write(path, policy.to_string()).with_context(|| format!("write {}", path.display()))
}

/// `None` for the end of a watch whose beginning was counted.
fn read(line: &str) -> Result<Option<AuditedRequest>> {
    let event: Value = serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"))?;
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let code = event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or(0);
    let verb = text("/verb");
    let begun = text("/stage") == "ResponseStarted";
    // A refused watch has no beginning, only an end.
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
