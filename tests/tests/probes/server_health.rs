//! Servers whose health a test can switch.

use std::path::PathBuf;

use anyhow::Result;
use scenarios::{Node, container, pod, with};
use serde_json::{Value, json};

/// A folder that pods mount as `/health`: servers respond with the status code in `/health/status`.
pub(crate) struct ServerHealth(PathBuf);

impl ServerHealth {
    pub(crate) fn new(node: &Node, name: &str) -> Result<Self> {
        let folder = node.runtime.instance().path(&format!("health-{name}"));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// Sets the status code of all responses from now on.
    pub(crate) fn set_status(&self, status: u16) -> Result<()> {
        Ok(std::fs::write(self.0.join("status"), status.to_string())?)
    }

    /// A pod with one container, `main`, that mounts the folder and has these probes.
    pub(crate) fn pod(&self, name: &str, arguments: &str, probes: &[(&str, Value)]) -> Value {
        let mut main = container("main", arguments);
        if let Some(fields) = main.as_object_mut() {
            fields.insert("volumeMounts".into(), json!([{"name": "health", "mountPath": "/health"}]));
            fields.extend(probes.iter().map(|(kind, probe)| ((*kind).to_owned(), probe.clone())));
        }
        with(pod(name, [main]), "/spec/volumes", json!([{"name": "health", "hostPath": {"path": self.0}}]))
    }
}

/// A probe with a period of one second and thresholds of one, with additional fields.
pub(crate) fn probe(action: &Value, more: &Value) -> Value {
    let mut probe = json!({"periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 1});
    for fields in [action, more] {
        if let (Some(probe), Some(fields)) = (probe.as_object_mut(), fields.as_object()) {
            probe.extend(fields.clone());
        }
    }
    probe
}

/// An HTTP handler that responds with the current status code.
pub(crate) fn page(path: &str) -> Value {
    json!({"httpGet": {"path": path, "port": 8080}})
}

/// An exec handler that fails unless a file exists.
pub(crate) fn file(path: &str) -> Value {
    json!({"exec": {"command": ["/demo", "crash-until", path]}})
}

/// `started` of the pod's first container.
pub(crate) async fn started(node: &Node, name: &str) -> Result<bool> {
    let pod = node.api_pod(name).await?;
    let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
    Ok(statuses.first().and_then(|status| status.started) == Some(true))
}
