//! The container runtime inside the agent, for a machine without another one.

use std::path::Path;

use anyhow::Context;
use config::{LoadedConfig, ProgramName};
use cri::Endpoint;
use host::LockFile;
use runtime::services::{RuntimeOptions, RuntimeServices, Serving, SharedImages};
use tokio::task::JoinSet;

use crate::command::runtime::{RuntimeFolders, listen, runtime_options};

/// The field that names another runtime.
const ENDPOINT_FIELD: &str = "containerRuntimeEndpoint";
/// Short, because the kernel limits paths of sockets.
const STATE_FOLDER: &str = "run";
const REGISTRY_CONFIG: &str = "/etc/containerd/certs.d";

/// The runtime and the server that the agent's client connects to.
pub(crate) struct EmbeddedRuntime {
    pub(crate) services: RuntimeServices,
    pub(crate) serving: Serving,
    _lock: LockFile,
    /// Ends with the agent.
    _sockets: JoinSet<()>,
}

/// Whether the agent runs its own runtime: no other one is configured. Under the name `kubelet`, the default is upstream's.
pub(super) fn is_wanted(loaded: &LoadedConfig, called_as: ProgramName) -> bool {
    called_as == ProgramName::Podward && !loaded.set_fields.contains(ENDPOINT_FIELD)
}

/// Opens the runtime, with everything below the agent's own folder.
pub(super) async fn open(
    state: &Path,
    loaded: &LoadedConfig,
    shared_images: Option<SharedImages>,
) -> anyhow::Result<EmbeddedRuntime> {
    let root = state.join("runtime");
    // `podward runtime` on the same folder takes it, too.
    let lock = crate::run::lock_state(&root).await?;
    let flags = &loaded.flags;
    let options = runtime_options(&RuntimeFolders {
        root: &root,
        state: &root.join(STATE_FOLDER),
        registry_config: Path::new(REGISTRY_CONFIG),
        bridge: &flags.pod_bridge,
        cni_conf_dir: &flags.cni_conf_dir,
    });
    let options = RuntimeOptions { shared_images, ..options };
    let services = RuntimeServices::open(options).await.context("open the container runtime inside")?;
    tracing::info!(root = %root.display(), "no containerRuntimeEndpoint is configured, using the container runtime inside");
    let serving = services.serve_in_memory();
    let mut sockets = JoinSet::new();
    if let Some(endpoint) = &flags.runtime_listen {
        let endpoint: Endpoint = endpoint.parse().context("--podward-runtime-listen")?;
        let listener = listen(&endpoint)?;
        let services = services.clone();
        sockets.spawn(async move {
            if let Err(error) = services.serve(listener, std::future::pending()).await {
                tracing::error!(%error, "the socket of the container runtime inside is no longer served");
            }
        });
    }
    Ok(EmbeddedRuntime { services, serving, _lock: lock, _sockets: sockets })
}
