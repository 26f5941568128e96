use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use decide::node::node_status::NodeProfile;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use model::{
    CgroupDriver, ImageAuth, ImageFilesystems, ImageSpec, ImageStatus, MachineIdentity, NodeResources,
    RecordedEvent, RuntimeCondition, RuntimeConditions, RuntimeHandler, RuntimeVersion, SandboxSpec,
};
use ports::api::nodes::ApiNodes;
use ports::api::{ApiError, ApiErrorKind, Feed, FeedStream};
use ports::host::host_facts::HostFacts;
use ports::runtime::{Images, RuntimeError, RuntimeErrorKind, RuntimeEvents, RuntimeService};
use ports::served::event_recorder::EventRecorder;
use serde_json::{Value, json};
use testkit::fake_clock::FakeClock;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::{NodeDeps, NodeStatusSettings, OnForbidden, Registration, run, watch};
use crate::node::node_reports::{self, NodeReportSenders, NodeReports};
use crate::node::{node_view, runtime_health};

pub(super) fn node_from(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

pub(super) fn api_error(kind: ApiErrorKind) -> ApiError {
    ApiError { kind, message: "failed".into(), retry_after: None }
}

/// An API server with at most one node.
pub(super) struct Server {
    node: Mutex<Option<Node>>,
    changed: broadcast::Sender<Node>,
    errors: Mutex<BTreeMap<&'static str, Vec<ApiError>>>,
    calls: Mutex<Vec<&'static str>>,
    last_patch: Mutex<Value>,
}

impl Server {
    pub(super) fn node(&self) -> Option<Node> {
        self.node.lock().clone()
    }

    pub(super) fn put(&self, mut node: Node) -> Node {
        let mut stored = self.node.lock();
        let version = |node: &Node| node.metadata.resource_version.as_ref()?.parse::<u64>().ok();
        let last = stored.as_ref().and_then(version).unwrap_or(0);
        node.metadata.resource_version = Some((last + 1).to_string());
        *stored = Some(node.clone());
        let _ = self.changed.send(node.clone());
        node
    }

    pub(super) fn fail(&self, call: &'static str, errors: Vec<ApiError>) {
        self.errors.lock().insert(call, errors);
    }

    pub(super) fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.calls.lock())
    }

    pub(super) fn last_patch(&self) -> Value {
        self.last_patch.lock().clone()
    }

    fn call(&self, name: &'static str) -> Result<(), ApiError> {
        self.calls.lock().push(name);
        match self.errors.lock().get_mut(name).and_then(Vec::pop) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl ApiNodes for Server {
    fn watch(&self) -> FeedStream<Node> {
        let listed = Feed::Listed(self.node().into_iter().collect());
        let changes = futures::stream::unfold(self.changed.subscribe(), async |mut changes| {
            let node = changes.recv().await.ok()?;
            Some((Feed::Applied(node), changes))
        });
        futures::stream::iter([listed]).chain(changes).boxed()
    }

    async fn get(&self) -> Result<Node, ApiError> {
        self.call("get")?;
        self.node().ok_or_else(|| api_error(ApiErrorKind::NotFound))
    }

    async fn create(&self, node: &Node) -> Result<Node, ApiError> {
        self.call("create")?;
        if self.node().is_some() {
            return Err(api_error(ApiErrorKind::AlreadyExists));
        }
        Ok(self.put(node.clone()))
    }

    async fn patch_status(&self, patch: &Value) -> Result<Node, ApiError> {
        self.call("patch_status")?;
        *self.last_patch.lock() = patch.clone();
        let node = self.node().ok_or_else(|| api_error(ApiErrorKind::NotFound))?;
        let mut value = json!(node);
        merge(&mut value, patch);
        Ok(self.put(node_from(value)))
    }
}

/// The subset of a strategic merge that node status patches use.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return *value = patch.clone() };
    if !value.is_object() {
        *value = json!({});
    }
    for (key, new) in patch {
        let old = &mut value[key];
        match new {
            Value::Null => *old = Value::Null,
            Value::Array(entries) if key == "conditions" => {
                let current = old.as_array().cloned().unwrap_or_default();
                let is_unpatched =
                    |condition: &Value| !entries.iter().any(|entry| entry["type"] == condition["type"]);
                let unpatched = current.into_iter().filter(is_unpatched);
                *old = unpatched.chain(entries.iter().cloned()).collect();
            }
            Value::Array(entries) => {
                *old = entries.iter().filter(|entry| entry.get("$patch").is_none()).cloned().collect();
            }
            _ => merge(old, new),
        }
    }
}

/// A runtime with settable conditions.
#[derive(Default)]
pub(super) struct FakeRuntime {
    conditions: Mutex<Option<RuntimeConditions>>,
    pod_cidrs: Mutex<Vec<String>>,
}

impl FakeRuntime {
    pub(super) fn set(&self, runtime: bool, network: bool) {
        let condition = |status| Some(RuntimeCondition { status, reason: "R".into(), message: "m".into() });
        *self.conditions.lock() = Some(RuntimeConditions {
            runtime: condition(runtime),
            network: condition(network),
            handlers: vec![RuntimeHandler::default()],
            supplemental_groups_policy: true,
            user_namespaces_host_network: false,
        });
    }

    pub(super) fn make_unavailable(&self) {
        *self.conditions.lock() = None;
    }

    pub(super) fn pod_cidrs(&self) -> Vec<String> {
        self.pod_cidrs.lock().clone()
    }
}

fn unavailable<T>(operation: &'static str) -> Result<T, RuntimeError> {
    Err(RuntimeError { operation, kind: RuntimeErrorKind::Unavailable, message: "unavailable".into() })
}

#[async_trait]
impl RuntimeService for FakeRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        Ok(RuntimeVersion { name: "fake".into(), version: "1.2.3".into(), api_version: "v1".into() })
    }

    async fn conditions(&self) -> Result<RuntimeConditions, RuntimeError> {
        self.conditions.lock().clone().map_or_else(|| unavailable("status"), Ok)
    }

    async fn cgroup_driver(&self) -> Result<CgroupDriver, RuntimeError> {
        unavailable("runtime_config")
    }

    async fn set_pod_cidr(&self, cidr: &str) -> Result<(), RuntimeError> {
        self.pod_cidrs.lock().push(cidr.to_owned());
        Ok(())
    }

    async fn events(&self) -> Result<RuntimeEvents, RuntimeError> {
        unavailable("get_container_events")
    }
}

#[async_trait]
impl Images for FakeRuntime {
    async fn image_status(&self, _: &ImageSpec) -> Result<Option<ImageStatus>, RuntimeError> {
        unavailable("image_status")
    }

    async fn pull_image(
        &self,
        _: &ImageSpec,
        _: Option<&ImageAuth>,
        _: &SandboxSpec,
    ) -> Result<String, RuntimeError> {
        unavailable("pull_image")
    }

    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        Ok(vec![ImageStatus { size: 5, repo_tags: vec!["a:1".into()], ..ImageStatus::default() }])
    }

    async fn remove_image(&self, _: &ImageSpec) -> Result<(), RuntimeError> {
        unavailable("remove_image")
    }

    async fn image_filesystems(&self) -> Result<ImageFilesystems, RuntimeError> {
        unavailable("image_fs_info")
    }
}

struct Machine;

impl HostFacts for Machine {
    fn resolv_conf(&self, _: &str) -> Result<String, std::io::Error> {
        Ok(String::new())
    }

    fn hosts_file(&self) -> Result<String, std::io::Error> {
        Ok(String::new())
    }

    fn addresses(&self) -> Vec<IpAddr> {
        vec!["192.0.2.7".parse().unwrap()]
    }

    fn interface_addresses(&self) -> Vec<IpAddr> {
        self.addresses()
    }

    fn look_up(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }

    fn identity(&self) -> MachineIdentity {
        MachineIdentity { boot_id: "now".into(), ..MachineIdentity::default() }
    }

    fn memory_capacity(&self) -> u64 {
        1 << 30
    }

    fn cpu_count(&self) -> usize {
        1
    }
}

#[derive(Default)]
pub(super) struct Events(Mutex<Vec<RecordedEvent>>);

impl Events {
    pub(super) fn reasons(&self) -> Vec<String> {
        self.0.lock().iter().map(|event| event.reason.clone()).collect()
    }
}

impl EventRecorder for Events {
    fn record(&self, event: RecordedEvent) {
        self.0.lock().push(event);
    }
}

/// The stage with its dependencies.
pub(super) struct Fixture {
    pub(super) server: Arc<Server>,
    pub(super) runtime: Arc<FakeRuntime>,
    pub(super) events: Arc<Events>,
    pub(super) report_senders: NodeReportSenders,
    reports: NodeReports,
    registration: Registration,
    pub(super) on_forbidden: OnForbidden,
    relist_works: Arc<AtomicBool>,
    cancel: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(Registration::ByAgent)
    }

    pub(super) fn with_external_registration() -> Self {
        Self::with(Registration::External)
    }

    fn with(registration: Registration) -> Self {
        let (report_senders, reports) = node_reports::channels();
        report_senders.storage.send_replace(None);
        let server = Server {
            node: Mutex::default(),
            changed: broadcast::channel(100).0,
            errors: Mutex::default(),
            calls: Mutex::default(),
            last_patch: Mutex::default(),
        };
        Self {
            server: Arc::new(server),
            runtime: Arc::default(),
            events: Arc::default(),
            report_senders,
            reports,
            registration,
            on_forbidden: OnForbidden::GetExisting,
            relist_works: Arc::new(AtomicBool::new(true)),
            cancel: CancellationToken::new(),
            tasks: Mutex::default(),
        }
    }

    pub(super) fn set_relist_works(&self, works: bool) {
        self.relist_works.store(works, Ordering::Relaxed);
    }

    pub(super) fn start(&self) {
        let (checker, health) = runtime_health::checker(self.runtime.clone());
        let listing = health.clone();
        listing.record_list();
        let (publish, view) = node_view::channel();
        let amounts = [("cpu", 1000), ("memory", 1 << 30), ("pods", 110)];
        let capacity = amounts.map(|(name, amount)| (name.to_owned(), amount)).into();
        let profile = NodeProfile {
            name: "n".into(),
            architecture: "amd64".into(),
            resources: NodeResources { capacity, ..NodeResources::default() },
            ..NodeProfile::default()
        };
        let deps = NodeDeps {
            nodes: self.server.clone(),
            profile: Arc::new(profile),
            settings: NodeStatusSettings {
                registration: self.registration,
                update_frequency: Duration::from_secs(10),
                report_frequency: Duration::from_secs(300),
                request_timeout: Duration::from_secs(10),
                on_forbidden: self.on_forbidden,
            },
            host: Arc::new(Machine),
            runtime: self.runtime.clone(),
            images: self.runtime.clone(),
            health,
            reports: self.reports.clone(),
            view,
            events: self.events.clone(),
            clock: Arc::new(FakeClock::following_tokio(1_000_000)),
            metrics: Arc::default(),
        };
        let mut tasks = self.tasks.lock();
        tasks.spawn(checker.run(self.cancel.clone()));
        let (relist_works, cancel) = (Arc::clone(&self.relist_works), self.cancel.clone());
        tasks.spawn(async move {
            loop {
                if relist_works.load(Ordering::Relaxed) {
                    listing.record_list();
                }
                tokio::select! {
                    () = cancel.cancelled() => return,
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                }
            }
        });
        tasks.spawn(watch::run(self.server.clone(), publish, self.cancel.clone()));
        tasks.spawn(run(deps, self.cancel.clone()));
    }

    pub(super) async fn stop(self) {
        self.cancel.cancel();
        let mut tasks = self.tasks.into_inner();
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    }
}
