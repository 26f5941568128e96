//! The processes of a control plane.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, mount};

use super::ControlPlaneOptions;
use super::ports::Ports;
use super::program;
use super::reaper::Reaper;
use crate::containerd::Running;

mod arguments;

#[derive(Debug)]
pub(super) struct Components {
    folder: PathBuf,
    ports: Ports,
    options: ControlPlaneOptions,
    scheduler: Option<Running>,
    controller_manager: Option<Running>,
    api_server: Option<Running>,
    etcd: Option<Running>,
    // Last: by the time it is dropped, it only has the folder to remove.
    reaper: Reaper,
}

impl Components {
    pub(super) fn new(folder: &Path, ports: Ports, options: ControlPlaneOptions) -> Result<Self> {
        let reaper = Reaper::start(folder)?;
        let folder = folder.to_path_buf();
        let (scheduler, controller_manager, api_server, etcd) = (None, None, None, None);
        Ok(Self { folder, ports, options, scheduler, controller_manager, api_server, etcd, reaper })
    }

    /// The data is in memory: it does not have to survive a power cut, and syncing it would slow every write.
    pub(super) fn start_etcd(&mut self) -> Result<()> {
        let data = self.folder.join("etcd");
        fs::create_dir_all(&data).context("create etcd's folder")?;
        mount("tmpfs", &data, "tmpfs", MountFlags::empty(), None).context("mount etcd's folder")?;
        self.etcd = Some(self.spawn("etcd", &arguments::etcd(&self.folder, self.ports))?);
        self.update_reaper()
    }

    pub(super) fn start_api_server(&mut self) -> Result<()> {
        ensure!(self.api_server.is_none(), "the API server is already running");
        let arguments = arguments::api_server(&self.folder, self.ports, &self.options);
        self.api_server = Some(self.spawn("kube-apiserver", &arguments)?);
        self.update_reaper()
    }

    pub(super) fn stop_api_server(&mut self) -> Result<()> {
        drop(self.api_server.take().context("the API server is not running")?);
        self.update_reaper()
    }

    pub(super) fn api_server_runs(&self) -> bool {
        self.api_server.is_some()
    }

    /// Starts or restarts controllers and scheduler.
    pub(super) fn restart_controllers(&mut self) -> Result<()> {
        self.restart_controller_manager()?;
        drop(self.scheduler.take());
        self.scheduler = Some(self.spawn("kube-scheduler", &arguments::scheduler(&self.folder))?);
        self.update_reaper()
    }

    pub(super) fn sign_for(&mut self, duration: Duration) -> Result<()> {
        self.options.signing_duration = duration;
        self.restart_controller_manager()?;
        self.update_reaper()
    }

    fn restart_controller_manager(&mut self) -> Result<()> {
        drop(self.controller_manager.take());
        let arguments = arguments::controller_manager(&self.folder, &self.options);
        self.controller_manager = Some(self.spawn("kube-controller-manager", &arguments)?);
        Ok(())
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        let all = [&self.etcd, &self.api_server, &self.controller_manager, &self.scheduler];
        all.into_iter().flatten().map(|running| running.0.id()).collect()
    }

    /// Fails with the name of the first process that has exited.
    pub(super) fn check(&mut self) -> Result<()> {
        let all = [&mut self.etcd, &mut self.api_server, &mut self.controller_manager, &mut self.scheduler];
        for running in all.into_iter().flatten() {
            let ended = running.0.try_wait().context("check the control plane process")?;
            ensure!(ended.is_none(), "process {} of the control plane ended: {ended:?}", running.0.id());
        }
        Ok(())
    }

    fn spawn(&self, name: &str, arguments: &[String]) -> Result<Running> {
        let log = self.folder.join(format!("{name}.log"));
        let log = File::options().create(true).append(true).open(&log);
        let log = log.with_context(|| format!("open the log of {name}"))?;
        let child = Command::new(program::path(name))
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share the log")?)
            .stderr(log)
            .spawn();
        Ok(Running(child.with_context(|| format!("start {name}"))?))
    }

    fn update_reaper(&mut self) -> Result<()> {
        let processes = self.processes();
        self.reaper.watch(&processes)
    }
}
