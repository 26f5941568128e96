//! A virtual node: the real wiring with a fake runtime and temporary folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use agent::images::PullSettings;
use agent::metrics::Metrics;
use agent::node::NodeStatusSettings;
use agent::pipeline::allocations::{ACTUATED, ALLOCATED, Allocations};
use agent::pipeline::exclusive_cpus::ExclusiveCpus;
use agent::pipeline::managed_resources::ManagedResources;
use agent::pipeline::pinned_memory::PinnedMemory;
use agent::pipeline::plugin_devices::{PluginDevices, PluginDevicesDeps};
use cri::{CriClient, Endpoint};
use decide::cpus::StaticPolicy;
use decide::images::image_gc::ImageGcPolicy;
use decide::memory::MemoryPolicy;
use decide::node::node_lease::LeaseSettings;
use decide::node::node_shutdown::ShutdownPeriods;
use decide::pipeline::backoff::{CrashBackoffDecay, crash_backoff};
use decide::pipeline::dead_containers::ContainerGcPolicy;
use decide::topology::Alignment;
use host::{
    ExecCredentialPrograms, FileCheckpoints, HostDiskUsage, HostFilesystems, HostNodeLogs, HostPluginSockets,
    HostPodFolders, HostPodVolumes, HostUsage, InotifyFolderWatch, IptablesFilter, KernelLogDevice,
    MachineFacts, NodeCredentialFiles, StateFiles,
};
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use model::{
    CgroupVersion, CpuPolicy, ExclusiveQuota, HostCapabilities, NodeResources, NodeSettings, NumaMask, PodUid,
};
use node_api::PublishedState;
use plugins::{GrpcDevicePluginConnector, GrpcPluginRegistration};
use podward::plan::registration::NodePlan;
use podward::plan::{FilePlan, HttpPlan, Plan, Upkeep};
use podward::wire::{Adapters, start};
use ports::clock::SystemClock;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::fake_logind::FakeLogind;
use testkit::fake_outbound::FakeOutbound;
use testkit::fake_runtime::{Container, FakeRuntime, Rpc};
use testkit::fakes::{NoPodCgroups, NoProcessWatch, NoSystemCgroups, node_settings};
use testkit::poll::eventually;
use tokio::runtime::Handle;

use crate::cluster::Cluster;
use crate::stepping::{Steps, Switch};

/// Timeout of every wait, for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(90);

/// Changes of the settings apply from the next start of the agent.
pub(crate) struct VirtualNode {
    pub(crate) runtime: FakeRuntime,
    pub(crate) name: String,
    pub(crate) crash_backoff: timing::BackoffPolicy,
    pub(crate) pleg: agent::pipeline::pleg::PlegSettings,
    pub(crate) http: Option<String>,
    pub(crate) proxies: values::proxies::Proxies,
    pub(crate) eviction: decide::eviction::EvictionSettings,
    pub(crate) cluster: Option<Cluster>,
    /// Network of the pods; changes apply immediately.
    pub(crate) network: FakeOutbound,
    /// Changes apply immediately.
    pub(crate) logind: FakeLogind,
    pub(crate) shutdown: Option<ShutdownPeriods>,
    pub(crate) cpus: Option<StaticPolicy>,
    pub(crate) memory: Option<MemoryPolicy>,
    pub(crate) alignment: Option<Alignment>,
    pub(crate) numa_nodes: NumaMask,
    /// Period of node status updates.
    pub(crate) status_period: Duration,
    agent: Option<Agent>,
    folder: TempDir,
}

struct Agent {
    views: PublishedState,
    switch: Arc<Switch>,
    thread: JoinHandle<Option<String>>,
}

impl VirtualNode {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("podward-node-").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("manifests")).unwrap();
        Self {
            runtime: FakeRuntime::start(folder.path().join("runtime.sock")).unwrap(),
            name: node_settings().name,
            crash_backoff: crash_backoff(CrashBackoffDecay::Default, None),
            pleg: agent::pipeline::pleg::PlegSettings::default(),
            http: None,
            proxies: Default::default(),
            eviction: decide::eviction::EvictionSettings::default(),
            cluster: None,
            network: FakeOutbound::default(),
            logind: FakeLogind::with_unlimited_delay(),
            shutdown: None,
            cpus: None,
            memory: None,
            alignment: None,
            numa_nodes: NumaMask::EMPTY,
            status_period: NodeStatusSettings::default().update_frequency,
            agent: None,
            folder,
        }
    }

    /// A node with a running agent.
    pub(crate) fn started() -> Self {
        let mut node = Self::new();
        node.start_agent();
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn start_agent(&mut self) {
        self.start_agent_for(usize::MAX);
    }

    /// Starts an agent that is killed after this many polls of its tasks.
    pub(crate) fn start_agent_for(&mut self, polls: usize) {
        assert!(self.agent.is_none(), "an agent runs already");
        let switch = Switch::after(polls);
        let (plan, folder) = (self.plan(), self.folder.path().to_owned());
        let around = (self.network.clone(), self.logind.clone());
        let cluster = self.cluster.clone();
        let (sender, receiver) = std::sync::mpsc::channel();
        let driver = Arc::clone(&switch);
        let thread = std::thread::spawn(move || {
            let runtime = driver.runtime();
            let entered = runtime.enter();
            let api = cluster.map(|cluster| cluster.server(&folder));
            let state = Adapters { api, ..adapters(&folder, &plan, around) };
            let mut running = start(state, plan).unwrap();
            drop(entered);
            sender.send(running.views.clone()).unwrap();
            runtime.block_on(Steps::new(driver));
            let ended = running.stages.try_join_next().map(|stage| format!("{stage:?}"));
            // Like SIGKILL: every task is dropped at its current await. Only a running system call completes.
            runtime.shutdown_timeout(Duration::from_secs(5));
            drop(running);
            ended
        });
        self.agent = Some(Agent { views: receiver.recv().unwrap(), switch, thread });
    }

    /// Kills the agent.
    pub(crate) async fn kill_agent(&mut self) -> usize {
        if let Some(agent) = &self.agent {
            agent.switch.kill();
        }
        self.agent_ended().await
    }

    /// Waits until the agent has used up its polls; returns their number.
    pub(crate) async fn agent_ended(&mut self) -> usize {
        let Some(Agent { switch, thread, .. }) = self.agent.take() else { return 0 };
        let ended = tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
        assert_eq!(ended, None, "a stage ended by itself");
        switch.polls()
    }

    pub(crate) async fn restart_agent(&mut self) {
        self.kill_agent().await;
        self.start_agent();
    }

    /// Polls of the agent's tasks so far.
    pub(crate) fn polls(&self) -> usize {
        self.agent.as_ref().map_or(0, |agent| agent.switch.polls())
    }

    pub(crate) fn views(&self) -> &PublishedState {
        &self.agent.as_ref().unwrap().views
    }

    fn plan(&self) -> Plan {
        let file = FilePlan { path: self.path("manifests"), check_frequency: Duration::from_secs(20) };
        Plan {
            verification: Some(decide::images::image_access::Verification::UnlessPreloaded),
            node: NodePlan {
                lease: LeaseSettings { node: "node".to_owned(), duration_seconds: 40 },
                settings: NodeStatusSettings {
                    update_frequency: self.status_period,
                    ..NodeStatusSettings::default()
                },
                ..NodePlan::default()
            },
            eviction: self.eviction.clone(),
            statistics: agent::statistics::Settings {
                volume_period: Some(Duration::from_secs(1)),
                ..Default::default()
            },
            serves_pods: false,
            listed: agent::node::pod_resources::ListScope::Active,
            health_messages: agent::dynamic_resources::device_health::HealthMessages::Shown,
            extended_resources: decide::resource_claims::references::ExtendedResources::Claimed,
            credential_provider_hash: None,
            settings: NodeSettings {
                name: self.name.clone(),
                cpu_policy: match &self.cpus {
                    Some(_) => CpuPolicy::Static { quota: ExclusiveQuota::None },
                    None => CpuPolicy::None,
                },
                ..settings(self.folder.path())
            },
            file: Some(file),
            http: self.http.clone().map(|url| HttpPlan {
                url,
                headers: BTreeMap::new(),
                check_frequency: Duration::from_secs(1),
                proxies: self.proxies.clone(),
            }),
            rules: manifest::ManifestRules::default(),
            sync_frequency: Duration::from_secs(60),
            crash_backoff: self.crash_backoff,
            cpus: self.cpus.clone(),
            memory: self.memory.clone(),
            alignment: self.alignment.clone(),
            device_plugins: self.path("device-plugins"),
            numa_nodes: self.numa_nodes,
            cpu_reconcile_period: Duration::from_millis(100),
            pulls: PullSettings { max_parallel: None, per_second: 0, burst: 0, by_handler: false },
            credential_providers: Vec::new(),
            keep_dead: 1,
            upkeep: upkeep(),
            health_address: None,
            read_only_address: None,
            server: None,
            debug: None,
            id_pool: model::IdPool::default(),
            system_cgroups: decide::cgroups::system_cgroups::SystemCgroupSettings::default(),
            pleg: self.pleg,
            shutdown: podward::plan::shutdown::ShutdownPlan {
                periods: self.shutdown.clone(),
                exports_times: true,
            },
            cluster: podward::plan::cluster::ClusterPlan::default(),
        }
    }

    // === manifests ===

    /// Writes a manifest atomically, by rename.
    pub(crate) fn write(&self, file: &str, manifest: &Value) {
        let hidden = self.path("manifests").join(format!(".{file}"));
        std::fs::write(&hidden, manifest.to_string()).unwrap();
        std::fs::rename(hidden, self.path("manifests").join(file)).unwrap();
    }

    pub(crate) fn remove(&self, file: &str) {
        std::fs::remove_file(self.path("manifests").join(file)).unwrap();
    }

    // === observation ===

    /// Waits until the state of the runtime matches.
    pub(crate) async fn until(
        &self,
        what: &str,
        condition: impl FnMut(&testkit::fake_runtime::RuntimeState) -> bool,
    ) {
        if tokio::time::timeout(TIMEOUT, self.runtime.wait_until(condition)).await.is_err() {
            panic!("{what}: not within {TIMEOUT:?}\n{}", self.describe());
        }
    }

    /// Waits until the reported status of a pod matches.
    pub(crate) async fn until_status(&self, uid: &str, condition: impl Fn(&PodStatus) -> bool) -> PodStatus {
        let question = || async {
            match self.status(uid) {
                Some(status) if condition(&status) => Ok(status),
                other => anyhow::bail!("status is {}", serde_json::to_string(&other).unwrap()),
            }
        };
        match eventually(&format!("pod {uid}"), TIMEOUT, question).await {
            Ok(status) => status,
            Err(error) => panic!("{error:#}\n{}", self.describe()),
        }
    }

    pub(crate) async fn until_running(&self, uid: &str) -> PodStatus {
        self.until_status(uid, |status| {
            let all = containers(status);
            status.phase.as_deref() == Some("Running")
                && !all.is_empty()
                && all.iter().all(|one| one.state.as_ref().is_some_and(|state| state.running.is_some()))
        })
        .await
    }

    /// Waits until the runtime and the root folder have nothing of a pod.
    pub(crate) async fn until_gone(&self, uid: &str) {
        self.until("the pod is gone", |state| {
            state.sandboxes().all(|sandbox| sandbox.pod_uid() != uid)
                && state.containers().all(|container| container.pod_uid != uid)
        })
        .await;
        let folder = self.path("root").join("pods").join(uid);
        let question = || async {
            anyhow::ensure!(!folder.exists(), "{} is there", folder.display());
            Ok(())
        };
        eventually("the pod's folder is gone", TIMEOUT, question).await.unwrap();
    }

    pub(crate) fn status(&self, uid: &str) -> Option<PodStatus> {
        self.views().statuses.status(&PodUid::from(uid))
    }

    /// All containers of a pod, oldest first.
    pub(crate) fn containers(&self, uid: &str) -> Vec<Container> {
        self.runtime.read(|state| state.containers().filter(|one| one.pod_uid == uid).cloned().collect())
    }

    /// The ID of a running container.
    pub(crate) fn running(&self, uid: &str, name: &str) -> String {
        self.runtime.read(|state| state.running_container(uid, name).unwrap().id.clone())
    }

    pub(crate) fn assert_no_violations(&self) {
        let violations = self.runtime.violations();
        assert!(violations.is_empty(), "{violations:?}\n{}", self.describe());
    }

    /// The state of the runtime, and the calls that changed it.
    pub(crate) fn describe(&self) -> String {
        self.runtime.read(|state| {
            let mut text = String::new();
            for call in state.calls().iter().filter(|call| changes(call.rpc)) {
                text += &format!(
                    "  {} {} {} {:.8}\n",
                    call.rpc, call.subject.pod_uid, call.subject.container, call.subject.id
                );
            }
            for sandbox in state.sandboxes() {
                text +=
                    &format!("  sandbox {:.8} of {}: {:?}\n", sandbox.id, sandbox.pod_uid(), sandbox.state);
            }
            for one in state.containers() {
                text += &format!(
                    "  container {:.8} {} attempt {} of {}: {:?} exit {}\n",
                    one.id,
                    one.name(),
                    one.attempt(),
                    one.pod_uid,
                    one.state,
                    one.exit.code
                );
            }
            text
        })
    }
}

impl Drop for VirtualNode {
    /// Joins the agent's thread, because its last writes would recreate the removed folder.
    fn drop(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.switch.kill();
            let _ = agent.thread.join();
        }
    }
}

pub(crate) fn changes(rpc: Rpc) -> bool {
    matches!(
        rpc,
        Rpc::RunPodSandbox
            | Rpc::StopPodSandbox
            | Rpc::RemovePodSandbox
            | Rpc::CreateContainer
            | Rpc::StartContainer
            | Rpc::StopContainer
            | Rpc::RemoveContainer
    )
}

pub(crate) fn containers(status: &PodStatus) -> &[ContainerStatus] {
    status.container_statuses.as_deref().unwrap_or_default()
}

/// A pod whose containers run images of the same names.
pub(crate) fn pod(name: &str, uid: &str, containers: &[&str]) -> Value {
    let containers: Vec<Value> = containers
        .iter()
        .map(|name| json!({"name": name, "image": format!("example.com/{name}:1")}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "uid": uid},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": containers},
    })
}

fn upkeep() -> Upkeep {
    let never = Duration::ZERO;
    Upkeep {
        containers: ContainerGcPolicy { per_container: Some(1), total: None, min_age: never },
        images: ImageGcPolicy {
            high_percent: 100,
            low_percent: 99,
            min_age: never,
            max_age: never,
            by_handler: false,
        },
        logs: agent::upkeep::log_rotation::LogRotationSettings {
            max_size: None,
            max_files: 5,
            workers: 1,
            interval: Duration::from_secs(10),
        },
        packet_filter: false,
    }
}

fn settings(folder: &Path) -> NodeSettings {
    let resolv_conf = folder.join("resolv.conf");
    std::fs::write(&resolv_conf, "nameserver 192.0.2.53\n").unwrap();
    let base = node_settings();
    NodeSettings {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        root_dir: folder.join("root"),
        pod_logs_dir: folder.join("logs"),
        capabilities: HostCapabilities {
            swap_controller: true,
            hugepage_sizes: vec!["2MB".to_owned()],
            ..base.capabilities
        },
        resolv_conf: resolv_conf.to_string_lossy().into_owned(),
        resources: NodeResources {
            capacity: [("cpu", 2000), ("memory", 1 << 30), ("pods", 5000)]
                .map(|(name, amount)| (name.to_owned(), amount))
                .into(),
            ..NodeResources::default()
        },
        ..base
    }
}

fn allocations(root: &Path, plan: &Plan, metrics: &Arc<Metrics>) -> Allocations {
    let read = |name| std::fs::read(root.join(name)).ok();
    let (allocated, actuated) = (read(ALLOCATED), read(ACTUATED));
    let files = Arc::new(StateFiles::new(root));
    let allocations = Allocations::restore(files.clone(), allocated.as_deref(), actuated.as_deref()).unwrap();
    let management = plan.settings.gates.pod_level_management;
    let cpus = ExclusiveCpus::restore(files.clone(), root, plan.cpus.clone(), management, metrics.clone());
    let cpus = Handle::current().block_on(cpus).unwrap();
    let memory = PinnedMemory::restore(files, root, plan.memory.clone(), management, metrics.clone());
    let memory = Handle::current().block_on(memory).unwrap();
    let devices = PluginDevices::restore(PluginDevicesDeps {
        connector: Arc::new(GrpcDevicePluginConnector),
        folder: plan.device_plugins.clone(),
        files: Arc::new(StateFiles::new(&plan.device_plugins)),
        machine: plan.numa_nodes,
        metrics: metrics.clone(),
    });
    let devices = Handle::current().block_on(devices);
    let managed = ManagedResources::new(plan.alignment.clone(), cpus, memory, metrics.clone());
    allocations.with_managed(managed.with_devices(devices))
}

fn adapters(folder: &Path, plan: &Plan, (network, logind): (FakeOutbound, FakeLogind)) -> Adapters {
    let endpoint: Endpoint = format!("unix://{}", folder.join("runtime.sock").display()).parse().unwrap();
    let root = &plan.settings.root_dir;
    let metrics = Arc::new(Metrics::new());
    let folders = Arc::new(HostPodFolders::new(root, &plan.settings.pod_logs_dir, folder.join("links")));
    Adapters {
        runtime: Arc::new(CriClient::new(&endpoint, Duration::from_secs(120))),
        runtime_name: "fake".to_owned(),
        processes: Arc::new(NoProcessWatch),
        env_files: folders.clone(),
        folders: folders.clone(),
        logs: folders.clone(),
        messages: folders.clone(),
        volumes: Arc::new(HostPodVolumes::new(root)),
        cgroups: Arc::new(NoPodCgroups),
        system_cgroups: Arc::new(NoSystemCgroups),
        allocations: allocations(root, plan, &metrics),
        host: Arc::new(MachineFacts::default()),
        credential_files: Arc::new(NodeCredentialFiles::new(folder, folder, None)),
        credential_programs: Arc::new(ExecCredentialPrograms::new(folder)),
        pull_records: Arc::new(StateFiles::new(root)),
        user_namespaces: folders.clone(),
        node_logs: Arc::new(HostNodeLogs::new("/var/log", "journalctl")),
        log_files: folders.clone(),
        rotated_logs: folders,
        filesystems: Arc::new(HostFilesystems),
        memory_thresholds: Arc::new(HostUsage::new(folder, CgroupVersion::V2).unwrap()),
        usage: Arc::new(HostUsage::new(folder, CgroupVersion::V2).unwrap()),
        disk_usage: Arc::new(HostDiskUsage::default()),
        checkpoints: Arc::new(FileCheckpoints::new(folder.join("state"))),
        state_files: Arc::new(StateFiles::new(root)),
        plugin_sockets: Arc::new(HostPluginSockets::new(root)),
        plugin_registration: Arc::new(GrpcPluginRegistration),
        watch: Arc::new(InotifyFolderWatch),
        outbound: Arc::new(network),
        kernel_log: Arc::new(KernelLogDevice::new(folder.join("kmsg"))),
        logind: Arc::new(logind),
        packet_filter: Arc::new(IptablesFilter::new("iptables", "ip6tables")),
        clock: Arc::new(SystemClock),
        metrics,
        api: None,
        serving: None,
    }
}
