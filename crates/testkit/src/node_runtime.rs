//! The container runtime of a node under test: a private containerd, or podward's own runtime.
//!
//! `PODWARD_RUNTIME` selects it for all scenarios: `containerd` (the default), `inside` (the runtime inside the agent) or
//! `socket` (`podward runtime` as a separate process, also for the upstream kubelet).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use crate::agent_process::Agent;
use crate::containerd::{Containerd, Running, test_images};
use crate::cri_view::CriView;
use crate::instance::{Instance, kill};
use crate::poll::eventually;

const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// An absent folder: pods get the built-in network, whatever the machine has configured.
const NO_CNI: &str = "no-cni";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuntimeKind {
    #[default]
    Containerd,
    /// In the process of the agent.
    Inside,
    /// `podward runtime`.
    Socket,
}

impl RuntimeKind {
    /// As in `PODWARD_RUNTIME`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Inside => "inside",
            Self::Socket => "socket",
        }
    }

    /// The runtime that `PODWARD_RUNTIME` selects.
    ///
    /// # Panics
    /// For an unknown name: a typing error must not select another runtime.
    #[expect(clippy::panic, reason = "the way a test fails")]
    pub fn selected() -> Self {
        let Ok(name) = std::env::var("PODWARD_RUNTIME") else { return Self::Containerd };
        let known = [Self::Containerd, Self::Inside, Self::Socket];
        let found = known.into_iter().find(|kind| kind.name() == name);
        found.unwrap_or_else(|| panic!("PODWARD_RUNTIME={name}: name containerd, inside or socket"))
    }

    /// Arguments of podward with which its agent uses this runtime.
    pub(crate) fn agent_arguments(self, instance: &Instance) -> Vec<String> {
        match self {
            Self::Containerd | Self::Socket => Vec::new(),
            Self::Inside => vec![
                format!("--podward-runtime-listen=unix://{}", instance.socket().display()),
                format!("--podward-pod-bridge={}", instance.bridge()),
                format!("--podward-cni-conf-dir={}", instance.path(NO_CNI).display()),
            ],
        }
    }

    /// Folder of the images and records of podward's runtime.
    fn root(self, instance: &Instance) -> PathBuf {
        match self {
            Self::Containerd | Self::Socket => instance.path("runtime"),
            Self::Inside => instance.path("kubelet/podward/runtime"),
        }
    }
}

/// The runtime of one node. Containers survive [`NodeRuntime::kill`] and [`NodeRuntime::terminate`]; dropping it removes
/// everything.
#[derive(Debug)]
pub enum NodeRuntime {
    Containerd(Containerd),
    Podward(PodwardRuntime),
}

impl NodeRuntime {
    /// Starts the runtime with the test images. One inside an agent starts with the agent.
    pub async fn start(kind: RuntimeKind) -> Result<Self> {
        match kind {
            RuntimeKind::Containerd => Ok(Self::Containerd(Containerd::start().await?)),
            RuntimeKind::Inside | RuntimeKind::Socket => {
                Ok(Self::Podward(PodwardRuntime::start(kind, test_images()?).await?))
            }
        }
    }

    pub fn kind(&self) -> RuntimeKind {
        match self {
            Self::Containerd(_) => RuntimeKind::Containerd,
            Self::Podward(runtime) => runtime.kind,
        }
    }

    pub fn instance(&self) -> &Instance {
        match self {
            Self::Containerd(containerd) => containerd.instance(),
            Self::Podward(runtime) => &runtime.instance,
        }
    }

    /// A new CRI connection, which may be created while the runtime is down.
    pub fn cri(&self) -> CriView {
        CriView::connect(&self.instance().socket())
    }

    /// Sends SIGKILL; containers keep running.
    pub fn kill(&mut self) -> Result<()> {
        match self {
            Self::Containerd(containerd) => containerd.kill(),
            Self::Podward(runtime) => runtime.stop(Signal::KILL),
        }
    }

    /// Sends SIGTERM; containers keep running.
    pub fn terminate(&mut self) -> Result<()> {
        match self {
            Self::Containerd(containerd) => containerd.terminate(),
            Self::Podward(runtime) => runtime.stop(Signal::TERM),
        }
    }

    /// Starts the process again after [`Self::kill`] or [`Self::terminate`] and waits until CRI is ready.
    pub async fn resume(&mut self) -> Result<()> {
        match self {
            Self::Containerd(containerd) => containerd.resume().await,
            Self::Podward(runtime) => runtime.resume().await,
        }
    }

    /// Process ID of a runtime in a separate process.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Containerd(containerd) => containerd.pid(),
            Self::Podward(runtime) => runtime.child.as_ref().map(|running| running.0.id()),
        }
    }
}

/// Podward's runtime, as a process or inside an agent.
#[derive(Debug)]
pub struct PodwardRuntime {
    // Before `instance`, so that the process is reaped before the folder is cleaned.
    child: Option<Running>,
    kind: RuntimeKind,
    instance: Instance,
}

impl PodwardRuntime {
    /// Imports an archive of images, and starts the process if there is one.
    pub async fn start(kind: RuntimeKind, archive: &Path) -> Result<Self> {
        let instance = Instance::create()?;
        let store = kind.root(&instance).join("images");
        let output = Command::new(Agent::Podward.program()?)
            .args(["image", "import", "--store"])
            .args([&store, archive])
            .output()
            .context("start podward image import")?;
        ensure!(output.status.success(), "podward image import: {}", String::from_utf8_lossy(&output.stderr));
        let mut runtime = Self { child: None, kind, instance };
        if kind == RuntimeKind::Socket {
            runtime.resume().await?;
        }
        Ok(runtime)
    }

    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    async fn resume(&mut self) -> Result<()> {
        ensure!(self.kind == RuntimeKind::Socket, "the runtime inside starts with its agent");
        ensure!(self.child.is_none(), "podward runtime is already running");
        let instance = &self.instance;
        let root = self.kind.root(instance);
        let log = File::options().create(true).append(true).open(instance.path("runtime.log"));
        let log = log.context("open runtime.log")?;
        let child = Command::new(Agent::Podward.program()?)
            .arg("runtime")
            .arg(format!("--listen=unix://{}", instance.socket().display()))
            .arg("--root")
            .arg(&root)
            .arg("--state")
            .arg(root.join("run"))
            .arg("--bridge")
            .arg(instance.bridge())
            .arg("--cni-conf-dir")
            .arg(instance.path(NO_CNI))
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share runtime.log")?)
            .stderr(log)
            .spawn()
            .context("start podward runtime")?;
        self.child = Some(Running(child));
        let cri = CriView::connect(&self.instance.socket());
        eventually("podward runtime ready", READY_TIMEOUT, async || cri.ready().await).await
    }

    fn stop(&mut self, signal: Signal) -> Result<()> {
        let mut running = self.child.take().context("podward runtime is not running")?;
        kill(running.0.id(), signal)?;
        running.0.wait().context("wait for podward runtime")?;
        Ok(())
    }
}

/// Kills and removes everything of a runtime whose processes have been killed.
pub(crate) fn reset(instance: &Instance) {
    for kind in [RuntimeKind::Inside, RuntimeKind::Socket] {
        let root = kind.root(instance);
        if !root.join("network").exists() {
            continue;
        }
        let Ok(program) = Agent::Podward.program() else { return };
        let output = Command::new(program)
            .args(["runtime", "--reset", "--bridge", &instance.bridge(), "--root"])
            .arg(&root)
            .arg("--state")
            .arg(root.join("run"))
            .output();
        match output {
            Ok(output) if output.status.success() => {}
            other => println!("podward runtime --reset: {other:?}"),
        }
    }
}
