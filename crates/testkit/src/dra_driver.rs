//! A small driver for dynamic resource allocation.
//!
//! Serves the driver's service on one socket and the plugin registration on another. Preparing a claim writes a spec of the
//! Container Device Interface that sets an environment variable; unpreparing removes it. Every call is recorded, and calls can
//! be made to fail or to hang. The health of its one device is reported from the first [`DraDriver::set_health`] on.

mod service;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use parking_lot::Mutex;
pub use plugins::dra_services::health::HealthStatus;
use plugins::dra_services::health::dra_resource_health_server::DraResourceHealthServer;
use plugins::dra_services::health::{DeviceHealth, DeviceIdentifier};
use plugins::dra_services::v1::dra_plugin_server::DraPluginServer;
use plugins::dra_services::v1beta1::dra_plugin_server::DraPluginServer as V1Beta1Server;
use plugins::registration_v1::registration_server::RegistrationServer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::csi_driver::serve;

/// The call of [`DraDriver::calls`] and of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DraCall {
    Prepare,
    Unprepare,
}

/// Injected misbehaviour of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraFault {
    /// The call fails.
    Fails,
    /// The call succeeds with an error for each claim.
    FailsClaims,
    /// Hangs until the fault is cleared.
    Hangs,
}

/// The pool and the device of each prepared claim.
const DEVICE: (&str, &str) = ("pool", "device-0");

/// State shared by all servers of a driver.
pub(crate) struct Shared {
    name: String,
    folder: PathBuf,
    specs: PathBuf,
    service: &'static str,
    calls: Mutex<Vec<(DraCall, String)>>,
    faults: watch::Sender<HashMap<DraCall, DraFault>>,
    registered: watch::Sender<Option<Result<(), String>>>,
    failing_registrations: AtomicU32,
    /// The report that the streams of health send; `None` for no report yet.
    health: watch::Sender<Option<DeviceHealth>>,
    /// Cancelled to end all streams of health.
    health_streams: Mutex<CancellationToken>,
}

impl Shared {
    fn endpoint(&self) -> PathBuf {
        self.folder.join("dra.sock")
    }

    fn spec(&self, uid: &str) -> PathBuf {
        self.specs.join(format!("{}-{uid}.json", self.name))
    }
}

/// A driver that runs until it is dropped. Its state is in the specs that it wrote, so that it can be started again.
pub struct DraDriver {
    shared: Arc<Shared>,
    gone: CancellationToken,
    socket: Option<PathBuf>,
}

impl Drop for DraDriver {
    fn drop(&mut self) {
        self.unregister();
        self.gone.cancel();
    }
}

impl DraDriver {
    /// Starts a driver with its socket in `folder`, whose specs the runtime reads from `specs`. `service` is the name of the
    /// version that it offers, such as `v1.DRAPlugin`.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn start(name: &str, folder: &Path, specs: &Path, service: &'static str) -> Result<Self> {
        fs::create_dir_all(folder).context("make the driver's folder")?;
        fs::create_dir_all(specs).context("make the folder of specs")?;
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            folder: folder.to_owned(),
            specs: specs.to_owned(),
            service,
            calls: Mutex::default(),
            faults: watch::Sender::default(),
            registered: watch::Sender::new(None),
            failing_registrations: AtomicU32::new(0),
            health: watch::Sender::default(),
            health_streams: Mutex::default(),
        });
        let gone = CancellationToken::new();
        let plugin = Arc::new(service::Plugin(shared.clone()));
        let mut server = Server::builder();
        let router = match service {
            "v1beta1.DRAPlugin" => server.add_service(V1Beta1Server::from_arc(plugin)),
            _ => server.add_service(DraPluginServer::from_arc(plugin)),
        };
        let health = service::Health { shared: shared.clone(), gone: gone.clone() };
        let router = router.add_service(DraResourceHealthServer::new(health));
        let endpoint = shared.endpoint();
        let _ = fs::remove_file(&endpoint);
        serve(&endpoint, router, &gone)?;
        Ok(Self { shared, gone, socket: None })
    }

    /// Registers the driver in a plugin registry folder.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn register(&mut self, registry: &Path) -> Result<()> {
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
            let _ = fs::remove_file(socket);
        }
    }

    /// Waits until the agent reports a successful registration.
    pub async fn registered(&self) -> Result<()> {
        let mut registered = self.shared.registered.subscribe();
        registered.wait_for(|outcome| *outcome == Some(Ok(()))).await.context("the driver is gone")?;
        Ok(())
    }

    /// The agent's last registration result.
    #[must_use]
    pub fn registration(&self) -> Option<Result<(), String>> {
        self.shared.registered.borrow().clone()
    }

    /// Forgets the registration result and lets the next calls of the registration service fail.
    pub fn fail_registrations(&self, calls: u32) {
        self.shared.registered.send_replace(None);
        self.shared.failing_registrations.store(calls, Ordering::Relaxed);
    }

    /// All recorded calls, with the name of each claim.
    #[must_use]
    pub fn calls(&self) -> Vec<(DraCall, String)> {
        self.shared.calls.lock().clone()
    }

    /// The number of recorded calls for a claim.
    #[must_use]
    pub fn count(&self, call: DraCall, claim: &str) -> usize {
        self.calls().into_iter().filter(|(kind, name)| *kind == call && name == claim).count()
    }

    /// The number of claims that are prepared.
    ///
    /// # Errors
    /// When the folder of specs cannot be read.
    pub fn prepared(&self) -> Result<usize> {
        let prefix = format!("{}-", self.shared.name);
        let entries = fs::read_dir(&self.shared.specs).context("list specs")?;
        Ok(entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count())
    }

    /// Reports the health of the device on all streams. `timeout` is in seconds, 0 for the default.
    pub fn set_health(&self, health: HealthStatus, message: &str, timeout: i64) {
        let (pool_name, device_name) = (DEVICE.0.to_owned(), DEVICE.1.to_owned());
        self.shared.health.send_replace(Some(DeviceHealth {
            device: Some(DeviceIdentifier { pool_name, device_name }),
            health: health.into(),
            last_updated_time: 0,
            health_check_timeout_seconds: timeout,
            message: message.to_owned(),
        }));
    }

    /// Ends all streams of health, and reports nothing on new ones until the health is set again.
    pub fn end_health(&self) {
        self.shared.health.send_replace(None);
        let mut streams = self.shared.health_streams.lock();
        streams.cancel();
        *streams = CancellationToken::new();
    }

    /// Injects a fault into a call, or clears it.
    pub fn set_fault(&self, call: DraCall, fault: Option<DraFault>) {
        self.shared.faults.send_modify(|faults| {
            match fault {
                Some(fault) => faults.insert(call, fault),
                None => faults.remove(&call),
            };
        });
    }
}
