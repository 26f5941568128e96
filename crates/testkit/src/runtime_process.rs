//! `podward runtime` as a process with its own folders.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::agent_process::Agent;
use crate::containerd::{Running, tail};
use crate::cri_view::CriView;
use crate::instance::{Instance, kill};
use crate::poll::eventually;

const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The embedded runtime alone, on the socket of an instance. Dropping it kills its process; containers end with the instance.
#[derive(Debug)]
pub struct RuntimeProcess {
    // Before `instance`, so that the process is reaped before the folder is cleaned.
    child: Running,
    instance: Instance,
}

impl RuntimeProcess {
    /// Starts `podward runtime`. If the instance has a folder `hosts`, it contains the settings of registries.
    pub async fn start_in(instance: Instance) -> Result<Self> {
        let child = Running(spawn(&instance)?);
        let runtime = Self { child, instance };
        let cri = runtime.cri();
        let ready = eventually("podward runtime ready", READY_TIMEOUT, async || cri.ready().await).await;
        ready.with_context(|| format!("runtime.log ends with\n{}", tail(&runtime.log(), 30)))?;
        Ok(runtime)
    }

    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// A new CRI connection.
    pub fn cri(&self) -> CriView {
        CriView::connect(&self.instance.socket())
    }

    /// Stops and removes all pods, then asks the process to end and waits for it.
    pub async fn finish(mut self) -> Result<()> {
        self.cri().remove_all().await?;
        kill(self.child.0.id(), Signal::TERM)?;
        self.child.0.wait().context("wait for podward runtime")?;
        Ok(())
    }

    pub fn log(&self) -> PathBuf {
        log_path(&self.instance)
    }
}

fn spawn(instance: &Instance) -> Result<Child> {
    let program = Agent::Podward.program()?;
    let log =
        File::options().create(true).append(true).open(log_path(instance)).context("open runtime.log")?;
    Command::new(&program)
        .arg("runtime")
        .arg(format!("--listen=unix://{}", instance.socket().display()))
        .arg(argument("root", &instance.path("root")))
        .arg(argument("state", &instance.path("state")))
        .arg(argument("registry-config", &instance.path("hosts")))
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("share runtime.log")?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("start {}", program.display()))
}

fn argument(name: &str, folder: &Path) -> String {
    format!("--{name}={}", folder.display())
}

fn log_path(instance: &Instance) -> PathBuf {
    instance.path("runtime.log")
}
