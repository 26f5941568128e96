//! Servers whose health a test can switch.

use std::path::PathBuf;

use anyhow::Result;
use scenarios::{Node, container, pod, with};
use serde_json::{Value, json};

/// A folder that pods see as `/mood`: `/mood/status` is what servers answer with.
pub(crate) struct Mood(PathBuf);

impl Mood {
    pub(crate) fn new(node: &Node, name: &str) -> Result<Self> {
        let folder = node.containerd.instance().path(&format!("mood-{name}"));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// Answers with this status from now on.
    pub(crate) fn is(&self, status: u16) -> Result<()> {
        Ok(std::fs::write(self.0.join("status"), status.to_string())?)
    }

    /// A pod with one container, `main`, that sees the folder and has these probes.
    pub(crate) fn pod(&self, name: &str, words: &str, probes: &[(&str, Value)]) -> Value {
        let mut main = container("main", words);
        if let Some(fields) = main.as_object_mut() {
            fields.insert("volumeMounts".into(), json!([{"name": "mood", "mountPath": "/mood"}]));
            fields.extend(probes.iter().map(|(kind, probe)| ((*kind).to_owned(), probe.clone())));
        }
        with(pod(name, [main]), "/spec/volumes", json!([{"name": "mood", "hostPath": {"path": self.0}}]))
    }
}

/// A probe that asks once a second and needs one answer, with more fields.
pub(crate) fn probe(asks: &Value, more: &Value) -> Value {
    let mut probe = json!({"periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 1});
    for fields in [asks, more] {
        if let (Some(probe), Some(fields)) = (probe.as_object_mut(), fields.as_object()) {
            probe.extend(fields.clone());
        }
    }
    probe
}

/// A page that answers as the mood is.
pub(crate) fn page(path: &str) -> Value {
    json!({"httpGet": {"path": path, "port": 8080}})
}

/// A command that fails unless a file exists.
pub(crate) fn file(path: &str) -> Value {
    json!({"exec": {"command": ["/demo", "crash-until", path]}})
}

/// `started` of the pod's first container.
pub(crate) async fn started(node: &Node, name: &str) -> Result<bool> {
    let pod = node.api_pod(name).await?;
    let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
    Ok(statuses.first().and_then(|status| status.started) == Some(true))
}
