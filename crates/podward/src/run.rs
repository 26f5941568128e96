//! Starting and stopping the agent.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::allocations::{ACTUATED, ALLOCATED, Allocations};
use agent::metrics::{CertificateMetrics, Metrics};
use anyhow::{Context, bail};
use cluster::identity::Meters;
use config::{CalledAs, CgroupVersion, Environment, Gate, Invocation, Loaded, help_text, load, version_text};
use cri::{CriClient, Endpoint};
use host::{
    ExecCredentialPrograms, FileCheckpoints, FileUserNamespaceRecords, HostDiskUsage, HostFilesystems,
    HostLogFiles, HostLogind, HostNodeLogs, HostPodCgroups, HostPodFolders, HostPodVolumes, HostRotatedLogs,
    HostTerminationMessages, HostUsage, InotifyFolderWatch, IptablesFilter, KernelLogDevice, LockError,
    LockFile, MachineFacts, NodeCredentialFiles, PidfdProcessWatch, PullRecordFiles, StateFiles, Tunables,
    host_capabilities, kernel_tunables,
};
use model::CgroupDriver;
use outbound::NetworkOutbound;
use ports::certificate_meter::CertificateMeter;
use ports::checkpoints::Checkpoints;
use ports::clock::{Clock, SystemClock};
use ports::log_level::LogLevel;
use ports::runtime::{Runtime, RuntimeErrorKind};
use ports::usage::Usage;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agent_facts::agent_facts;
use crate::trace_export::trace_export;
use crate::wire::{LocalDoor, Running, World, start};
use crate::{join, logging, plan, pod_cidr, self_portrait, service_manager, serving};

/// When the start is surely over.
const START_TIME: Duration = Duration::from_secs(5);
/// Threads for file work.
const FILE_THREADS: usize = 16;
/// Where the agent keeps its own state below the root folder.
const STATE_FOLDER: &str = "podward";
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// Where the system bus listens.
const SYSTEM_BUS: &str = "unix:path=/run/dbus/system_bus_socket";
const LOG_LINKS: &str = "/var/log/containers";
/// Time between two looks for free memory.
const MEMORY_PERIOD: Duration = Duration::from_secs(15);
/// Time between two attempts to take a lock that is held.
const LOCK_PERIOD: Duration = Duration::from_millis(200);
/// How long stages may take to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

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
    let root = &loaded.flags.root_dir;
    host::make_root_folder(root, Path::new(&loaded.config.server.pod_logs_dir))
        .map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))?;
    if let Err(error) = host::label_plugin_folders(root) {
        tracing::warn!(error = %with_cause(&error), "drivers without privileges may not work");
    }
    if let Err(error) = host::make_rshared(root) {
        tracing::warn!(root = %root.display(), %error, "mounts below the root folder will not propagate");
    }
    // Two agents on one root folder would fight over every pod.
    let state = root.join(STATE_FOLDER);
    std::fs::create_dir_all(&state).with_context(|| format!("make the folder {}", state.display()))?;
    let _own_lock = LockFile::acquire(&state.join("lock")).map_err(|error| {
        anyhow::anyhow!("{}; is another podward running on this root folder?", with_cause(&error))
    })?;
    let mut stop = stop_signals()?;
    let _asked_lock = match &loaded.flags.lock_file {
        Some(path) => match await_lock(path, &mut stop).await? {
            Some(lock) => Some(lock),
            None => return Ok(()),
        },
        None => None,
    };
    if let Some(path) = loaded.flags.lock_file.as_ref().filter(|_| loaded.flags.exit_on_lock_contention) {
        let contention = host::lock_contention(path)
            .with_context(|| format!("--exit-on-lock-contention: watch {}", path.display()))?;
        stop.contention = Some(Box::pin(contention));
    }

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
    let capabilities = host_capabilities(Path::new("/sys"), Path::new("/proc"), cgroups.version());
    let mut plan = plan::plan(loaded, &facts, capabilities, driver)?;
    features.into_iter().for_each(|feature| plan.declare(feature));
    agent::node_cgroups::prepare(&cgroups, &plan.settings).await?;
    let folders = Arc::new(HostPodFolders::new(root, &plan.settings.pod_logs_dir, LOG_LINKS));
    let messages = Arc::new(HostTerminationMessages::new(root, &plan.settings.pod_logs_dir));
    let allocations = restore_allocations(root).await?;
    let certificates = Arc::new(CertificateMetrics::new(Arc::new(SystemClock)));
    metrics.add(certificates.clone());
    let meters = Meters { requests: metrics.api.clone(), certificates: certificates.clone() };
    let joined = join::join(loaded, &plan.settings.name, &state, meters).await?;
    let (serving, serving_upkeep) = match &plan.server {
        Some(_) => {
            let clients =
                joined.as_ref().map(|joined| (&joined.clients, certificates as Arc<dyn CertificateMeter>));
            let node = (plan.settings.name.as_str(), plan.settings.addresses.as_slice());
            let portrait =
                (self_portrait::about(loaded, driver), self_portrait::profiling(loaded, log_level));
            serving::serving(loaded, clients, node, portrait)
                .context("set up the main port")
                .map(|(serving, upkeep)| (Some(serving), upkeep))?
        }
        None => (None, None),
    };
    let (api, identity) = joined.map(|joined| (joined.api, joined.upkeep)).unzip();
    // Volumes are attached by a controller where there is one.
    let by_controller = api.is_some() && loaded.config.volumes.enable_controller_attach_detach;
    let attaches_as = (!by_controller).then(|| plan.settings.name.clone());
    let usage = HostUsage::new(Path::new(CGROUP_ROOT), cgroups.version())
        .map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))?;
    metrics.node_start.agent_started(started_at, usage.booted_at().await);
    let world = World {
        allocations,
        runtime,
        runtime_name,
        processes: Arc::new(PidfdProcessWatch),
        env_files: folders.clone(),
        logs: folders.clone(),
        folders,
        messages,
        volumes: Arc::new(
            HostPodVolumes::new(root)
                .with_drivers(loaded.config.volumes.volume_plugin_dir.clone(), attaches_as),
        ),
        system_cgroups: Arc::new(cgroups.of_system(Path::new("/proc"))),
        cgroups: Arc::new(cgroups),
        host: Arc::new(facts),
        credential_files: Arc::new(credential_files(root)),
        credential_programs: Arc::new(ExecCredentialPrograms::new(
            loaded.flags.image_credential_provider_bin_dir.clone().unwrap_or_default(),
        )),
        pull_records: Arc::new(PullRecordFiles::new(root)),
        user_namespaces: Arc::new(FileUserNamespaceRecords::new(root)),
        node_logs: Arc::new(HostNodeLogs::new("/var/log", "journalctl")),
        log_files: Arc::new(HostLogFiles::new(&plan.settings.pod_logs_dir)),
        rotated_logs: Arc::new(HostRotatedLogs::new(&plan.settings.pod_logs_dir)),
        filesystems: Arc::new(HostFilesystems),
        memory_thresholds: Arc::new(usage.clone()),
        usage: Arc::new(usage),
        disk_usage: Arc::new(HostDiskUsage::default()),
        checkpoints: Arc::new(FileCheckpoints::new(state)),
        state_files: Arc::new(StateFiles::new(root)),
        watch: Arc::new(InotifyFolderWatch),
        outbound: Arc::new(NetworkOutbound::new()),
        kernel_log: Arc::new(KernelLogDevice::new("/dev/kmsg")),
        logind: Arc::new(logind()),
        packet_filter: Arc::new(IptablesFilter::new("iptables", "ip6tables")),
        clock: Arc::new(SystemClock),
        metrics,
        api,
        serving,
    };
    tracing::info!(node = %plan.settings.name, root = %root.display(), "podward {} starts", env!("CARGO_PKG_VERSION"));
    match world.volumes.reconcile_mounts().await {
        Ok(found) => {
            let storage = &world.metrics.storage;
            storage.found_again.add(count(found.live + found.stale + found.adopted));
            storage.lost.add(count(found.stale));
            tracing::info!(live = found.live, stale = found.stale, adopted = found.adopted, "mounts of pods");
        }
        Err(error) => {
            tracing::warn!(error = %error.text(), "the journal of mounts could not be brought in line");
        }
    }
    let mut running = start(world, plan)?;
    door.admit(running.local.clone());
    let watchdog = service_manager::watchdog(running.views.clone(), running.cancel.clone());
    running.stages.spawn(async move {
        watchdog.await;
        "watchdog"
    });
    let tidy = give_memory_back(running.cancel.clone());
    running.stages.spawn(async move {
        tidy.await;
        "memory"
    });
    if let Some(identity) = identity {
        let kept = identity.run(running.cancel.clone());
        running.stages.spawn(async move {
            kept.await;
            "identity"
        });
    }
    if let Some(upkeep) = serving_upkeep {
        let kept = upkeep.run(running.cancel.clone());
        running.stages.spawn(async move {
            kept.await;
            "serving certificate"
        });
    }
    if let Some(exporter) = exporter {
        let cancel = running.cancel.clone();
        running.stages.spawn(async move {
            exporter.run(cancel.cancelled_owned()).await;
            "trace export"
        });
    }
    service_manager::ready();
    supervise(running, &mut stop).await
}

/// Where the system bus is, unless the environment says otherwise.
fn logind() -> HostLogind {
    let address = std::env::var("DBUS_SYSTEM_BUS_ADDRESS");
    HostLogind::new(address.unwrap_or_else(|_| SYSTEM_BUS.to_owned()), "/etc/systemd/logind.conf.d")
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn credential_files(root: &Path) -> NodeCredentialFiles {
    let working_directory = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    NodeCredentialFiles::new(root, &working_directory, home.as_deref())
}

/// What an agent before this one granted to pods.
async fn restore_allocations(root: &Path) -> anyhow::Result<Allocations> {
    let files = Arc::new(StateFiles::new(root));
    let load = async |name| {
        let loaded = files.load(name).await;
        loaded.map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))
    };
    let (allocated, actuated) = (load(ALLOCATED).await?, load(ACTUATED).await?);
    Ok(Allocations::restore(files.clone(), allocated.as_deref(), actuated.as_deref())?)
}

/// Hands pages that a burst of work left free back to the machine, now and then.
async fn give_memory_back(cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => return,
        () = tokio::time::sleep(START_TIME) => host::drop_start_code(),
    }
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(MEMORY_PERIOD) => host::give_memory_back(),
        }
    }
}

/// Waits for a signal to stop, or for a stage that ended though it should not.
async fn supervise(mut running: Running, stop: &mut Stop) -> anyhow::Result<()> {
    let broken = loop {
        tokio::select! {
            name = stop.next() => {
                tracing::info!(signal = name, "stopping; the pods go on running");
                break None;
            }
            ended = running.stages.join_next() => match ended {
                // Without a service manager there is no watchdog to run.
                Some(Ok("watchdog")) => {}
                Some(Ok(stage)) => break Some(format!("stage {stage} ended")),
                Some(Err(error)) => break Some(format!("a stage broke off: {error}")),
                None => break Some("no stage is left".to_owned()),
            },
        }
    };
    service_manager::stopping();
    running.cancel.cancel();
    drain(&mut running.stages).await;
    match broken {
        None => Ok(()),
        Some(reason) => bail!("{reason}; the pods go on running, start the agent again"),
    }
}

async fn drain(stages: &mut JoinSet<&'static str>) {
    let all = async { while stages.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_GRACE, all).await.is_err() {
        tracing::warn!("some stages did not stop in {STOP_GRACE:?}");
    }
}

fn tell_about(loaded: &Loaded) {
    for notice in &loaded.notices {
        tracing::warn!("{notice}");
    }
    let idle = config::without_effect(&loaded.config, &loaded.set_fields);
    if !idle.is_empty() {
        tracing::warn!(fields = idle.join(", "), "configured, but without effect yet");
    }
}

fn check_machine(loaded: &Loaded, cgroups: &HostPodCgroups) -> anyhow::Result<()> {
    let config = &loaded.config;
    if cgroups.version() == model::CgroupVersion::V1 {
        if config.cgroups.fail_cgroup_v1 {
            bail!(
                "this machine uses cgroup v1, which is no longer supported by default; set failCgroupV1: false (or --fail-cgroupv1=false) to run all the same"
            );
        }
        tracing::warn!("cgroup v1 is in maintenance mode; move to cgroup v2 when you can");
    }
    if config.pods.fail_swap_on && host::swap_enabled().unwrap_or(false) {
        bail!(
            "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"
        );
    }
    if let Err(error) = host::set_oom_score_adj(config.cgroups.oom_score_adj) {
        tracing::debug!(%error, "oomScoreAdj cannot be set");
    }
    set_tunables(config.cgroups.protect_kernel_defaults)?;
    host::raise_open_files(u64::try_from(config.cgroups.max_open_files).unwrap_or(0));
    Ok(())
}

/// A machine whose kernel may not be set, such as one in a container, works all the same.
fn set_tunables(protect: bool) -> anyhow::Result<()> {
    let behaviour = if protect { Tunables::Protect } else { Tunables::Set };
    let problems = kernel_tunables(Path::new("/proc/sys"), behaviour);
    if protect && !problems.is_empty() {
        bail!("protectKernelDefaults: {}", problems.join("; "));
    }
    for problem in problems {
        tracing::warn!(%problem, "a kernel setting is not as it should be");
    }
    Ok(())
}

fn connect(loaded: &Loaded, metrics: &Arc<Metrics>) -> anyhow::Result<Arc<dyn Runtime>> {
    let images = &loaded.config.images;
    let endpoint: Endpoint = images.container_runtime_endpoint.parse().context("containerRuntimeEndpoint")?;
    let image_endpoint: Endpoint = match images.image_service_endpoint.as_str() {
        "" => endpoint.clone(),
        other => other.parse().context("imageServiceEndpoint")?,
    };
    let timeout = images.runtime_request_timeout.to_std();
    let channel = cri::connect(&endpoint);
    let image_channel =
        if image_endpoint == endpoint { channel.clone() } else { cri::connect(&image_endpoint) };
    let client = CriClient::from_channels(channel, image_channel, timeout).with_meter(metrics.clone());
    Ok(Arc::new(match loaded.gates.enabled(Gate::CRIListStreaming) {
        true => client.with_lists_in_pieces(),
        false => client,
    }))
}

/// What the runtime said of itself.
struct Greeted {
    runtime_name: String,
    driver: CgroupDriver,
    /// Features of the node that only the runtime can bring.
    features: Vec<&'static str>,
}

/// Asks the runtime who it is, how it makes cgroups and what it can; waits for it. `None` when told to stop meanwhile.
async fn greet(
    runtime: &dyn Runtime,
    loaded: &Loaded,
    metrics: &Metrics,
    stop: &mut Stop,
) -> anyhow::Result<Option<Greeted>> {
    let met = async {
        let runtime_name = meet(runtime, loaded).await;
        let driver = named_driver(runtime, loaded, metrics).await;
        pod_cidr::tell(runtime, &loaded.config.node.pod_cidr).await;
        Greeted { runtime_name, driver, features: brought_features(runtime, loaded).await }
    };
    // Each question may take as long as a runtime that accepts it and says nothing.
    tokio::select! {
        name = stop.next() => {
            tracing::info!(signal = name, "stopping");
            Ok(None)
        }
        met = met => Ok(Some(met)),
    }
}

/// Waits until the runtime says who it is.
async fn meet(runtime: &dyn Runtime, loaded: &Loaded) -> String {
    let mut told = false;
    let version = loop {
        match runtime.version().await {
            Ok(version) => break version,
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::error!(endpoint = %loaded.config.images.container_runtime_endpoint, %error, "the container runtime does not answer; waiting for it");
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    tracing::info!(runtime = %version.name, version = %version.version, "container runtime found");
    version.name
}

/// The features that the runtime brings, among those that are wanted. Asked once: what a node declares does not change
/// while it runs.
async fn brought_features(runtime: &dyn Runtime, loaded: &Loaded) -> Vec<&'static str> {
    if !loaded.gates.enabled(Gate::UserNamespacesHostNetworkSupport) {
        return Vec::new();
    }
    match runtime.conditions().await {
        Ok(told) if told.user_namespaces_host_network => vec!["UserNamespacesHostNetworkSupport"],
        Ok(_) => Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "the runtime does not say whether pods in the node's network can have users of their own");
            Vec::new()
        }
    }
}

/// The cgroup driver that the runtime names, or else the configured one.
async fn named_driver(runtime: &dyn Runtime, loaded: &Loaded, metrics: &Metrics) -> CgroupDriver {
    let configured = match loaded.config.cgroups.cgroup_driver {
        config::configuration::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
        config::configuration::CgroupDriver::Systemd => CgroupDriver::Systemd,
    };
    for _ in 0..3 {
        match runtime.cgroup_driver().await {
            Ok(driver) => return driver,
            Err(error) if error.kind == RuntimeErrorKind::Unimplemented => {
                metrics.runtime.lacks_config();
                break;
            }
            Err(error) => tracing::warn!(%error, "the runtime does not name its cgroup driver; asking again"),
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    configured
}

/// Takes the lock, waiting for whoever holds it. `None` when told to stop meanwhile.
async fn await_lock(path: &Path, stop: &mut Stop) -> anyhow::Result<Option<LockFile>> {
    let mut told = false;
    loop {
        match LockFile::acquire(path) {
            Ok(lock) => return Ok(Some(lock)),
            Err(LockError::Held { .. }) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(lock = %path.display(), "--lock-file is held by another process; waiting for it");
                }
            }
            Err(error @ LockError::File { .. }) => bail!("--lock-file: {}", with_cause(&error)),
        }
        tokio::select! {
            name = stop.next() => {
                tracing::info!(signal = name, "stopping");
                return Ok(None);
            }
            () = tokio::time::sleep(LOCK_PERIOD) => {}
        }
    }
}

/// What ends the agent: signals, and somebody else who wants its lock.
struct Stop {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    contention: Option<futures::future::BoxFuture<'static, ()>>,
}

fn stop_signals() -> anyhow::Result<Stop> {
    Ok(Stop {
        terminate: signal(SignalKind::terminate()).context("listen for SIGTERM")?,
        interrupt: signal(SignalKind::interrupt()).context("listen for SIGINT")?,
        contention: None,
    })
}

impl Stop {
    async fn next(&mut self) -> &'static str {
        let contention = async {
            match &mut self.contention {
                Some(contention) => contention.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = contention => "contention for --lock-file",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_runtime_that_takes_questions_and_says_nothing_holds_up_no_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cri.sock");
        let _silent = tokio::net::UnixListener::bind(&path).unwrap();
        let channel = cri::connect(&format!("unix://{}", path.display()).parse().unwrap());
        let runtime = CriClient::from_channels(channel.clone(), channel, Duration::from_secs(120));
        let environment =
            Environment { working_directory: folder.path().to_owned(), cgroup: CgroupVersion::Unknown };
        let Ok(Invocation::Run(loaded)) = load(&[], &environment) else { panic!("not an order to run") };
        let mut stop = stop_signals().unwrap();
        stop.contention = Some(Box::pin(tokio::time::sleep(Duration::from_millis(100))));
        let metrics = Metrics::new();
        let greeted = greet(&runtime, &loaded, &metrics, &mut stop);
        let greeted = tokio::time::timeout(Duration::from_secs(20), greeted).await;
        assert!(greeted.expect("it stops").unwrap().is_none());
    }

    fn loaded(arguments: &[&str]) -> Loaded {
        let environment = Environment { working_directory: "/".into(), cgroup: CgroupVersion::Unknown };
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let Ok(Invocation::Run(loaded)) = load(&arguments, &environment) else {
            panic!("not an order to run")
        };
        *loaded
    }

    #[tokio::test(start_paused = true)]
    async fn the_runtime_names_the_cgroup_driver_or_the_configuration_does() {
        use cri::v1::CgroupDriver as Told;
        use testkit::fake_runtime::{FakeRuntime, Fault, Injection, Rpc, tokio_clock};
        let fake = FakeRuntime::start_in_memory(tokio_clock(1_000)).unwrap();
        let client = || {
            let channel = fake.channel();
            CriClient::from_channels(channel.clone(), channel, Duration::from_secs(120))
        };
        let losing = |metrics: &Metrics| {
            let text = metrics.encode(agent::metrics::Format::Text);
            text.contains("kubelet_cri_losing_support{version=\"1.37.0\"} 1")
        };
        let (cgroupfs, systemd) =
            (loaded(&["--cgroup-driver=cgroupfs"]), loaded(&["--cgroup-driver=systemd"]));
        let metrics = Metrics::new();
        fake.set_cgroup_driver(Some(Told::Systemd));
        assert_eq!(named_driver(&client(), &cgroupfs, &metrics).await, CgroupDriver::Systemd);
        fake.set_cgroup_driver(Some(Told::Cgroupfs));
        assert_eq!(named_driver(&client(), &systemd, &metrics).await, CgroupDriver::Cgroupfs);
        assert!(!losing(&metrics));
        // What fails twice is asked a third time.
        let no = Fault::Fail(tonic::Code::Unknown, "not yet".to_owned());
        fake.inject(Injection::new(Rpc::RuntimeConfig, no.clone()).times(2));
        assert_eq!(named_driver(&client(), &systemd, &metrics).await, CgroupDriver::Cgroupfs);
        fake.inject(Injection::new(Rpc::RuntimeConfig, no).times(3));
        assert_eq!(named_driver(&client(), &systemd, &metrics).await, CgroupDriver::Systemd);
        assert!(!losing(&metrics));
        fake.set_cgroup_driver(None);
        let asked = fake.count(Rpc::RuntimeConfig);
        assert_eq!(named_driver(&client(), &systemd, &metrics).await, CgroupDriver::Systemd);
        assert_eq!(fake.count(Rpc::RuntimeConfig), asked + 1);
        assert!(losing(&metrics));
    }
}
