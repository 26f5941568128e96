//! A private containerd beside the installed one, if any.
//!
//! It has its own root, state, socket, network and image store under an [`Instance`]. Containers run in shims and
//! survive [`Containerd::kill`] and [`Containerd::terminate`]; dropping the instance kills them by process ID.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use crate::cri_view::CriView;
use crate::instance::{Instance, kill};
use crate::poll::eventually;
use crate::{images, process};

mod config;

const READY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Containerd {
    // Before `instance`, so that the process is reaped before the folder is cleaned.
    child: Option<Running>,
    binary: PathBuf,
    instance: Instance,
}

impl Containerd {
    /// Starts Debian's containerd (or the one in `PODWARD_CONTAINERD`) and imports the test images.
    pub async fn start() -> Result<Self> {
        let binary =
            std::env::var_os("PODWARD_CONTAINERD").map_or("/usr/bin/containerd".into(), PathBuf::from);
        Self::start_binary(&binary).await
    }

    /// Starts the containerd at `binary`; its shim is expected in the same folder.
    pub async fn start_binary(binary: &Path) -> Result<Self> {
        Self::start_in(Instance::create()?, binary).await
    }

    /// Starts the containerd at `binary` in an instance. If the instance has a folder `hosts`, it contains the settings of registries.
    pub async fn start_in(instance: Instance, binary: &Path) -> Result<Self> {
        ensure!(binary.exists(), "{} is missing: run tools/setup.sh", binary.display());
        let archive = test_images()?;
        config::write(&instance, &version(binary)?)?;
        let mut containerd = Self { child: None, binary: binary.to_path_buf(), instance };
        containerd.resume().await?;
        containerd.import(archive)?;
        eventually("images known to CRI", READY_TIMEOUT, async || {
            let known = containerd.cri().images().await?;
            for name in [images::PAUSE, images::DEMO, images::DEMO_2, images::BUSYBOX] {
                ensure!(known.iter().any(|image| image == name), "{name} missing in {known:?}");
            }
            Ok(())
        })
        .await?;
        Ok(containerd)
    }

    /// Starts the process again after [`Self::kill`] or [`Self::terminate`] and waits until CRI is ready.
    pub async fn resume(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "containerd is already running");
        let log = self.instance.path("containerd.log");
        let log = File::options().create(true).append(true).open(&log).context("open containerd.log")?;
        let near = self.binary.parent().unwrap_or(Path::new("/")).display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let child = Command::new(&self.binary)
            .arg("--config")
            .arg(self.instance.path("config.toml"))
            .env("PATH", format!("{near}:{path}:/usr/sbin:/sbin"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share containerd.log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", self.binary.display()))?;
        self.child = Some(Running(child));
        let cri = self.cri();
        let ready = eventually("containerd ready", READY_TIMEOUT, async || cri.ready().await).await;
        ready.with_context(|| format!("containerd.log ends with\n{}", self.log_tail(30)))
    }

    /// Sends SIGKILL; containers keep running.
    pub fn kill(&mut self) -> Result<()> {
        self.stop(Signal::KILL)
    }

    /// Sends SIGTERM; containers keep running.
    pub fn terminate(&mut self) -> Result<()> {
        self.stop(Signal::TERM)
    }

    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// A new CRI connection, which may be created while containerd is down.
    pub fn cri(&self) -> CriView {
        CriView::connect(&self.instance.socket())
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(|running| running.0.id())
    }

    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.instance.path("containerd.log"), lines)
    }

    fn stop(&mut self, signal: Signal) -> Result<()> {
        let mut running = self.child.take().context("containerd is not running")?;
        kill(running.0.id(), signal)?;
        running.0.wait().context("wait for containerd")?;
        Ok(())
    }

    fn import(&self, archive: &Path) -> Result<()> {
        let near = self.binary.with_file_name("ctr");
        let ctr = if near.exists() { near } else { "ctr".into() };
        let output = Command::new(ctr)
            .arg("--address")
            .arg(self.instance.socket())
            .args(["--namespace", "k8s.io", "images", "import", "--snapshotter"])
            .arg(config::snapshotter())
            .arg(archive)
            .output()
            .context("start ctr images import")?;
        if !output.status.success() {
            bail!("ctr images import: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

/// Kills its process on drop, so that a failed test leaves no process behind.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        if !process::is_zombie(self.0.id()) {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

fn version(binary: &Path) -> Result<String> {
    let output = Command::new(binary).arg("--version").output().context("start containerd --version")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let word = text.split_whitespace().nth(2).context("read containerd --version")?;
    Ok(word.trim_start_matches('v').to_owned())
}

/// The archive of test images, written once per test process.
pub(crate) fn test_images() -> Result<&'static Path> {
    static ARCHIVE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = images::workspace().join("target/test-images");
    let archive =
        ARCHIVE.get_or_init(|| images::write_test_images(&folder).map_err(|error| format!("{error:#}")));
    archive.as_deref().map_err(|error| anyhow::anyhow!("{error}"))
}
