use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::Node;
use serde_json::{Value, json};
use testkit::images::BUSYBOX;
use testkit::poll::eventually;

/// A file in which the containers of a pod record their actions, one per line.
pub(crate) struct Diary {
    folder: PathBuf,
}

impl Diary {
    pub(crate) fn new(node: &Node, name: &str) -> Result<Self> {
        let folder = node.runtime.instance().path(&format!("diary-{name}"));
        std::fs::create_dir_all(&folder).context("make a folder for the diary")?;
        Ok(Self { folder })
    }

    /// A pod whose containers mount the diary as `/d/diary`; its grace period is 3 seconds.
    pub(crate) fn pod(
        &self,
        name: &str,
        init: impl IntoIterator<Item = Value>,
        containers: impl IntoIterator<Item = Value>,
    ) -> Value {
        let mount = json!([{"name": "diary", "mountPath": "/d"}]);
        let see = |mut container: Value| {
            container["volumeMounts"] = mount.clone();
            container
        };
        let init: Vec<Value> = init.into_iter().map(see).collect();
        let containers: Vec<Value> = containers.into_iter().map(see).collect();
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "terminationGracePeriodSeconds": 3, "initContainers": init, "containers": containers,
                "volumes": [{"name": "diary", "hostPath": {"path": self.folder}}],
            },
        })
    }

    pub(crate) fn touch(&self, file: &str) -> Result<()> {
        std::fs::write(self.folder.join(file), "").context("touch")
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join("diary")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until the diary has exactly these lines.
    pub(crate) async fn wait(&self, expected: &[&str]) -> Result<()> {
        eventually(&format!("the diary has {expected:?}"), Duration::from_secs(60), async || {
            let lines = self.lines();
            ensure!(lines == expected, "it has {lines:?}");
            Ok(())
        })
        .await
    }

    /// Waits for a line: a container is running before its program has written anything.
    pub(crate) async fn wait_for(&self, line: &str) -> Result<()> {
        eventually(&format!("the diary has {line:?}"), Duration::from_secs(60), async || {
            let lines = self.lines();
            ensure!(lines.iter().any(|own| own == line), "it has {lines:?}");
            Ok(())
        })
        .await
    }
}

/// A container that runs a shell script.
pub(crate) fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "image": BUSYBOX, "command": ["sh", "-c", script]})
}

/// A container that writes its name, and `NAME-end` on the stop signal.
pub(crate) fn writer(name: &str) -> Value {
    let script = format!(
        "trap 'echo {name}-end >> /d/diary; exit 0' TERM; echo {name} >> /d/diary; sleep 1000 & wait"
    );
    sh(name, &script)
}

pub(crate) fn plus(mut container: Value, fields: &Value) -> Value {
    if let (Some(container), Some(fields)) = (container.as_object_mut(), fields.as_object()) {
        container.extend(fields.clone());
    }
    container
}

/// The container as a sidecar.
pub(crate) fn sidecar(container: Value) -> Value {
    plus(container, &json!({"restartPolicy": "Always"}))
}

pub(crate) async fn init_status(
    node: &Node,
    pod: &str,
    name: &str,
) -> Result<k8s_openapi::api::core::v1::ContainerStatus> {
    let status = node.api_pod(pod).await?.status.unwrap_or_default();
    let found = status.init_container_statuses.unwrap_or_default().into_iter().find(|one| one.name == name);
    found.with_context(|| format!("no status of init container {name}"))
}
