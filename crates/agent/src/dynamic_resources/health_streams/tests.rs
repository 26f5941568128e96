use std::path::Path;

use async_trait::async_trait;
use decide::resource_claims::device_health::DeviceHealthTable;
use decide::resource_claims::references::ExtendedResources;
use decide::resource_claims::{ClaimKey, PreparedClaim, PreparedClaims};
use futures::stream;
use k8s_openapi::api::resource::v1::ResourceClaim;
use model::{ClaimDeviceHealth, ClaimReference, DeviceHealthReport, Pod, PodSource, PodUid, PreparedDevice};
use parking_lot::Mutex;
use ports::api::resource_claims::ApiResourceClaims;
use ports::api::{ApiError, ApiErrorKind};
use ports::host::checkpoints::Checkpoints;
use ports::plugins::dra::{ClaimResults, DraConnection, DraConnector, DraError, DraVersion};
use serde_json::json;
use testkit::builders::parse_pod;
use testkit::fake_api::api_error;
use testkit::fake_clock::FakeClock;
use timing::KeyReceiver;
use tokio::time::{Instant, timeout};

use super::*;
use crate::dynamic_resources::device_health::{DeviceHealthDeps, HEALTH_STATE, HealthMessages, restore};
use crate::dynamic_resources::dra_drivers::DraDrivers;
use crate::dynamic_resources::resource_claims::{ResourceClaims, ResourceClaimsDeps};
use crate::metrics::Metrics;
use crate::test_checkpoints::Files;

struct NoServer;

#[async_trait]
impl ApiResourceClaims for NoServer {
    async fn resource_claim(&self, _: &str, _: &str) -> Result<ResourceClaim, ApiError> {
        Err(api_error(ApiErrorKind::NotFound))
    }

    async fn delete_slices(&self, _: Option<&str>) -> Result<(), ApiError> {
        Err(api_error(ApiErrorKind::NotFound))
    }
}

fn refused() -> DraError {
    DraError { code: "Unimplemented".to_owned(), message: "no such service".to_owned() }
}

struct NoDriver;

#[async_trait]
impl DraConnector for NoDriver {
    async fn connect(&self, _: &Path) -> Result<Arc<dyn DraConnection>, DraError> {
        Err(refused())
    }
}

type Report = Result<Vec<DeviceHealthReport>, DraError>;

/// A connection whose streams are prepared by the test. Without one, it reports no health.
#[derive(Default)]
struct Driver {
    streams: Mutex<Vec<mpsc::UnboundedReceiver<Report>>>,
    attempts: Mutex<Vec<Instant>>,
    closed: CancellationToken,
}

impl Driver {
    fn stream(&self) -> mpsc::UnboundedSender<Report> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.streams.lock().insert(0, receiver);
        sender
    }
}

#[async_trait]
impl DraConnection for Driver {
    async fn prepare(
        &self,
        _: DraVersion,
        _: &[ClaimReference],
    ) -> Result<ClaimResults<Vec<PreparedDevice>>, DraError> {
        Err(refused())
    }

    async fn unprepare(&self, _: DraVersion, _: &[ClaimReference]) -> Result<ClaimResults<()>, DraError> {
        Err(refused())
    }

    async fn watch_health(&self) -> Result<HealthReports, DraError> {
        self.attempts.lock().push(Instant::now());
        let receiver = self.streams.lock().pop().ok_or_else(refused)?;
        let reports = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
        Ok(reports.boxed())
    }

    async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// A node on which pod `web` has device `a` of the driver.
struct Fixture {
    health: Arc<DeviceHealth>,
    files: Arc<Files>,
    changed: KeyReceiver<PodUid>,
    connected: mpsc::UnboundedSender<Connected>,
    cancel: CancellationToken,
    stage: tokio::task::JoinHandle<()>,
}

impl Fixture {
    async fn start(files: Arc<Files>) -> Self {
        let metrics = Arc::new(Metrics::new());
        let (drivers, _) = DraDrivers::new(Arc::new(NoDriver), metrics.clone());
        let extended = ExtendedResources::Claimed;
        let deps =
            ResourceClaimsDeps { api: Arc::new(NoServer), drivers, files: files.clone(), metrics, extended };
        let device =
            PreparedDevice { pool: "pool".to_owned(), device: "a".to_owned(), ..PreparedDevice::default() };
        let claim = PreparedClaim {
            uid: "1".to_owned(),
            pods: ["web".into()].into(),
            drivers: [("gpu".to_owned(), vec![device])].into(),
            is_prepared: false,
        };
        let key = ClaimKey { namespace: "default".to_owned(), name: "gpus".to_owned() };
        let claims = PreparedClaims::new([(key, claim)].into());
        let (listener, changed) = timing::key_channel();
        let health = Arc::new(DeviceHealth::new(DeviceHealthDeps {
            claims: Arc::new(ResourceClaims::new(deps, claims)),
            files: files.clone(),
            clock: Arc::new(FakeClock::following_tokio(1_000)),
            messages: HealthMessages::Shown,
            listener,
            restored: restore(&*files).await,
        }));
        let (connected, receiver) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let deps = HealthStreamsDeps { health: health.clone(), connected: receiver };
        let stage = tokio::spawn(run(deps, cancel.clone()));
        Self { health, files, changed, connected, cancel, stage }
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.stage.await.unwrap();
    }

    fn connect(&self, connection: &Arc<Driver>) {
        let (driver, gone) = ("gpu".to_owned(), CancellationToken::new());
        let instance = Connected { driver, connection: connection.clone(), gone };
        assert!(self.connected.send(instance).is_ok());
    }

    /// The health that the status of the pod shows.
    fn shown(&self) -> (String, Option<String>) {
        let object = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "web"},
            "spec": {
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpus"}],
                "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
            },
        });
        let pod: Pod = parse_pod(object, PodSource::Api);
        let mut health = self.health.of_pod(&pod).remove("main").unwrap();
        let device = health.remove(0).resources.unwrap().remove(0);
        (device.health.unwrap(), device.message)
    }

    async fn until_told(&mut self) -> (String, Option<String>) {
        let told = timeout(Duration::from_secs(600), self.changed.recv()).await.unwrap();
        assert_eq!(told, Some("web".into()));
        self.shown()
    }

    fn stored(&self) -> String {
        self.files
            .read(HEALTH_STATE)
            .map(|(_, content)| String::from_utf8(content).unwrap())
            .unwrap_or_default()
    }
}

fn device(name: &str, health: ClaimDeviceHealth, message: &str) -> DeviceHealthReport {
    DeviceHealthReport {
        pool: "pool".to_owned(),
        device: name.to_owned(),
        health,
        timeout_seconds: 0,
        message: message.to_owned(),
    }
}

fn text(health: &str, message: Option<&str>) -> (String, Option<String>) {
    (health.to_owned(), message.map(str::to_owned))
}

#[tokio::test(start_paused = true)]
async fn reports_reach_the_pods_of_the_device_and_survive_a_restart() {
    let mut node = Fixture::start(Arc::default()).await;
    assert_eq!(node.shown(), text("Unknown", None));
    let driver = Arc::new(Driver::default());
    let reports = driver.stream();
    node.connect(&driver);
    reports.send(Ok(vec![device("a", ClaimDeviceHealth::Healthy, "")])).unwrap();
    assert_eq!(node.until_told().await, text("Healthy", None));
    // A device that no pod has.
    reports.send(Ok(vec![device("b", ClaimDeviceHealth::Unhealthy, "")])).unwrap();
    reports.send(Ok(vec![device("a", ClaimDeviceHealth::Unhealthy, "too hot")])).unwrap();
    assert_eq!(node.until_told().await, text("Unhealthy", Some("too hot")));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(node.stored().contains("too hot"), "{}", node.stored());
    let files = node.files.clone();
    node.stop().await;

    let node = Fixture::start(files).await;
    assert_eq!(
        node.shown(),
        text("Unhealthy", Some("too hot")),
        "the end of the agent is no end of a stream"
    );
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ended_stream_makes_devices_unknown_until_it_is_opened_again() {
    let mut node = Fixture::start(Arc::default()).await;
    let driver = Arc::new(Driver::default());
    let (first, second) = (driver.stream(), driver.stream());
    node.connect(&driver);
    first.send(Ok(vec![device("a", ClaimDeviceHealth::Healthy, "")])).unwrap();
    assert_eq!(node.until_told().await, text("Healthy", None));
    first.send(Err(refused())).unwrap();
    assert_eq!(node.until_told().await, text("Unknown", None));
    second.send(Ok(vec![device("a", ClaimDeviceHealth::Healthy, "")])).unwrap();
    assert_eq!(node.until_told().await, text("Healthy", None));
    drop(second);
    assert_eq!(node.until_told().await, text("Unknown", None));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(node.stored(), "{}");
    let attempts = driver.attempts.lock().clone();
    let pauses: Vec<_> = attempts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(pauses, [5, 5]);
    driver.closed.cancel();
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn end_of_one_of_two_instances_keeps_the_reports_of_the_other() {
    let mut node = Fixture::start(Arc::default()).await;
    let (old, new, silent) = (Arc::new(Driver::default()), Arc::new(Driver::default()), Arc::default());
    let (old_reports, new_reports) = (old.stream(), new.stream());
    node.connect(&old);
    node.connect(&new);
    node.connect(&silent);
    old_reports.send(Ok(vec![device("a", ClaimDeviceHealth::Healthy, "")])).unwrap();
    assert_eq!(node.until_told().await, text("Healthy", None));
    old.closed.cancel();
    old_reports.closed().await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(node.shown(), text("Healthy", None));
    new_reports.send(Ok(vec![device("a", ClaimDeviceHealth::Unhealthy, "")])).unwrap();
    assert_eq!(node.until_told().await, text("Unhealthy", None));
    new.closed.cancel();
    assert_eq!(node.until_told().await, text("Unknown", None));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn silent_driver_loses_its_reports_after_their_time() {
    let mut node = Fixture::start(Arc::default()).await;
    let driver = Arc::new(Driver::default());
    let reports = driver.stream();
    node.connect(&driver);
    let started = Instant::now();
    reports.send(Ok(vec![device("a", ClaimDeviceHealth::Healthy, "")])).unwrap();
    assert_eq!(node.until_told().await, text("Healthy", None));
    assert_eq!(node.until_told().await, text("Unknown", None));
    assert_eq!(started.elapsed().as_secs(), 30);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unusable_health_file_is_ignored() {
    let files = Files::default();
    files.save(HEALTH_STATE, b"{\"gpu\":".to_vec()).await.unwrap();
    assert_eq!(restore(&files).await, DeviceHealthTable::default());
    assert_eq!(restore(&Files::default()).await, DeviceHealthTable::default());
}
