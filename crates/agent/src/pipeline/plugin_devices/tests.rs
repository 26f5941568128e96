use std::path::Path;

use async_trait::async_trait;
use decide::devices::checkpoint::DEVICE_CHECKPOINT;
use futures::FutureExt as _;
use model::{AllocatedDevices, DeviceOptions, DevicePluginOptions, PluginDevice, PodSource};
use ports::plugins::device_plugin::{DeviceLists, DevicePluginError, PreferenceQuery};
use ports::plugins::plugin_registry::{PluginInfo, PluginType};
use ports::served::device_registration::{DeviceRegistration, DeviceRegistry};
use serde_json::json;
use testkit::builders;

use super::*;
use crate::metrics::Format;
use crate::test_checkpoints::Files;

const X: &str = "vendor.com/x";

type List = Result<Vec<PluginDevice>, DevicePluginError>;

/// A plugin whose answers name the devices.
#[derive(Default)]
struct FakePlugin {
    options: DevicePluginOptions,
    preferred: Vec<String>,
    lists: Mutex<Option<mpsc::UnboundedReceiver<List>>>,
    calls: Mutex<Vec<String>>,
    fails: Mutex<bool>,
}

impl FakePlugin {
    fn call(&self, call: &str, devices: &[String]) -> Result<(), DevicePluginError> {
        self.calls.lock().push(format!("{call} {}", devices.join(",")));
        match *self.fails.lock() {
            true => Err(DevicePluginError("rpc error: code = Internal desc = broken".to_owned())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl DevicePlugin for FakePlugin {
    fn options(&self) -> DevicePluginOptions {
        self.options
    }

    async fn watch(&self) -> Result<DeviceLists, DevicePluginError> {
        let lists = self.lists.lock().take();
        let lists = lists.ok_or_else(|| DevicePluginError("no list".to_owned()))?;
        Ok(Box::pin(futures::stream::unfold(lists, async |mut lists| Some((lists.recv().await?, lists)))))
    }

    async fn prefer(&self, query: &PreferenceQuery) -> Result<Vec<String>, DevicePluginError> {
        self.call("prefer", &query.available)?;
        Ok(self.preferred.clone())
    }

    async fn allocate(&self, devices: &[String]) -> Result<AllocatedDevices, DevicePluginError> {
        self.call("allocate", devices)?;
        let encoded = devices.join(",").into_bytes();
        let options = decoded(&encoded);
        Ok(AllocatedDevices { encoded, options })
    }

    async fn pre_start(&self, devices: &[String]) -> Result<(), DevicePluginError> {
        self.call("pre-start", devices)
    }
}

fn decoded(encoded: &[u8]) -> DeviceOptions {
    let devices = String::from_utf8_lossy(encoded).into_owned();
    DeviceOptions { env: [("DEVICES".to_owned(), devices)].into(), ..DeviceOptions::default() }
}

/// Connects to one plugin, or fails.
#[derive(Default)]
struct FakeConnector(Mutex<Option<Arc<FakePlugin>>>);

#[async_trait]
impl DevicePluginConnector for FakeConnector {
    async fn connect(&self, _: &Path) -> Result<Arc<dyn DevicePlugin>, DevicePluginError> {
        match &*self.0.lock() {
            Some(plugin) => Ok(plugin.clone()),
            None => Err(DevicePluginError("failed to dial device plugin: nothing there".to_owned())),
        }
    }

    fn decode(&self, encoded: &[u8]) -> Option<DeviceOptions> {
        (encoded != b"damaged").then(|| decoded(encoded))
    }
}

type Lists = mpsc::UnboundedSender<List>;

struct Fixture {
    devices: PluginDevices,
    connector: Arc<FakeConnector>,
    registered: mpsc::UnboundedReceiver<RegisteredPlugin>,
    files: Arc<Files>,
    metrics: Arc<Metrics>,
}

impl Fixture {
    async fn new() -> Self {
        Self::restored(Arc::default()).await
    }

    async fn restored(files: Arc<Files>) -> Self {
        let (connector, metrics) = (Arc::new(FakeConnector::default()), Arc::new(Metrics::new()));
        let devices = PluginDevices::restore(PluginDevicesDeps {
            connector: connector.clone(),
            folder: "/plugins".into(),
            files: files.clone(),
            machine: NumaMask::of([0, 1]),
            metrics: metrics.clone(),
        });
        let devices = devices.await;
        let registered = devices.registrations().unwrap();
        Self { devices, connector, registered, files, metrics }
    }

    async fn register(&self, version: &str, resource: &str) -> Result<(), String> {
        let registration = DeviceRegistration {
            version: version.to_owned(),
            endpoint: "x.sock".to_owned(),
            resource: resource.to_owned(),
        };
        DeviceRegistry::register(&self.devices, registration).await
    }

    /// Registers a plugin and starts to follow it.
    async fn start(&mut self, plugin: FakePlugin, ids: &[&str]) -> (Arc<FakePlugin>, Lists) {
        let (lists, receiver) = mpsc::unbounded_channel();
        lists.send(Ok(ids.iter().map(|id| device(id, "Healthy")).collect())).unwrap();
        let plugin = Arc::new(FakePlugin { lists: Mutex::new(Some(receiver)), ..plugin });
        *self.connector.0.lock() = Some(plugin.clone());
        self.register("v1beta1", X).await.unwrap();
        let registered = self.registered.recv().await.unwrap();
        tokio::spawn(self.devices.clone().follow(registered));
        let expected = DeviceCount { capacity: ids.len(), allocatable: ids.len() };
        self.until(expected).await;
        (plugin, lists)
    }

    async fn until(&self, expected: DeviceCount) {
        let mut counts = self.devices.watch_counts().unwrap();
        counts.wait_for(|counts| counts.get(X) == Some(&expected)).await.unwrap();
    }

    async fn allocate(&self, pod: &Pod) -> Result<(), String> {
        for container in pod.containers() {
            let allocated = self.devices.allocate(pod, container, None).await;
            allocated.map_err(|rejection| rejection.message)?;
        }
        Ok(())
    }

    async fn options(&self, pod: &Pod) -> Result<String, String> {
        let prepared = self.devices.prepare_container(pod, &pod.spec.containers[0]).await;
        prepared.map(|options| options.env.get("DEVICES").cloned().unwrap_or_default())
    }
}

fn device(id: &str, health: &str) -> PluginDevice {
    PluginDevice { id: id.to_owned(), health: health.to_owned(), nodes: Vec::new() }
}

fn pod(uid: &str, count: &str) -> Pod {
    let container = json!({"name": "main", "resources": {"limits": {X: count}, "requests": {X: count}}});
    builders::pod(uid, PodSource::Api, json!({"containers": [container]}))
}

fn count(capacity: usize, allocatable: usize) -> DeviceCount {
    DeviceCount { capacity, allocatable }
}

#[tokio::test]
async fn invalid_registrations_are_refused_with_the_texts_of_upstream() {
    let fixture = Fixture::new().await;
    for (version, resource, error) in [
        (
            "v1alpha",
            X,
            "requested API version \"v1alpha\" is not supported by kubelet. Supported version is [\"v1beta1\"]",
        ),
        ("v1beta1", "gpu", "the ResourceName \"gpu\" is invalid"),
        ("v1beta1", X, "failed to dial device plugin: nothing there"),
    ] {
        assert_eq!(fixture.register(version, resource).await, Err(error.to_owned()));
    }
    assert!(fixture.devices.counts().is_empty());
    let text = fixture.metrics.encode(Format::Text);
    let line = "kubelet_device_plugin_registration_total{resource_name=\"vendor.com/x\"} 2\n";
    assert!(text.contains(line), "{text}");
    let info = |name: &str, versions: &[&str]| PluginInfo {
        kind: "DevicePlugin".to_owned(),
        name: name.to_owned(),
        endpoint: "/plugins/x.sock".into(),
        versions: versions.iter().map(|version| (*version).to_owned()).collect(),
    };
    let validate = |name, versions: &[&str]| fixture.devices.validate(&info(name, versions));
    let text = |result: Result<(), ports::plugins::plugin_registry::PluginError>| result.unwrap_err().0;
    assert_eq!(
        text(validate(X, &["v1", "v2"])),
        "manager version, v1beta1, is not among plugin supported versions [v1 v2]"
    );
    assert_eq!(
        text(validate("gpu", &["v1beta1"])),
        "invalid name of device plugin socket: the ResourceName \"gpu\" is invalid"
    );
    assert!(validate(X, &["v1beta1"]).is_ok());
}

#[tokio::test]
async fn container_gets_what_the_plugin_adds_and_keeps_it_across_a_restart() {
    let mut fixture = Fixture::new().await;
    let (plugin, _lists) = fixture.start(FakePlugin::default(), &["a", "b"]).await;
    let one = pod("one", "1");
    fixture.allocate(&one).await.unwrap();
    fixture.allocate(&one).await.unwrap();
    assert_eq!(*plugin.calls.lock(), ["allocate a"], "the second admission keeps the device");
    assert_eq!(fixture.options(&one).await, Ok("a".to_owned()));
    assert_eq!(
        fixture.allocate(&pod("two", "2")).await,
        Err("Allocate failed due to requested number of devices unavailable for vendor.com/x. Requested: 2, Available: 1, which is unexpected".to_owned())
    );
    fixture.devices.flush().await.unwrap();
    let text = fixture.metrics.encode(Format::Text);
    let line = "kubelet_device_plugin_alloc_duration_seconds_count{resource_name=\"vendor.com/x\"} 1\n";
    assert!(text.contains(line), "{text}");

    let mut later = Fixture::restored(fixture.files.clone()).await;
    assert_eq!(later.devices.counts()[X], count(0, 0));
    assert_eq!(later.options(&one).await, Ok("a".to_owned()), "a container restarts without the plugin");
    assert_eq!(
        later.allocate(&pod("two", "1")).await,
        Err("Allocate failed due to no healthy devices present; cannot allocate unhealthy devices vendor.com/x, which is unexpected".to_owned())
    );
    let (plugin, _lists) = later.start(FakePlugin::default(), &["a", "b"]).await;
    later.allocate(&one).await.unwrap();
    later.allocate(&pod("two", "1")).await.unwrap();
    assert_eq!(*plugin.calls.lock(), ["allocate b"], "the device of the first pod is in use");
    later.devices.retain(|uid, _| uid.as_str() != "one");
    later.allocate(&pod("three", "1")).await.unwrap();
    assert_eq!(plugin.calls.lock().last().unwrap(), "allocate a");
}

#[tokio::test]
async fn unusable_checkpoint_is_ignored() {
    let files = Arc::new(Files::default());
    files.save(DEVICE_CHECKPOINT, b"{\"Data\":".to_vec()).await.unwrap();
    assert!(Fixture::restored(files).await.devices.counts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn stopped_plugin_keeps_its_capacity_for_five_minutes() {
    let mut fixture = Fixture::new().await;
    let (_, lists) = fixture.start(FakePlugin::default(), &["a", "b"]).await;
    let one = pod("one", "1");
    fixture.allocate(&one).await.unwrap();
    drop(lists);
    fixture.until(count(2, 0)).await;
    let devices = &fixture.devices;
    assert_eq!(devices.next_drop(), Some(Instant::now() + STOPPED_GRACE));
    tokio::time::advance(STOPPED_GRACE - Duration::from_secs(1)).await;
    devices.drop_stopped();
    assert_eq!(devices.counts()[X], count(2, 0));
    tokio::time::advance(Duration::from_secs(1)).await;
    devices.drop_stopped();
    assert_eq!((devices.counts()[X], devices.next_drop()), (count(0, 0), None));
    assert_eq!(fixture.options(&one).await, Ok("a".to_owned()), "the container can restart");
    assert_eq!(
        fixture.allocate(&pod("two", "1")).await,
        Err("Allocate failed due to cannot allocate unregistered device vendor.com/x, which is unexpected"
            .to_owned())
    );
    let (_, _lists) = fixture.start(FakePlugin::default(), &["a", "b"]).await;
    fixture.allocate(&pod("two", "1")).await.unwrap();
}

#[tokio::test]
async fn end_of_a_replaced_plugin_does_not_affect_its_successor() {
    let mut fixture = Fixture::new().await;
    let (_, old) = fixture.start(FakePlugin::default(), &["a"]).await;
    let (_, _new) = fixture.start(FakePlugin::default(), &["a", "b"]).await;
    // The stream of the old plugin may have ended already.
    let _ = old.send(Err(DevicePluginError("old".to_owned())));
    old.closed().await;
    assert_eq!(fixture.devices.counts()[X], count(2, 2));
    fixture.allocate(&pod("one", "2")).await.unwrap();
}

#[tokio::test]
async fn changed_health_is_shown_in_the_pods_that_own_the_device() {
    let mut fixture = Fixture::new().await;
    let (listener, mut changed) = timing::key_channel();
    fixture.devices.subscribe(listener);
    let (_, lists) = fixture.start(FakePlugin::default(), &["a", "b"]).await;
    fixture.allocate(&pod("one", "1")).await.unwrap();
    fixture.allocate(&pod("two", "1")).await.unwrap();
    lists.send(Ok(vec![device("a", "broken"), device("b", "Healthy")])).unwrap();
    assert_eq!(changed.recv().await, Some(PodUid::from("one")));
    let health = fixture.devices.resource_health(&"one".into());
    let shown = &health["main"][0];
    assert_eq!(shown.name, X);
    assert_eq!(shown.resources.as_ref().unwrap()[0].health.as_deref(), Some("Unhealthy"));
    fixture.until(count(2, 1)).await;
    assert_eq!(fixture.devices.allocated_amounts(&"one".into()), [(X.to_owned(), 2)].into());
    assert!(fixture.devices.allocated_amounts(&"other".into()).is_empty());
}

#[tokio::test]
async fn plugin_chooses_and_prepares_its_devices() {
    let mut fixture = Fixture::new().await;
    let options = DevicePluginOptions { needs_pre_start: true, offers_preferences: true };
    let plugin = FakePlugin { options, preferred: vec!["c".to_owned()], ..FakePlugin::default() };
    let (plugin, _lists) = fixture.start(plugin, &["a", "b", "c"]).await;
    let one = pod("one", "2");
    fixture.allocate(&one).await.unwrap();
    assert_eq!(fixture.options(&one).await, Ok("c,a".to_owned()));
    assert_eq!(*plugin.calls.lock(), ["prefer a,b,c", "allocate c,a", "pre-start a,c"]);
    let found: Vec<_> =
        fixture.devices.of_container(&one.uid, "main").into_iter().map(|own| (own.id, own.node)).collect();
    assert_eq!(found, [("c".to_owned(), None), ("a".to_owned(), None)]);
    assert_eq!(fixture.devices.allocatable().len(), 3);
    *plugin.fails.lock() = true;
    let error =
        "device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = broken";
    assert_eq!(fixture.options(&one).await, Err(error.to_owned()));
    let error = "Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Internal desc = broken, which is unexpected";
    assert_eq!(fixture.allocate(&pod("two", "1")).await, Err(error.to_owned()));
}

#[tokio::test]
async fn failed_allocation_leaves_the_devices_free() {
    let mut fixture = Fixture::new().await;
    let (plugin, _lists) = fixture.start(FakePlugin::default(), &["a"]).await;
    *plugin.fails.lock() = true;
    let error = "Allocate failed due to rpc error: code = Internal desc = broken, which is unexpected";
    assert_eq!(fixture.allocate(&pod("one", "1")).await, Err(error.to_owned()));
    *plugin.fails.lock() = false;
    fixture.allocate(&pod("two", "1")).await.unwrap();
}

#[tokio::test]
async fn pods_without_devices_never_wait() {
    let mut fixture = Fixture::new().await;
    let plain = builders::pod("plain", PodSource::Api, json!({"containers": [{"name": "main"}]}));
    let allocated = |fixture: &Fixture| fixture.allocate(&plain).now_or_never();
    assert_eq!(allocated(&fixture), Some(Ok(())));
    let (_, _lists) = fixture.start(FakePlugin::default(), &["a"]).await;
    assert_eq!(allocated(&fixture), Some(Ok(())));
    // An unknown resource is not a device of a plugin.
    let other = json!({"name": "main", "resources": {"limits": {"other.com/y": "1"}}});
    let other = builders::pod("other", PodSource::Api, json!({"containers": [other]}));
    assert_eq!(fixture.allocate(&other).now_or_never(), Some(Ok(())));
}

#[tokio::test]
async fn missing_record_of_a_container_is_allocated_when_it_starts() {
    let mut fixture = Fixture::new().await;
    let (plugin, _lists) = fixture.start(FakePlugin::default(), &["a"]).await;
    assert_eq!(fixture.options(&pod("one", "1")).await, Ok("a".to_owned()));
    assert_eq!(*plugin.calls.lock(), ["allocate a"]);
}
