use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::cluster::event_log::EventLog;
use agent::cluster::tokens::Tokens;
use agent::metrics::{Format, Metrics};
use agent::node::node_view::{self, NodeView};
use agent::volumes::claims::Claims;
use agent::volumes::csi_drivers::{CsiDrivers, follow};
use agent::volumes::csi_registration::CsiPlugins;
use agent::volumes::csi_volumes::{CsiVolumes, CsiVolumesDeps};
use agent::volumes::plugin_registry;
use async_trait::async_trait;
use futures::StreamExt;
use host::{HostCsiFolders, HostPluginSockets, HostPodVolumes, InotifyFolderWatch};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, VolumeAttachment};
use model::{
    CsiAccess, CsiLifecycle, CsiPod, CsiVolume, FsGroup, IssuedToken, PlannedVolume, PodUid, RecordedEvent,
    Timestamp, TokenRequest, VolumePlan,
};
use plugins::{GrpcCsiConnector, GrpcPluginRegistration};
use ports::api::csi_nodes::ApiCsiNodes;
use ports::api::nodes::ApiNodes;
use ports::api::tokens::ApiTokens;
use ports::api::volumes::ApiVolumes;
use ports::api::{ApiError, ApiErrorKind, Feed, FeedStream};
use ports::clock::SystemClock;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::{PodVolumes, Progress, VolumeError};
use ports::plugins::csi::CsiConnector;
use serde_json::{Value, json};
use testkit::csi_driver::{Ability, CsiDriver};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this test mounts: run it as root");
}

/// A volume `h` of the driver `d.example` as one pod uses it.
pub(crate) fn volume(node: &Node, uid: &str, handle: &str) -> CsiVolume {
    let folder = node.root().join("pods").join(uid).join("volumes/kubernetes.io~csi").join(handle);
    CsiVolume {
        path: folder.join("mount"),
        spec_name: handle.to_owned(),
        driver: "d.example".to_owned(),
        handle: handle.to_owned(),
        lifecycle: CsiLifecycle::Persistent,
        access: CsiAccess::Files { fs_type: String::new(), options: vec![] },
        read_only: false,
        access_modes: vec!["ReadWriteOnce".to_owned()],
        attributes: BTreeMap::new(),
        stage_secret: None,
        publish_secret: None,
        expand_secret: None,
        pod: CsiPod {
            name: "p".to_owned(),
            namespace: "n".to_owned(),
            uid: PodUid::from(uid),
            service_account: "sa".to_owned(),
        },
        size: None,
    }
}

/// A node with a temporary folder and a fake cluster.
pub(crate) struct Node {
    folder: tempfile::TempDir,
    root: PathBuf,
    cluster: Arc<Cluster>,
    drivers: Arc<CsiDrivers>,
    in_use: watch::Sender<Option<Vec<String>>>,
    view: watch::Sender<NodeView>,
    view_reader: watch::Receiver<NodeView>,
    _reported: watch::Receiver<Option<Vec<String>>>,
    cancel: CancellationToken,
    events: Arc<EventLog>,
    metrics: Arc<Metrics>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.cancel.cancel();
        for point in self.mounts().into_iter().rev() {
            let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

impl Node {
    /// `object` is the spec of the CSIDriver object.
    #[expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]
    pub(crate) fn new(object: Value) -> Self {
        let folder = tempfile::Builder::new().prefix("podward-csi-").tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap().join("kubelet");
        fs::create_dir(&root).unwrap();
        let object: CSIDriver =
            serde_json::from_value(json!({"metadata": {"name": "d.example"}, "spec": object})).unwrap();
        let others = json!({"metadata": {"name": "stuck.example"}, "spec": {"attachRequired": false}});
        let cluster = Arc::new(Cluster::default());
        cluster.drivers.lock().extend([object, serde_json::from_value(others).unwrap()]);
        let drivers = Arc::new(CsiDrivers::default());
        let cancel = CancellationToken::new();
        tokio::spawn(follow(drivers.clone(), cluster.watch_drivers(), cancel.clone()));
        let (view, view_reader) = node_view::channel();
        let (in_use, reported) = watch::channel(None);
        let events = Arc::new(EventLog::new(100));
        Self {
            folder,
            root,
            cluster,
            drivers,
            in_use,
            view,
            view_reader,
            _reported: reported,
            cancel,
            events,
            metrics: Arc::default(),
        }
    }

    /// Recorded events, oldest first.
    pub(crate) fn events(&self) -> Vec<RecordedEvent> {
        self.events.all().into_iter().map(|series| series.event).collect()
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn unregistered_driver(&self, name: &str, abilities: &[Ability]) -> CsiDriver {
        CsiDriver::start(name, &self.folder.path().join(name), abilities).unwrap()
    }

    pub(crate) fn driver(&self, name: &str, abilities: &[Ability]) -> CsiDriver {
        let driver = self.unregistered_driver(name, abilities);
        self.drivers.register(name, GrpcCsiConnector.connect(driver.endpoint()));
        driver
    }

    /// A new agent that has only the state on disk.
    pub(crate) fn agent(&self) -> CsiVolumes {
        CsiVolumes::new(CsiVolumesDeps {
            others: Arc::new(HostPodVolumes::new(&self.root)),
            folders: Arc::new(HostCsiFolders::new(&self.root)),
            drivers: self.drivers.clone(),
            api: self.cluster.clone(),
            claims: Arc::new(Claims::new(self.cluster.clone(), Arc::new(Disk::default()))),
            tokens: Arc::new(Tokens::new(self.cluster.clone(), Arc::new(SystemClock))),
            node_view: self.view_reader.clone(),
            in_use: self.in_use.clone(),
            events: self.events.clone(),
            clock: Arc::new(SystemClock),
            metrics: self.metrics.clone(),
            node: "n1".to_owned(),
        })
    }

    pub(crate) async fn set_up(
        &self,
        agent: &CsiVolumes,
        uid: &str,
        volume: &CsiVolume,
        fs_group: Option<FsGroup>,
    ) -> Result<(), VolumeError> {
        let plan = VolumePlan::Csi(Box::new(volume.clone()));
        let planned = PlannedVolume { name: "v".to_owned(), plan, fs_group, label: model::VolumeLabel::None };
        agent.set_up(&PodUid::from(uid), &planned, &Progress::default()).await
    }

    pub(crate) fn in_use(&self) -> watch::Receiver<Option<Vec<String>>> {
        self.in_use.subscribe()
    }

    pub(crate) fn show_in_use(&self, names: &[&str]) {
        let node: core::Node = serde_json::from_value(json!({"status": {"volumesInUse": names}})).unwrap();
        self.view.send_replace(NodeView::of(Arc::new(node)));
    }

    pub(crate) fn show(&self, node: &Value) {
        let node: core::Node = serde_json::from_value(node.clone()).unwrap();
        self.view.send_replace(NodeView::of(Arc::new(node)));
    }

    pub(crate) fn attach(&self, status: &Value) {
        let spec = json!({"attacher": "d.example", "nodeName": "n1", "source": {}});
        let object = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
        *self.cluster.attachment.lock() = Some(serde_json::from_value(object).unwrap());
    }

    /// Drivers with a requested refresh.
    pub(crate) fn refresh_requests(&self) -> BTreeSet<String> {
        self.drivers.take_refresh_requests()
    }

    /// Number of requested tokens.
    pub(crate) fn tokens(&self) -> usize {
        *self.cluster.tokens.lock()
    }

    pub(crate) fn patches(&self) -> Vec<Value> {
        self.cluster.patches.lock().clone()
    }

    fn mounts(&self) -> Vec<PathBuf> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
        points.filter(|point| point.starts_with(&self.root)).collect()
    }

    /// Whether an operation on a volume of `d.example` was counted as a success.
    pub(crate) fn has_counted(&self, operation: &str) -> bool {
        self.has_counted_of("kubernetes.io/csi:d.example", operation)
    }

    pub(crate) fn has_counted_of(&self, plugin: &str, operation: &str) -> bool {
        let line = format!(
            "storage_operation_duration_seconds_count{{migrated=\"false\",operation_name=\"{operation}\",status=\"success\",\
             volume_plugin=\"{plugin}\"}} "
        );
        self.metrics.encode(Format::Text).contains(&line)
    }

    /// The metric lines with this prefix.
    pub(crate) fn counted(&self, prefix: &str) -> Vec<String> {
        let text = self.metrics.encode(Format::Text);
        text.lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect()
    }

    /// Nothing is mounted, and no record of a volume is left.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.mounts(), Vec::<PathBuf>::new());
        let mut left = Vec::new();
        gather(&self.root, &mut left);
        assert_eq!(left, Vec::<PathBuf>::new());
    }

    /// The plugin registry, its drivers and its cluster.
    pub(crate) fn registry(
        &self,
        cancel: CancellationToken,
    ) -> (impl Future<Output = ()> + use<>, Arc<CsiDrivers>, Arc<Cluster>) {
        let drivers = Arc::new(CsiDrivers::default());
        let api: (Arc<dyn ApiNodes>, Arc<dyn ApiCsiNodes>) = (self.cluster.clone(), self.cluster.clone());
        let csi = CsiPlugins::new(
            drivers.clone(),
            Arc::new(GrpcCsiConnector),
            api,
            "n1".to_owned(),
            Arc::default(),
        );
        let parts = plugin_registry::PluginRegistryDeps {
            sockets: Arc::new(HostPluginSockets::new(&self.root)),
            watch: Arc::new(InotifyFolderWatch),
            registration: Arc::new(GrpcPluginRegistration),
            types: [(
                "CSIPlugin".to_owned(),
                Arc::new(csi) as Arc<dyn ports::plugins::plugin_registry::PluginType>,
            )]
            .into(),
            metrics: Arc::default(),
        };
        (plugin_registry::run(parts, cancel), drivers, self.cluster.clone())
    }
}

/// Collects everything that is not a folder.
fn gather(folder: &Path, left: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let is_journal = entry.file_name() == "mounts";
        match entry.file_type().unwrap().is_dir() {
            true => gather(&entry.path(), left),
            false if is_journal => {}
            false => left.push(entry.path()),
        }
    }
}

/// A fake cluster.
#[derive(Default)]
pub(crate) struct Cluster {
    drivers: Mutex<Vec<CSIDriver>>,
    attachment: Mutex<Option<VolumeAttachment>>,
    patches: Mutex<Vec<Value>>,
    node: Mutex<Value>,
    csi_node: Mutex<Option<CSINode>>,
    tokens: Mutex<usize>,
}

impl Cluster {
    pub(crate) fn csi_node(&self) -> Option<CSINode> {
        self.csi_node.lock().clone()
    }

    pub(crate) fn node(&self) -> Value {
        self.node.lock().clone()
    }
}

fn missing() -> ApiError {
    ApiError { kind: ApiErrorKind::NotFound, message: "not found".to_owned(), retry_after: None }
}

#[async_trait]
impl ApiVolumes for Cluster {
    async fn claim(&self, _: &str, _: &str) -> Result<core::PersistentVolumeClaim, ApiError> {
        Err(missing())
    }

    async fn volume(&self, _: &str) -> Result<core::PersistentVolume, ApiError> {
        Err(missing())
    }

    async fn attachment(&self, _: &str) -> Result<VolumeAttachment, ApiError> {
        self.attachment.lock().clone().ok_or_else(missing)
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<core::Secret, ApiError> {
        let value = k8s_openapi::ByteString(format!("value of {namespace}/{name}").into_bytes());
        let data = Some([("key".to_owned(), value)].into());
        Ok(core::Secret { data, ..core::Secret::default() })
    }

    async fn patch_claim_status(&self, _: &str, _: &str, patch: &Value) -> Result<(), ApiError> {
        self.patches.lock().push(patch.clone());
        Ok(())
    }

    fn watch_drivers(&self) -> FeedStream<CSIDriver> {
        let list = Feed::Listed(self.drivers.lock().clone());
        futures::stream::iter([list]).chain(futures::stream::pending()).boxed()
    }
}

#[async_trait]
impl ApiTokens for Cluster {
    async fn create(&self, request: &TokenRequest) -> Result<IssuedToken, ApiError> {
        *self.tokens.lock() += 1;
        let token = format!("token-for-{}", request.wish.audiences.join(","));
        Ok(IssuedToken { token, expires_at: Timestamp::from_secs(4_000_000_000), expiration_seconds: 3600 })
    }
}

#[async_trait]
impl ApiNodes for Cluster {
    fn watch(&self) -> FeedStream<core::Node> {
        futures::stream::pending().boxed()
    }

    async fn get(&self) -> Result<core::Node, ApiError> {
        let mut node = self.node();
        node["metadata"]["uid"] = json!("node-uid");
        Ok(serde_json::from_value(node).unwrap())
    }

    async fn create(&self, node: &core::Node) -> Result<core::Node, ApiError> {
        Ok(node.clone())
    }

    async fn patch_status(&self, patch: &Value) -> Result<core::Node, ApiError> {
        merge(&mut self.node.lock(), patch);
        ApiNodes::get(self).await
    }
}

fn merge(value: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !value.is_object() {
                *value = json!({});
            }
            for (key, field) in fields {
                merge(&mut value[key], field);
            }
        }
        other => *value = other.clone(),
    }
}

#[async_trait]
impl ApiCsiNodes for Cluster {
    async fn get(&self) -> Result<CSINode, ApiError> {
        self.csi_node().ok_or_else(missing)
    }

    async fn create(&self, object: &CSINode) -> Result<(), ApiError> {
        *self.csi_node.lock() = Some(object.clone());
        Ok(())
    }

    async fn replace(&self, object: &CSINode) -> Result<(), ApiError> {
        *self.csi_node.lock() = Some(object.clone());
        Ok(())
    }

    async fn delete(&self) -> Result<(), ApiError> {
        *self.csi_node.lock() = None;
        Ok(())
    }
}

#[derive(Default)]
struct Disk(Mutex<HashMap<&'static str, Vec<u8>>>);

#[async_trait]
impl Checkpoints for Disk {
    async fn save(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.0.lock().insert(name, content);
        Ok(())
    }

    async fn save_unflushed(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.save(name, content).await
    }

    async fn load(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        Ok(self.0.lock().get(name).cloned())
    }
}
