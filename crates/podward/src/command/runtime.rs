//! `podward runtime`: the container runtime alone, on a socket for crictl or another node agent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use cri::Endpoint;
use grpc_socket::GrpcListener;
use ports::clock::{Clock, SystemClock};
use runtime::network::{DEFAULT_BRIDGE, NetworkSettings};
use runtime::services::{RuntimeOptions, RuntimeServices};
use tokio::signal::unix::{SignalKind, signal};

/// Blocking threads: each sandbox or container that is being made uses one.
const BLOCKING_THREADS: usize = 32;
/// A keeper starts from this program also after the file was replaced by another release.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Where drivers of devices describe them, as for other runtimes.
const CDI_FOLDERS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

#[derive(Debug, Args)]
pub(super) struct RuntimeArguments {
    /// The socket to serve
    #[arg(long, value_name = "ENDPOINT", default_value = "unix:///run/podward/runtime.sock")]
    listen: String,
    /// The folder for images, containers and their records
    #[arg(long, value_name = "DIR", default_value = "/var/lib/podward/runtime")]
    root: PathBuf,
    /// The folder for sockets and namespaces; its path must be short
    #[arg(long, value_name = "DIR", default_value = "/run/podward/runtime")]
    state: PathBuf,
    /// The folder with a hosts.toml for each registry
    #[arg(long, value_name = "DIR", default_value = "/etc/containerd/certs.d")]
    registry_config: PathBuf,
    /// The bridge that pods are connected to
    #[arg(long, value_name = "NAME", default_value = DEFAULT_BRIDGE)]
    bridge: String,
    /// The folder of CNI configurations, which replace the bridge
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    cni_conf_dir: PathBuf,
    /// Kill and remove all pods and their network, and exit; images stay
    #[arg(long)]
    reset: bool,
}

/// Where a runtime keeps its state, and how it connects pods.
pub(crate) struct RuntimeFolders<'a> {
    pub(crate) root: &'a Path,
    pub(crate) state: &'a Path,
    pub(crate) registry_config: &'a Path,
    pub(crate) bridge: &'a str,
    pub(crate) cni_conf_dir: &'a Path,
}

pub(crate) fn runtime_options(folders: &RuntimeFolders<'_>) -> RuntimeOptions {
    let mut network = NetworkSettings::new(folders.root.join("network")).with_bridge(folders.bridge);
    folders.cni_conf_dir.clone_into(&mut network.cni_config_folder);
    RuntimeOptions {
        root: folders.root.to_owned(),
        state: folders.state.to_owned(),
        keeper_program: PathBuf::from(OWN_PROGRAM),
        hosts_folder: Some(folders.registry_config.to_owned()),
        network: Some(network),
        streaming_address: (std::net::Ipv4Addr::LOCALHOST, 0).into(),
        cdi_folders: CDI_FOLDERS.map(PathBuf::from).into(),
        pinned_images: Vec::new(),
        shared_images: None,
        now: Arc::new(|| SystemClock.now().as_nanos()),
    }
}

pub(super) fn run(arguments: &RuntimeArguments) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("the container runtime needs root");
    }
    crate::logging::set_up_simple();
    host::limit_malloc_arenas();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("start the async runtime")?;
    let result = runtime.block_on(serve(arguments));
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

/// Listens on a socket that only root may use.
pub(crate) fn listen(endpoint: &Endpoint) -> anyhow::Result<GrpcListener> {
    use std::os::unix::fs::PermissionsExt;
    let listener = GrpcListener::bind(endpoint.path())
        .with_context(|| format!("listen on {}", endpoint.path().display()))?;
    std::fs::set_permissions(endpoint.path(), std::fs::Permissions::from_mode(0o600))
        .with_context(|| format!("set mode of {}", endpoint.path().display()))?;
    Ok(listener)
}

async fn serve(arguments: &RuntimeArguments) -> anyhow::Result<()> {
    let endpoint: Endpoint = arguments.listen.parse().context("--listen")?;
    let _lock = crate::run::lock_state(&arguments.root).await?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let options = runtime_options(&RuntimeFolders {
        root: &arguments.root,
        state: &arguments.state,
        registry_config: &arguments.registry_config,
        bridge: &arguments.bridge,
        cni_conf_dir: &arguments.cni_conf_dir,
    });
    let services = RuntimeServices::open(options).await.context("open the container runtime")?;
    if arguments.reset {
        return services.remove_everything().await.context("remove all pods");
    }
    let listener = listen(&endpoint)?;
    tracing::info!(socket = %endpoint.path().display(), root = %arguments.root.display(), "container runtime serves");
    crate::service_manager::ready();
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::select! {
        served = services.serve(listener, std::future::pending()) => served.context("serve the container runtime")?,
        // Not waiting for streams that never end; containers continue.
        () = stop => tracing::info!("stopping, containers continue"),
    }
    match std::fs::remove_file(endpoint.path()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", endpoint.path().display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
