//! A small CSI driver: volumes are folders, mounts are real.
//!
//! Serves the node service on one socket and the plugin registration on another. Staging bind-mounts a volume's folder,
//! publishing bind-mounts the staged path; a block volume is a file, or a link to a device, that is bind-mounted. Every
//! call is recorded, and any call can be made to fail or to hang.

pub(crate) mod authority;
mod mounts;
mod service;

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Context;
use plugins::csi_v1::node_server::NodeServer;
use plugins::registration_v1::registration_server::RegistrationServer;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::transport::Server;

pub use plugins::csi_v1::node_service_capability::rpc::Type as Ability;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Such as `NodeStageVolume`.
    pub name: &'static str,
    pub volume: String,
    /// Staging or target path of the call.
    pub path: String,
    /// The staging path of a call that also has a target path.
    pub staging: String,
    pub context: BTreeMap<String, String>,
    pub publish_context: BTreeMap<String, String>,
    pub secrets: BTreeMap<String, String>,
    /// Volume mount group.
    pub group: String,
    /// Mount flags.
    pub flags: Vec<String>,
    pub bytes: i64,
}

/// Injected misbehaviour of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsiFault {
    /// Fails before doing anything.
    Fails(Code),
    /// Does its work and then fails.
    FailsAfter(Code),
    /// Hangs until the fault is cleared.
    Hangs,
}

/// State shared by both servers.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) endpoint: PathBuf,
    pub(crate) abilities: Vec<Ability>,
    pub(crate) max_volumes: AtomicI64,
    pub(crate) calls: Mutex<Vec<Call>>,
    pub(crate) fault: watch::Sender<HashMap<&'static str, CsiFault>>,
    pub(crate) registered: watch::Sender<Option<Result<(), String>>>,
}

impl Shared {
    pub(crate) fn note(&self, call: Call) {
        self.calls.lock().push(call);
    }
}

/// A driver that runs until it is dropped.
pub struct CsiDriver {
    shared: Arc<Shared>,
    gone: CancellationToken,
    socket: Option<PathBuf>,
}

impl Drop for CsiDriver {
    fn drop(&mut self) {
        self.gone.cancel();
        mounts::detach_below(&self.shared.folder);
    }
}

impl CsiDriver {
    /// Starts a driver with its volumes and socket in `folder`.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn start(name: &str, folder: &Path, abilities: &[Ability]) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder.join("volumes")).context("make the driver's folder")?;
        let endpoint = folder.join("csi.sock");
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            folder: folder.to_owned(),
            endpoint: endpoint.clone(),
            abilities: abilities.to_vec(),
            max_volumes: AtomicI64::new(16),
            calls: Mutex::default(),
            fault: watch::Sender::default(),
            registered: watch::Sender::new(None),
        });
        let gone = CancellationToken::new();
        let router =
            Server::builder().add_service(NodeServer::from_arc(Arc::new(service::Node(shared.clone()))));
        serve(&endpoint, router, &gone)?;
        Ok(Self { shared, gone, socket: None })
    }

    /// Registers the driver in a plugin registry folder.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn register(&mut self, registry: &Path) -> anyhow::Result<()> {
        let socket = registry.join(format!("{}-reg.sock", self.shared.name));
        let service = service::Registration(self.shared.clone());
        let router = Server::builder().add_service(RegistrationServer::from_arc(Arc::new(service)));
        serve(&socket, router, &self.gone)?;
        self.socket = Some(socket);
        Ok(())
    }

    /// Removes the registration socket.
    pub fn unregister(&mut self) {
        if let Some(socket) = self.socket.take() {
            let _ = std::fs::remove_file(socket);
        }
    }

    /// Waits for the agent's registration result.
    pub async fn registered(&self) -> Result<(), String> {
        let mut registered = self.shared.registered.subscribe();
        match registered.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
            Err(_) => Err("the driver is gone".to_owned()),
        }
    }

    /// Sets the volume limit that `NodeGetInfo` reports.
    pub fn set_volume_limit(&self, volumes: i64) {
        self.shared.max_volumes.store(volumes, Ordering::Relaxed);
    }

    #[must_use]
    pub fn endpoint(&self) -> &Path {
        &self.shared.endpoint
    }

    #[must_use]
    pub fn volume(&self, handle: &str) -> PathBuf {
        self.shared.folder.join("volumes").join(handle)
    }

    /// All recorded calls: those that change something, and those for volume statistics.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().clone()
    }

    #[must_use]
    pub fn call_names(&self) -> Vec<&'static str> {
        self.calls().into_iter().map(|call| call.name).collect()
    }

    #[must_use]
    pub fn last(&self, name: &str) -> Option<Call> {
        self.calls().into_iter().rev().find(|call| call.name == name)
    }

    /// Injects a fault into a call, or clears it.
    pub fn set_fault(&self, call: &'static str, fault: Option<CsiFault>) {
        self.shared.fault.send_modify(|faults| match fault {
            Some(fault) => {
                faults.insert(call, fault);
            }
            None => {
                faults.remove(call);
            }
        });
    }
}

/// Serves gRPC on a socket until `gone` is cancelled.
pub(crate) fn serve(
    socket: &Path,
    router: tonic::transport::server::Router,
    gone: &CancellationToken,
) -> anyhow::Result<()> {
    let listener = UnixListener::bind(socket).with_context(|| format!("listen on {}", socket.display()))?;
    let until = gone.clone().cancelled_owned();
    tokio::spawn(async move {
        // A transport error means that the test removed the socket; its calls show that.
        let streams =
            UnixListenerStream::new(listener).map(|stream| stream.map(authority::ValidAuthority::new));
        let _ = router.serve_with_incoming_shutdown(streams, until).await;
    });
    Ok(())
}
