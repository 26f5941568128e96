//! The container runtime inside the agent, for a machine without another one.

use std::path::Path;

use anyhow::Context;
use config::{LoadedConfig, ProgramName};
use runtime::services::{RuntimeServices, Serving};

use crate::command::runtime::runtime_options;

/// The field that names another runtime.
const ENDPOINT_FIELD: &str = "containerRuntimeEndpoint";
/// Short, because the kernel limits paths of sockets.
const STATE_FOLDER: &str = "run";
const REGISTRY_CONFIG: &str = "/etc/containerd/certs.d";

/// The runtime and the server that the agent's client connects to.
pub(super) struct EmbeddedRuntime {
    _services: RuntimeServices,
    pub(super) serving: Serving,
}

/// Whether the agent runs its own runtime: no other one is configured. Under the name `kubelet`, the default is upstream's.
pub(super) fn is_wanted(loaded: &LoadedConfig, called_as: ProgramName) -> bool {
    called_as == ProgramName::Podward && !loaded.set_fields.contains(ENDPOINT_FIELD)
}

/// Opens the runtime, with everything below the agent's own folder.
pub(super) async fn open(state: &Path) -> anyhow::Result<EmbeddedRuntime> {
    let root = state.join("runtime");
    let options = runtime_options(&root, &root.join(STATE_FOLDER), Path::new(REGISTRY_CONFIG));
    let services = RuntimeServices::open(options).await.context("open the container runtime inside")?;
    tracing::info!(root = %root.display(), "no containerRuntimeEndpoint is configured, using the container runtime inside");
    Ok(EmbeddedRuntime { serving: services.serve_in_memory(), _services: services })
}
