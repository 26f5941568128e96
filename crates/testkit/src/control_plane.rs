//! A real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.
//!
//! Runs the programs in `$PODWARD_CACHE/bin` and Debian's etcd. Provides kubeconfigs, a `kubectl` runner and the audit
//! log. Node authorizer, RBAC and NodeRestriction are enabled, as in a real cluster; each control plane has new
//! certificates.
//!
//! Invariant: all processes are stopped afterwards, even if the test panics or is killed ([`reaper`]). It has no nodes:
//! a node joins with one of the kubeconfigs.

use parking_lot::{Mutex, MutexGuard};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use tokio::sync::OnceCell;

use crate::instance::Instance;
use certificates::{Authority, Identity};
use components::Components;
use kubeconfig::Credential;
use ports::Ports;

mod audit;
mod bootstrap;
mod certificates;
mod components;
mod faults;
mod kubeconfig;
mod kubectl;
mod ports;
pub(crate) mod program;
mod reaper;

pub use audit::AuditedRequest;
pub use certificates::{PodSigner, SignedForPod, unknown_authority};
pub use faults::{Fault, FaultProxy, FaultRule, ServerCertificate};
pub use program::built;

/// Settings that a test changes on the control plane.
#[derive(Clone, Debug)]
pub struct ControlPlaneOptions {
    pub api_server_arguments: Vec<String>,
    pub controller_manager_arguments: Vec<String>,
    /// Lifetime of signed certificates, which are backdated by five minutes.
    pub signing_duration: Duration,
}

impl Default for ControlPlaneOptions {
    fn default() -> Self {
        Self {
            api_server_arguments: Vec::new(),
            controller_manager_arguments: Vec::new(),
            signing_duration: Duration::from_secs(24 * 3600),
        }
    }
}

/// A control plane. Dropping it stops its processes and removes its folder.
#[derive(Debug)]
pub struct ControlPlane {
    // Before the folder, so that the processes have exited when it is removed.
    components: Mutex<Components>,
    authority: Authority,
    url: String,
    start_time: Duration,
    api_server_starts: Mutex<Vec<SystemTime>>,
    instance: Instance,
}

impl ControlPlane {
    /// Starts a control plane and waits until it serves, schedules and has created the default service account.
    pub async fn start() -> Result<Self> {
        Self::start_with(ControlPlaneOptions::default()).await
    }

    /// Like [`Self::start`], with changed options. Another process can take a port between the search for a free one
    /// and its use: if a component exits at once, retries with other ports.
    pub async fn start_with(options: ControlPlaneOptions) -> Result<Self> {
        const TRIES: u32 = 3;
        let mut tries = 1;
        loop {
            match Self::try_start(options.clone()).await {
                Err(error)
                    if tries < TRIES && format!("{error:#}").contains("of the control plane ended") =>
                {
                    eprintln!("the control plane is started again: {error:#}");
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    async fn try_start(options: ControlPlaneOptions) -> Result<Self> {
        let started = Instant::now();
        program::check()?;
        let instance = Instance::create()?;
        let authority = Authority::create()?;
        let ports = Ports::find()?;
        let url = format!("https://127.0.0.1:{}", ports.api_server);
        write_files(&instance, &authority, &url)?;
        let components = Components::new(instance.folder(), ports, options)?;
        let components = Mutex::new(components);
        let (start_time, api_server_starts) = (Duration::ZERO, Mutex::default());
        let mut plane = Self { components, authority, url, start_time, api_server_starts, instance };
        plane.components().start_etcd()?;
        plane.launch_api_server()?;
        plane.wait_api_server().await?;
        plane.components().restart_controllers()?;
        plane.grant_bootstrap().await?;
        plane.wait_controllers().await?;
        plane.start_time = started.elapsed();
        Ok(plane)
    }

    /// One control plane for the whole test process, stopped when it exits. Each scenario uses its own namespace and
    /// node.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    pub fn start_time(&self) -> Duration {
        self.start_time
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn folder(&self) -> &Path {
        self.instance.folder()
    }

    /// PEM file with the cluster's certificate authority.
    pub fn authority_file(&self) -> PathBuf {
        self.instance.path("pki/ca.crt")
    }

    /// A kubeconfig of a cluster administrator.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.instance.path("admin.kubeconfig")
    }

    /// A kubeconfig with a client certificate for `system:node:NAME`.
    pub fn node_kubeconfig(&self, node: &str) -> Result<PathBuf> {
        let identity =
            Identity { name: &format!("system:node:{node}"), group: Some("system:nodes"), hosts: &[] };
        self.write_kubeconfig(node, &Credential::Certificate(self.authority.issue(&identity)?))
    }

    /// A kubeconfig with a client certificate for any user.
    pub fn user_kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let issued = self.authority.issue(&Identity { name: user, group, hosts: &[] })?;
        self.write_kubeconfig(&user.replace(':', "-"), &Credential::Certificate(issued))
    }

    /// A kubeconfig with a bootstrap token, which may only request a node certificate.
    pub fn bootstrap_kubeconfig(&self) -> Result<PathBuf> {
        self.write_kubeconfig("bootstrap", &Credential::Token(bootstrap::TOKEN.to_owned()))
    }

    /// Kills the API server, like a crash; the other components keep running.
    pub fn stop_api_server(&self) -> Result<()> {
        self.components().stop_api_server()
    }

    /// Starts the API server again, at the same address and with the same data.
    ///
    /// Also restarts the scheduler and the controllers, because their watches take up to a minute to resume. Until then
    /// pods are scheduled to deleted nodes, where the pod garbage collector deletes them, and new namespaces have no
    /// service accounts.
    pub async fn start_api_server(&self) -> Result<()> {
        self.launch_api_server()?;
        self.wait_api_server().await?;
        self.components().restart_controllers()
    }

    /// Times at which the API server was started, oldest first.
    pub fn api_server_starts(&self) -> Vec<SystemTime> {
        self.api_server_starts.lock().clone()
    }

    #[expect(clippy::disallowed_methods, reason = "compared with the times of the audit log")]
    fn launch_api_server(&self) -> Result<()> {
        self.api_server_starts.lock().push(SystemTime::now());
        self.components().start_api_server()
    }

    pub async fn ensure_api_server(&self) -> Result<()> {
        let stopped = !self.components().api_server_runs();
        if stopped { self.start_api_server().await } else { Ok(()) }
    }

    /// Changes the lifetime of certificates signed from now on.
    pub fn sign_for(&self, duration: Duration) -> Result<()> {
        self.components().sign_for(duration)
    }

    /// IDs of all processes of this control plane.
    pub fn processes(&self) -> Vec<u32> {
        self.components().processes()
    }

    pub fn log_tail(&self, component: &str, lines: usize) -> String {
        crate::containerd::tail(&self.instance.path(&format!("{component}.log")), lines)
    }

    fn write_kubeconfig(&self, name: &str, credential: &Credential) -> Result<PathBuf> {
        let path = self.instance.path(&format!("{name}.kubeconfig"));
        kubeconfig::write(&path, &self.url, &self.authority.certificate, credential)?;
        Ok(path)
    }

    fn components(&self) -> MutexGuard<'_, Components> {
        self.components.lock()
    }
}

/// Writes certificates, keys, the components' kubeconfigs and the audit policy.
fn write_files(instance: &Instance, authority: &Authority, url: &str) -> Result<()> {
    let pki = instance.path("pki");
    fs::create_dir_all(&pki).context("create the folder of certificates")?;
    authority.write_all(&pki)?;
    for (file, name, group) in [
        ("admin", "admin", Some("system:masters")),
        ("controller-manager", "system:kube-controller-manager", None),
        ("scheduler", "system:kube-scheduler", None),
    ] {
        let issued = authority.issue(&Identity { name, group, hosts: &[] })?;
        let path = instance.path(&format!("{file}.kubeconfig"));
        kubeconfig::write(&path, url, &authority.certificate, &Credential::Certificate(issued))?;
    }
    audit::write_policy(&instance.path("audit-policy.json"))
}
