//! `podward run`: runs pods in the foreground with the container runtime inside, and returns their result.
//!
//! A run is a separate agent beside the agent of the machine: with another folder, cgroup and bridge, and with the images of the
//! machine's agent. `runOnce` in a configuration runs the pods of `staticPodPath` in the same way, with the folders of
//! that configuration.

mod configuration;
mod display;
mod folder;
mod log_streams;
mod manifests;
mod outcome;
mod rows;
mod session;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use config::{LoadedConfig, ProgramName};

use super::arguments::Connection;
use super::client::Client;
use super::terminal;
use crate::logging;
use crate::run::{AgentStart, Guest, async_runtime, detected_cgroups, start_agent, stop_signals};
use display::Display;
use folder::RunFolder;
use log_streams::LogStreams;
use manifests::Manifests;
use session::{Logs, Session};

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// Manifest files or folders; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print what containers write
    #[arg(short, long)]
    logs: bool,
    /// Print nothing but what containers write
    #[arg(short, long)]
    quiet: bool,
    /// Use this folder and keep it: logs of containers, and of the run in podward.log [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
    /// The folder of the image store
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/podward/runtime/images")]
    image_store: PathBuf,
    /// Verbosity of podward.log
    #[arg(short, long, default_value_t = 2)]
    v: u32,
}

/// The output of a run.
#[derive(Clone, Copy, Debug)]
struct Shown {
    logs: bool,
    quiet: bool,
}

pub(super) fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let manifests = manifests::read(&arguments.files, std::io::stdin().lock())?;
    if !rustix::process::geteuid().is_root() {
        bail!("running pods needs root");
    }
    for warning in &manifests.warnings {
        eprintln!("warning: {warning}");
    }
    let folder = match &arguments.root_dir {
        Some(root) => RunFolder::kept(root)?,
        None => RunFolder::temporary()?,
    };
    let loaded = configuration::load(&folder, arguments.v)?;
    let log = folder.root().join("podward.log");
    let log = std::fs::File::create(&log).with_context(|| format!("create {}", log.display()))?;
    let log_level = logging::set_up_in_file(log, arguments.v);
    let cgroups = detected_cgroups()?;
    let runtime = async_runtime()?;
    let code = runtime.block_on(async {
        for leftover in RunFolder::leftovers() {
            let root = leftover.root().to_owned();
            if let Err(error) = leftover.reset(&arguments.image_store, &cgroups).await {
                eprintln!("warning: failed to remove the killed run {}: {error:#}", root.display());
            }
        }
        folder.make_cgroup(&cgroups).await?;
        let start = AgentStart {
            loaded: &loaded,
            called_as: ProgramName::Podward,
            cgroups: cgroups.clone(),
            log_level,
            exporter: None,
            guest: Some(Guest { images: folder.shared_images(&arguments.image_store) }),
        };
        let shown = Shown { logs: arguments.logs || arguments.quiet, quiet: arguments.quiet };
        let staging = configuration::staging(folder.root());
        let result = run_pods(start, &manifests, staging, shown).await;
        let removed = match &result {
            Ok(_) => folder.remove(&cgroups).await,
            // Something may still run.
            Err(_) => folder.reset(&arguments.image_store, &cgroups).await,
        };
        let code = result?;
        removed.map(|()| code)
    });
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    code.map(ExitCode::from)
}

/// The mode `runOnce` of an agent: runs the pods of `staticPodPath` until they have ended.
pub(crate) fn run_once(start: AgentStart<'_>, loaded: &LoadedConfig) -> anyhow::Result<ExitCode> {
    let server = &loaded.config.server;
    if loaded.flags.kubeconfig.is_some() || !server.static_pod_url.is_empty() {
        bail!("runOnce: only pods of staticPodPath can be run once; remove staticPodURL and --kubeconfig");
    }
    if server.static_pod_path.is_empty() {
        bail!("runOnce: set staticPodPath to the manifests of the pods to run");
    }
    let manifests = manifests::read(&[PathBuf::from(&server.static_pod_path)], std::io::empty())?;
    let staging = configuration::staging(&loaded.flags.root_dir.join("podward"));
    let mut changed = loaded.clone();
    changed.config.server.static_pod_path = staging.display().to_string();
    let start = AgentStart { loaded: &changed, ..start };
    let runtime = async_runtime()?;
    let code = runtime.block_on(run_pods(start, &manifests, staging, Shown { logs: false, quiet: false }));
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    code.map(ExitCode::from)
}

async fn run_pods(
    start: AgentStart<'_>,
    manifests: &Manifests,
    staging: PathBuf,
    shown: Shown,
) -> anyhow::Result<u8> {
    let mut stop = stop_signals()?;
    std::fs::create_dir_all(&staging).with_context(|| format!("create {}", staging.display()))?;
    // Of a run that was killed.
    manifests::withdraw(&staging)?;
    manifests.stage(&staging)?;
    let logs = shown.logs.then(|| logs(&start.loaded.flags.root_dir));
    let Some(agent) = start_agent(start, &mut stop).await? else { return Ok(130) };
    let session = Session { agent, staging, expected: manifests.pods, display: display(shown), logs };
    session.run(&mut stop).await
}

fn logs(root: &Path) -> Logs {
    let connection = Connection { root_dir: Some(root.to_owned()), ..Connection::default() };
    let (streams, lines) = LogStreams::new(Client::from_flags(&connection));
    Logs { streams, lines }
}

fn display(shown: Shown) -> Display<Box<dyn std::io::Write>> {
    let out: Box<dyn std::io::Write> = Box::new(std::io::stdout());
    match terminal::size() {
        _ if shown.quiet => Display::quiet(out),
        Some((width, height)) if std::io::stdout().is_terminal() => Display::table(out, width, height),
        _ => Display::lines(out),
    }
}
