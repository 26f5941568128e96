//! Details for people: JSON texts that only verbose requests get.

use std::sync::Arc;

use crate::containers::{Container, SPEC};
use crate::errors::ServiceError;
use crate::launcher::ContainerSpec;
use crate::records::{self, LifeState};
use crate::sandboxes::Sandbox;
use crate::shared::{Shared, blocking};

pub(super) fn of_sandbox(sandbox: &Sandbox) -> String {
    let record = &sandbox.record;
    let namespaces = sandbox.namespaces();
    let info = serde_json::json!({
        "pid": sandbox.keeper().and_then(|keeper| keeper.pid()),
        "cgroupsPath": record.cgroup,
        "stateFolder": record.folder,
        "runtimeHandler": record.runtime_handler,
        "addresses": record.addresses,
        "netNamespaceClosed": sandbox.is_stopped(),
        "runtimeSpec": {"linux": {"namespaces": [
            {"type": "network", "path": namespaces.network()},
            {"type": "ipc", "path": namespaces.ipc()},
            {"type": "uts", "path": namespaces.uts()},
        ]}},
    });
    info.to_string()
}

/// A part of the OCI form, which tools look up.
pub(super) async fn of_container(
    shared: &Arc<Shared>,
    container: &Container,
) -> Result<String, ServiceError> {
    let path = shared.container_root(&container.record.id).join(SPEC);
    let spec = blocking(move || Ok(records::read::<ContainerSpec>(&path)?)).await?;
    let pid = match container.life() {
        LifeState::Running { pid, .. } => pid,
        LifeState::Created | LifeState::Exited(_) => 0,
    };
    let spec = spec.map(|spec| {
        let mounts: Vec<_> = spec
            .mounts
            .iter()
            .map(|mount| serde_json::json!({"destination": mount.destination, "source": format!("{:?}", mount.source)}))
            .collect();
        serde_json::json!({
            "process": {
                "args": spec.process.arguments,
                "env": spec.process.environment,
                "cwd": spec.process.directory,
                "user": spec.process.user,
                "oomScoreAdj": spec.process.oom_score_adj,
            },
            "root": {"path": spec.root},
            "mounts": mounts,
            "linux": {
                "cgroupsPath": container.record.cgroup,
                "maskedPaths": spec.masked_paths,
                "readonlyPaths": spec.readonly_paths,
                "namespaces": spec.namespaces,
            },
        })
    });
    let info = serde_json::json!({
        "sandboxID": container.record.sandbox,
        "pid": pid,
        "image": container.record.image_id,
        "runtimeSpec": spec,
    });
    Ok(info.to_string())
}
