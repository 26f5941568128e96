//! Starting and stopping the agent.

mod connections;
mod embedded_runtime;
mod environment;
mod faults;
mod locks;
mod machine_check;
mod runtime_handshake;
mod state_check;
mod stop;
mod supervision;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::metrics::Metrics;
use anyhow::Context;
use config::{
    CgroupVersion, Environment, Invocation, LoadedConfig, ProgramName, help_text, load, version_text,
};
use host::{HostPodCgroups, HostUsage, LockFile, MachineFacts, host_capabilities};
use ports::clock::{Clock, SystemClock};
use ports::host::usage::Usage;
use ports::telemetry::log_level::LogLevel;
use runtime::services::SharedImages;

use crate::agent_metrics::agent_metrics;
use crate::trace_export::trace_export;
use crate::version::version_line;
use crate::wire::{self, LocalEndpoint, Running};
use crate::{configz, logging, plan, service_manager};
use connections::{Connected, connected};
use embedded_runtime::EmbeddedRuntime;
use environment::{StartupFacts, adapters, reconcile_mounts, restore_allocations};
use locks::await_lock;
pub(crate) use locks::lock_state;
use machine_check::{check_machine, log_notices, prepare_root};
use runtime_handshake::{RuntimeFacts, connect, handshake};
use state_check::check_state;
pub(crate) use stop::{Stop, stop_signals};
use supervision::supervise;
pub(crate) use supervision::{drain, unexpected_end};

/// Blocking threads for file access.
const FILE_THREADS: usize = 16;
/// Blocking threads of the container runtime inside.
const RUNTIME_THREADS: usize = 32;
/// The folder of the agent's own state, below the root folder.
const STATE_FOLDER: &str = "podward";
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// Runs the agent with the arguments after its name.
///
/// # Errors
/// When the agent cannot start, or one of its stages ends.
pub fn agent(arguments: &[String], called_as: ProgramName) -> anyhow::Result<ExitCode> {
    let loaded = match load_configuration(arguments)? {
        Invocation::Help => {
            print!("{}", help_text(called_as));
            return Ok(ExitCode::SUCCESS);
        }
        Invocation::Version(_) => {
            println!("{}", version_text(called_as, &version_line()));
            return Ok(ExitCode::SUCCESS);
        }
        Invocation::Run(loaded) => loaded,
    };
    let (spans, exporter) = trace_export(&loaded.config)?.unzip();
    let log_level = logging::set_up(&loaded.config, spans);
    let cgroups = detected_cgroups()?;
    let start = AgentStart { loaded: &loaded, called_as, cgroups, log_level, exporter, guest: None };
    if loaded.config.pods.run_once {
        return crate::command::run_pods::run_once(start, &loaded);
    }
    let runtime = async_runtime()?;
    let result = runtime.block_on(run(start));
    runtime.shutdown_timeout(Duration::from_secs(1));
    result.map(|()| ExitCode::SUCCESS)
}

/// Reads flags and configuration files.
pub(crate) fn load_configuration(arguments: &[String]) -> anyhow::Result<Invocation> {
    let environment = Environment {
        working_directory: std::env::current_dir().context("find the working directory")?,
        cgroup: match detected_cgroups().map(|cgroups| cgroups.version()) {
            Ok(model::CgroupVersion::V1) => CgroupVersion::V1,
            Ok(model::CgroupVersion::V2) => CgroupVersion::V2,
            Err(_) => CgroupVersion::Unknown,
        },
    };
    load(arguments, &environment).map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))
}

pub(crate) fn detected_cgroups() -> anyhow::Result<HostPodCgroups> {
    HostPodCgroups::detect(Path::new(CGROUP_ROOT)).context("read the cgroup hierarchies below /sys/fs/cgroup")
}

/// The async runtime of an agent.
pub(crate) fn async_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    host::limit_malloc_arenas();
    // Two workers are plenty for an agent that mostly waits, and keep its memory small.
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // Calls that may hang are limited separately, so that they cannot use up these threads.
        .max_blocking_threads(
            FILE_THREADS + RUNTIME_THREADS + host::HANGING_IO_THREADS + outbound::MAX_LOOKUP_THREADS,
        )
        .thread_stack_size(1024 * 1024)
        .enable_all()
        .build()
        .context("start the async runtime")
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// How an agent is started.
pub(crate) struct AgentStart<'a> {
    pub(crate) loaded: &'a LoadedConfig,
    pub(crate) called_as: ProgramName,
    pub(crate) cgroups: HostPodCgroups,
    pub(crate) log_level: Arc<dyn LogLevel>,
    pub(crate) exporter: Option<otlp::Exporter>,
    /// `None` for the agent of the machine.
    pub(crate) guest: Option<Guest>,
}

/// An agent beside the agent of the machine, whose images it uses.
pub(crate) struct Guest {
    pub(crate) images: SharedImages,
}

/// A running agent; keeps its locks, its socket and its runtime.
pub(crate) struct StartedAgent {
    pub(crate) running: Running,
    pub(crate) embedded: Option<EmbeddedRuntime>,
    _local_endpoint: LocalEndpoint,
    _locks: Vec<LockFile>,
}

async fn run(start: AgentStart<'_>) -> anyhow::Result<()> {
    let mut stop = stop_signals()?;
    match start_agent(start, &mut stop).await? {
        Some(started) => supervise(started.running, &mut stop).await,
        None => Ok(()),
    }
}

/// Starts all stages. `None` when the agent is stopped meanwhile.
pub(crate) async fn start_agent(
    start: AgentStart<'_>,
    stop: &mut Stop,
) -> anyhow::Result<Option<StartedAgent>> {
    let AgentStart { loaded, called_as, cgroups, log_level, exporter, guest } = start;
    let started_at = SystemClock.now();
    log_notices(loaded);
    check_machine(loaded, &cgroups, guest.is_some())?;
    prepare_root(loaded)?;
    let root = &loaded.flags.root_dir;
    let state = root.join(STATE_FOLDER);
    let mut locks = vec![locks::lock_state(&state).await?];
    check_state(&state).await?;
    if let Some(path) = &loaded.flags.lock_file {
        match await_lock(path, stop).await? {
            Some(lock) => locks.push(lock),
            None => return Ok(None),
        }
    }
    locks::watch_contention(loaded, stop)?;

    let local_endpoint = LocalEndpoint::open(&state, waits_for(loaded)).await?;
    let metrics = Arc::new(Metrics::new());
    metrics.add(Arc::new(agent_metrics(loaded, cgroups.version())));
    let own_folders = guest.is_some();
    let embedded = match embedded_runtime::is_wanted(loaded, called_as) {
        true => Some(embedded_runtime::open(&state, loaded, guest.map(|guest| guest.images)).await?),
        false => None,
    };
    let runtime = connect(loaded, embedded.as_ref().map(|embedded| embedded.serving.channel()), &metrics)?;
    let facts = MachineFacts::default();
    let Some(RuntimeFacts { runtime_name, driver, features }) =
        handshake(&*runtime, loaded, &metrics, stop).await?
    else {
        return Ok(None);
    };
    let cgroups = cgroups.with_driver(driver).map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))?;
    let [sys, proc, top] = ["/sys", "/proc", "/"].map(Path::new);
    let capabilities = host_capabilities(sys, proc, top, cgroups.version());
    let mut plan = plan::plan(loaded, &facts, capabilities, driver)?;
    features.into_iter().for_each(|feature| plan.declare(feature));
    if own_folders {
        // Device plugins register with the agent of the machine.
        plan.device_plugins = root.join("device-plugins");
    }
    agent::node::node_cgroups::prepare(&cgroups, &plan.settings).await?;
    let allocations = restore_allocations(root, &plan, &metrics).await?;
    let debug_pages = (configz::zpages(loaded, driver), configz::profiling(loaded, log_level));
    let Connected { api, serving, mut upkeep } =
        connected(loaded, &plan, &state, &metrics, debug_pages).await?;
    upkeep.exporter = exporter;
    let usage = HostUsage::new(Path::new(CGROUP_ROOT), cgroups.version())
        .map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))?;
    metrics.node_start.agent_started(started_at, usage.booted_at().await);
    let found = StartupFacts {
        state,
        runtime,
        runtime_name,
        cgroups,
        facts,
        usage,
        allocations,
        metrics,
        api,
        serving,
    };
    let adapters = adapters(loaded, &plan, found);
    tracing::info!(node = %plan.settings.name, root = %root.display(), "{} starts", version_line());
    reconcile_mounts(&adapters).await;
    let mut running = wire::start(adapters, plan)?;
    local_endpoint.serve(running.local.clone());
    upkeep.start(&mut running);
    service_manager::ready();
    Ok(Some(StartedAgent { running, embedded, _local_endpoint: local_endpoint, _locks: locks }))
}

fn waits_for(loaded: &LoadedConfig) -> String {
    format!(
        "the agent has just started and waits for the container runtime at {}",
        loaded.config.images.container_runtime_endpoint
    )
}
