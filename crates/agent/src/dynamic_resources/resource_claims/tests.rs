use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use k8s_openapi::api::resource::v1::ResourceClaim;
use model::{PodSource, PreparedDevice};
use ports::plugins::dra::{ClaimResults, DraConnection, DraConnector, DraVersion, HealthReports};
use ports::plugins::plugin_registry::{PluginInfo, PluginType};
use serde_json::json;
use testkit::builders::parse_pod;

use super::*;
use crate::metrics::Format;
use crate::test_checkpoints::Files;

/// Drivers that share one list of calls.
#[derive(Clone, Default)]
struct Drivers {
    calls: Arc<Mutex<Vec<String>>>,
    /// The error of the next calls, by driver.
    failures: Arc<Mutex<BTreeMap<String, String>>>,
    files: Arc<Files>,
}

struct Connection {
    name: String,
    drivers: Drivers,
}

#[async_trait]
impl DraConnector for Drivers {
    async fn connect(&self, endpoint: &Path) -> Result<Arc<dyn DraConnection>, DraError> {
        let name = endpoint.display().to_string();
        Ok(Arc::new(Connection { name, drivers: self.clone() }))
    }
}

impl Connection {
    fn answer<T: Clone>(&self, call: &str, claims: &[ClaimReference], value: T) -> ClaimResults<T> {
        let names: Vec<_> = claims.iter().map(|claim| claim.name.as_str()).collect();
        self.drivers.calls.lock().push(format!("{call} {} {}", self.name, names.join(",")));
        let failure = self.drivers.failures.lock().get(&self.name).cloned();
        let result = match failure {
            Some(text) => Err(text),
            None => Ok(value),
        };
        claims.iter().map(|claim| (claim.uid.clone(), result.clone())).collect()
    }
}

#[async_trait]
impl DraConnection for Connection {
    async fn prepare(
        &self,
        _: DraVersion,
        claims: &[ClaimReference],
    ) -> Result<ClaimResults<Vec<PreparedDevice>>, DraError> {
        // A kill of the agent during the call must not lose the pod.
        let (_, stored) = self.drivers.files.read(CLAIM_STATE).unwrap_or_default();
        assert!(!state_file::decode(&stored).unwrap().pods().is_empty(), "not recorded before the call");
        let device = PreparedDevice { cdi_ids: vec![format!("v/{}=0", self.name)], ..Default::default() };
        Ok(self.answer("prepare", claims, vec![device]))
    }

    async fn unprepare(
        &self,
        _: DraVersion,
        claims: &[ClaimReference],
    ) -> Result<ClaimResults<()>, DraError> {
        Ok(self.answer("unprepare", claims, ()))
    }

    async fn watch_health(&self) -> Result<HealthReports, DraError> {
        unreachable!("no stage follows the health")
    }

    async fn closed(&self) {
        std::future::pending::<()>().await;
    }
}

/// Claims that are allocated from the drivers `a` and `b`, and reserved for pods `one` and `two`.
struct Api;

#[async_trait]
impl ApiResourceClaims for Api {
    async fn resource_claim(&self, _: &str, name: &str) -> Result<ResourceClaim, ApiError> {
        let result = |driver: &str| json!({"request": "r", "driver": driver, "pool": "p", "device": "d"});
        let object = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("{name}-uid")},
            "spec": {},
            "status": {
                "reservedFor": [
                    {"resource": "pods", "name": "one", "uid": "one"},
                    {"resource": "pods", "name": "two", "uid": "two"},
                ],
                "allocation": {"devices": {"results": [result("a"), result("b")]}},
            },
        });
        Ok(serde_json::from_value(object).unwrap())
    }

    async fn delete_slices(&self, _: Option<&str>) -> Result<(), ApiError> {
        Ok(())
    }
}

fn pod(name: &str) -> Pod {
    let object = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}],
            "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    });
    parse_pod(object, PodSource::Api)
}

async fn register(drivers: &DraDrivers, name: &str) {
    let plugin = PluginInfo {
        kind: "DRAPlugin".to_owned(),
        name: name.to_owned(),
        endpoint: name.into(),
        versions: vec!["v1.DRAPlugin".to_owned()],
    };
    drivers.register(&plugin).await.unwrap();
}

/// Claims as after a start of the agent, with both drivers.
async fn claims(fakes: &Drivers, metrics: &Arc<Metrics>) -> ResourceClaims {
    let (drivers, _ends) = DraDrivers::new(Arc::new(fakes.clone()), metrics.clone());
    register(&drivers, "a").await;
    register(&drivers, "b").await;
    let restored = restore(&*fakes.files).await.unwrap();
    ResourceClaims::new(deps(fakes, drivers, metrics), restored)
}

fn deps(fakes: &Drivers, drivers: Arc<DraDrivers>, metrics: &Arc<Metrics>) -> ResourceClaimsDeps {
    ResourceClaimsDeps {
        api: Arc::new(Api),
        drivers,
        files: fakes.files.clone(),
        metrics: metrics.clone(),
        extended: ExtendedResources::Claimed,
    }
}

#[tokio::test(start_paused = true)]
async fn shared_claim_survives_a_restart_and_the_end_of_one_pod() {
    let (fakes, metrics) = (Drivers::default(), Arc::new(Metrics::new()));
    let claims = claims(&fakes, &metrics).await;
    claims.prepare(&pod("one")).await.unwrap();
    claims.prepare(&pod("two")).await.unwrap();
    assert_eq!(*fakes.calls.lock(), ["prepare a shared", "prepare b shared"]);
    let container = &pod("one").spec.containers[0];
    assert_eq!(claims.cdi_ids(&pod("one"), container).unwrap(), ["v/a=0", "v/b=0"]);
    metrics.add(Arc::new(claims));
    let text = metrics.encode(Format::Text);
    assert!(text.contains("dra_resource_claims_in_use{driver_name=\"<any>\"} 1\n"), "{text}");

    let restarted = self::claims(&fakes, &metrics).await;
    assert_eq!(restarted.cdi_ids(&pod("one"), container).unwrap(), ["v/a=0", "v/b=0"]);
    restarted.unprepare(&"one".into()).await.unwrap();
    assert_eq!(fakes.calls.lock().len(), 2);
    restarted.unprepare(&"two".into()).await.unwrap();
    assert_eq!(fakes.calls.lock()[2..], ["unprepare a shared", "unprepare b shared"]);
    assert!(restarted.pods().is_empty());
    assert_eq!(restore(&*fakes.files).await.unwrap(), PreparedClaims::default());
}

#[tokio::test(start_paused = true)]
async fn failed_driver_is_called_again_by_the_next_attempt() {
    let (fakes, metrics) = (Drivers::default(), Arc::new(Metrics::new()));
    let claims = claims(&fakes, &metrics).await;
    fakes.failures.lock().insert("b".to_owned(), "no such device".to_owned());
    let error = claims.prepare(&pod("one")).await.unwrap_err();
    assert_eq!(error.to_string(), "NodePrepareResources failed for ResourceClaim shared: no such device");
    fakes.failures.lock().clear();
    claims.prepare(&pod("one")).await.unwrap();
    let container = &pod("one").spec.containers[0];
    assert_eq!(claims.cdi_ids(&pod("one"), container).unwrap(), ["v/a=0", "v/b=0"]);

    fakes.failures.lock().insert("a".to_owned(), "busy".to_owned());
    let error = claims.unprepare(&"one".into()).await.unwrap_err();
    assert_eq!(error.to_string(), "NodeUnprepareResources failed for ResourceClaim shared: busy");
    assert_eq!(claims.pods(), ["one".into()]);
    fakes.failures.lock().clear();
    claims.unprepare(&"one".into()).await.unwrap();
    assert!(claims.pods().is_empty());
}

#[tokio::test(start_paused = true)]
async fn unregistered_driver_fails_before_anything_is_recorded() {
    let (fakes, metrics) = (Drivers::default(), Arc::new(Metrics::new()));
    let (drivers, _ends) = DraDrivers::new(Arc::new(fakes.clone()), metrics.clone());
    register(&drivers, "a").await;
    let claims = ResourceClaims::new(deps(&fakes, drivers, &metrics), PreparedClaims::default());
    let error = claims.prepare(&pod("one")).await.unwrap_err();
    assert_eq!(error.to_string(), "DRA driver b is not registered");
    assert!(claims.pods().is_empty());
    assert!(fakes.calls.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn damaged_state_stops_the_start() {
    let files = Files::default();
    files.save(CLAIM_STATE, br#"{"Data":"{}","Checksum":1}"#.to_vec()).await.unwrap();
    let error = restore(&files).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "create ResourceClaim cache: GetOrCreate() on checkpoint state: failed to get checkpoint dra_manager_state: checkpoint is corrupted"
    );
}
