//! Starting and stopping the agent.

mod connections;
mod greeting;
mod locks;
mod machine_check;
mod stop;
mod supervision;
mod surroundings;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::metrics::Metrics;
use anyhow::Context;
use config::{CalledAs, CgroupVersion, Environment, Invocation, Loaded, help_text, load, version_text};
use host::{HostPodCgroups, HostUsage, MachineFacts, host_capabilities};
use ports::clock::{Clock, SystemClock};
use ports::log_level::LogLevel;
use ports::usage::Usage;

use crate::agent_facts::agent_facts;
use crate::trace_export::trace_export;
use crate::wire::{LocalDoor, start};
use crate::{logging, plan, self_portrait, service_manager};
use connections::{Connected, connected};
use greeting::{Greeted, connect, greet};
use locks::await_lock;
use machine_check::{check_machine, prepare_root, tell_about};
use stop::stop_signals;
use supervision::supervise;
use surroundings::{Found, reconcile_mounts, restore_allocations, world};

/// Threads for file work.
const FILE_THREADS: usize = 16;
/// Where the agent keeps its own state below the root folder.
const STATE_FOLDER: &str = "podward";
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// Runs the agent with the arguments after its name.
///
/// # Errors
/// Why it could not start, or went down.
pub fn agent(arguments: &[String], called_as: CalledAs) -> anyhow::Result<ExitCode> {
    let cgroups = HostPodCgroups::detect(Path::new(CGROUP_ROOT)).ok();
    let environment = Environment {
        working_directory: std::env::current_dir().context("find the working directory")?,
        cgroup: match cgroups.as_ref().map(HostPodCgroups::version) {
            Some(model::CgroupVersion::V1) => CgroupVersion::V1,
            Some(model::CgroupVersion::V2) => CgroupVersion::V2,
            None => CgroupVersion::Unknown,
        },
    };
    let loaded =
        match load(arguments, &environment).map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))? {
            Invocation::Help => {
                print!("{}", help_text(called_as));
                return Ok(ExitCode::SUCCESS);
            }
            Invocation::Version(_) => {
                println!("{}", version_text(called_as).trim_end());
                return Ok(ExitCode::SUCCESS);
            }
            Invocation::Run(loaded) => loaded,
        };
    let (spans, exporter) = trace_export(&loaded.config)?.unzip();
    let log_level = logging::set_up(&loaded.config, spans);
    let cgroups = cgroups.context("read the cgroup hierarchies below /sys/fs/cgroup")?;
    host::share_memory_pools();
    // Two workers are plenty for an agent that mostly waits, and keep its memory small.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // What may hang has places of its own, so that it leaves these to the rest.
        .max_blocking_threads(FILE_THREADS + host::FOREIGN_PLACES + outbound::LOOKUP_PLACES)
        .thread_stack_size(1024 * 1024)
        .enable_all()
        .build()
        .context("start the async runtime")?;
    let result = runtime.block_on(run(&loaded, cgroups, (log_level, exporter)));
    runtime.shutdown_timeout(Duration::from_secs(1));
    result.map(|()| ExitCode::SUCCESS)
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

async fn run(
    loaded: &Loaded,
    cgroups: HostPodCgroups,
    (log_level, exporter): (Arc<dyn LogLevel>, Option<otlp::Exporter>),
) -> anyhow::Result<()> {
    let started_at = SystemClock.now();
    tell_about(loaded);
    check_machine(loaded, &cgroups)?;
    prepare_root(loaded)?;
    let root = &loaded.flags.root_dir;
    let state = root.join(STATE_FOLDER);
    let _own_lock = locks::own(&state)?;
    let mut stop = stop_signals()?;
    let _asked_lock = match &loaded.flags.lock_file {
        Some(path) => match await_lock(path, &mut stop).await? {
            Some(lock) => Some(lock),
            None => return Ok(()),
        },
        None => None,
    };
    locks::watch_contention(loaded, &mut stop)?;

    let waits_for = format!(
        "the agent has just started and waits for the container runtime at {}",
        loaded.config.images.container_runtime_endpoint
    );
    let door = LocalDoor::open(&state, waits_for).await?;
    let metrics = Arc::new(Metrics::new());
    metrics.add(Arc::new(agent_facts(loaded, cgroups.version())));
    let runtime = connect(loaded, &metrics)?;
    let facts = MachineFacts::default();
    let Some(Greeted { runtime_name, driver, features }) =
        greet(&*runtime, loaded, &metrics, &mut stop).await?
    else {
        return Ok(());
    };
    let cgroups = cgroups.with_driver(driver).map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))?;
    let [sys, proc, top] = ["/sys", "/proc", "/"].map(Path::new);
    let capabilities = host_capabilities(sys, proc, top, cgroups.version());
    let mut plan = plan::plan(loaded, &facts, capabilities, driver)?;
    features.into_iter().for_each(|feature| plan.declare(feature));
    agent::node_cgroups::prepare(&cgroups, &plan.settings).await?;
    let allocations = restore_allocations(root).await?;
    let portrait = (self_portrait::about(loaded, driver), self_portrait::profiling(loaded, log_level));
    let Connected { api, serving, mut upkeep } = connected(loaded, &plan, &state, &metrics, portrait).await?;
    upkeep.exporter = exporter;
    let usage = HostUsage::new(Path::new(CGROUP_ROOT), cgroups.version())
        .map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))?;
    metrics.node_start.agent_started(started_at, usage.booted_at().await);
    let found =
        Found { state, runtime, runtime_name, cgroups, facts, usage, allocations, metrics, api, serving };
    let world = world(loaded, &plan, found);
    tracing::info!(node = %plan.settings.name, root = %root.display(), "podward {} starts", env!("CARGO_PKG_VERSION"));
    reconcile_mounts(&world).await;
    let mut running = start(world, plan)?;
    door.admit(running.local.clone());
    upkeep.start(&mut running);
    service_manager::ready();
    supervise(running, &mut stop).await
}
