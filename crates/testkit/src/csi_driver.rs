//! A small CSI driver: volumes are folders, mounts are real.
//!
//! Serves the node service on a socket and, on another, the registration of plugins. Staging binds a volume's folder,
//! publishing binds what was staged; a block volume is a file, or a link to a device, that is bound. Every call is written down, and any call can
//! be made to fail or to hang.

mod authority;
mod mounts;
mod service;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// A call that came in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Such as `NodeStageVolume`.
    pub name: &'static str,
    /// The volume.
    pub volume: String,
    /// Staging or target path, as the call has it.
    pub path: String,
    /// The staging path of a call that has another.
    pub staging: String,
    /// The volume's context.
    pub context: BTreeMap<String, String>,
    /// What its attachment said.
    pub publish_context: BTreeMap<String, String>,
    /// Secrets.
    pub secrets: BTreeMap<String, String>,
    /// The group that the driver is to give it to.
    pub group: String,
    /// What `mount -o` is told.
    pub flags: Vec<String>,
    /// Bytes asked for.
    pub bytes: i64,
}

/// What a call does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Fails with a code before anything was done.
    Fails(Code),
    /// Does its work and then answers with a code.
    FailsAfter(Code),
    /// Hangs until the trouble is over.
    Hangs,
}

/// What the servers share.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) endpoint: PathBuf,
    pub(crate) abilities: Vec<Ability>,
    pub(crate) most_volumes: AtomicI64,
    pub(crate) calls: Mutex<Vec<Call>>,
    pub(crate) trouble: watch::Sender<HashMap<&'static str, Trouble>>,
    pub(crate) registered: watch::Sender<Option<Result<(), String>>>,
}

impl Shared {
    pub(crate) fn note(&self, call: Call) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
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
    /// Starts a driver that keeps volumes, and its socket, in a folder.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn start(name: &str, folder: &Path, abilities: &[Ability]) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder.join("volumes")).context("make the driver's folder")?;
        let endpoint = folder.join("csi.sock");
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            folder: folder.to_owned(),
            endpoint: endpoint.clone(),
            abilities: abilities.to_vec(),
            most_volumes: AtomicI64::new(16),
            calls: Mutex::default(),
            trouble: watch::Sender::default(),
            registered: watch::Sender::new(None),
        });
        let gone = CancellationToken::new();
        let router =
            Server::builder().add_service(NodeServer::from_arc(Arc::new(service::Node(shared.clone()))));
        serve(&endpoint, router, &gone)?;
        Ok(Self { shared, gone, socket: None })
    }

    /// Announces itself in a folder of plugins.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn announce(&mut self, registry: &Path) -> anyhow::Result<()> {
        let socket = registry.join(format!("{}-reg.sock", self.shared.name));
        let service = service::Registration(self.shared.clone());
        let router = Server::builder().add_service(RegistrationServer::from_arc(Arc::new(service)));
        serve(&socket, router, &self.gone)?;
        self.socket = Some(socket);
        Ok(())
    }

    /// Takes the announcement back.
    pub fn withdraw(&mut self) {
        if let Some(socket) = self.socket.take() {
            let _ = std::fs::remove_file(socket);
        }
    }

    /// Waits for the agent's word on the registration.
    pub async fn registered(&self) -> Result<(), String> {
        let mut registered = self.shared.registered.subscribe();
        match registered.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
            Err(_) => Err("the driver is gone".to_owned()),
        }
    }

    /// Says from now on that the node can have so many volumes.
    pub fn take_at_most(&self, volumes: i64) {
        self.shared.most_volumes.store(volumes, Ordering::Relaxed);
    }

    /// The socket of the node service.
    #[must_use]
    pub fn endpoint(&self) -> &Path {
        &self.shared.endpoint
    }

    /// The folder of a volume.
    #[must_use]
    pub fn volume(&self, handle: &str) -> PathBuf {
        self.shared.folder.join("volumes").join(handle)
    }

    /// All calls that change something, and the calls for sizes.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Their names.
    #[must_use]
    pub fn call_names(&self) -> Vec<&'static str> {
        self.calls().into_iter().map(|call| call.name).collect()
    }

    /// The last call of a name.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<Call> {
        self.calls().into_iter().rev().find(|call| call.name == name)
    }

    /// Makes a call go wrong from now on, or work again.
    pub fn trouble(&self, call: &'static str, trouble: Option<Trouble>) {
        self.shared.trouble.send_modify(|troubles| match trouble {
            Some(trouble) => {
                troubles.insert(call, trouble);
            }
            None => {
                troubles.remove(call);
            }
        });
    }
}

fn serve(
    socket: &Path,
    router: tonic::transport::server::Router,
    gone: &CancellationToken,
) -> anyhow::Result<()> {
    let listener = UnixListener::bind(socket).with_context(|| format!("listen on {}", socket.display()))?;
    let until = gone.clone().cancelled_owned();
    tokio::spawn(async move {
        // A transport error means that the test took the socket away: its calls show it.
        let streams = UnixListenerStream::new(listener).map(|stream| stream.map(authority::Lenient::new));
        let _ = router.serve_with_incoming_shutdown(streams, until).await;
    });
    Ok(())
}
