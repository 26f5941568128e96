//! A fake cluster of one node: pods and the node's status, nothing else.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use agent::cluster::offline_cache::OfflineCache;
use async_trait::async_trait;
use futures::StreamExt;
use host::HostCsiFolders;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, VolumeAttachment};
use model::{
    AccessQuestion, CertificateOutcome, CertificateRequest, CertificateWish, ConfigObject, IssuedToken,
    ObjectKey, RecordedEvent, Service, Timestamp, TokenRequest, User,
};
use plugins::{GrpcCsiConnector, GrpcDraConnector};
use podward::wire::{ApiServer, DynamicResourcePorts, PluginPorts};
use ports::api::access_reviews::ApiAccessReviews;
use ports::api::csi_nodes::ApiCsiNodes;
use ports::api::events::{ApiEvents, EventReport};
use ports::api::leases::ApiLeases;
use ports::api::nodes::ApiNodes;
use ports::api::objects::ApiObjects;
use ports::api::pod_certificates::ApiPodCertificates;
use ports::api::resource_claims::ApiResourceClaims;
use ports::api::runtime_classes::{ApiRuntimeClasses, RuntimeClass};
use ports::api::service_accounts::{ApiServiceAccounts, ServiceAccount};
use ports::api::services::ApiServices;
use ports::api::token_reviews::ApiTokenReviews;
use ports::api::tokens::ApiTokens;
use ports::api::volumes::ApiVolumes;
use ports::api::{ApiError, ApiErrorKind, Feed, FeedStream};
use serde_json::{Value, json};
use testkit::fake_api::{FakeApi, api_error};

/// Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) pods: FakeApi,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The reported status of the node.
    status: Value,
    events: Vec<RecordedEvent>,
    /// Number of certificate requests.
    asked: usize,
    /// Whether certificate requests hang.
    is_slow: bool,
    /// ResourceClaims by name.
    claims: BTreeMap<String, ResourceClaim>,
}

impl Cluster {
    pub(crate) fn server(&self, folder: &Path) -> ApiServer {
        let own = Arc::new(self.clone());
        let root = folder.join("root");
        ApiServer {
            pods: Arc::new(self.pods.clone()),
            objects: own.clone(),
            events: own.clone(),
            tokens: own.clone(),
            service_accounts: own.clone(),
            trust_bundles: None,
            pod_certificates: Some(own.clone()),
            services: own.clone(),
            runtime_classes: own.clone(),
            nodes: own.clone(),
            volumes: own.clone(),
            csi_nodes: own.clone(),
            plugins: PluginPorts {
                folders: Arc::new(HostCsiFolders::new(&root)),
                connector: Arc::new(GrpcCsiConnector),
            },
            dynamic_resources: DynamicResourcePorts {
                api: own.clone(),
                connector: Arc::new(GrpcDraConnector),
                restored: Default::default(),
                restored_health: Default::default(),
            },
            leases: own.clone(),
            token_reviews: own.clone(),
            access_reviews: own,
            offline_cache: OfflineCache::disabled(),
            max_age: None,
        }
    }

    /// Whether a condition of the node is `True`.
    pub(crate) fn has_condition(&self, kind: &str) -> bool {
        let conditions = self.state.lock().status["conditions"].clone();
        let list = conditions.as_array().cloned().unwrap_or_default();
        list.iter().any(|own| own["type"] == kind && own["status"] == "True")
    }

    /// A resource in the node status, such as one of `capacity`.
    pub(crate) fn amount(&self, list: &str, resource: &str) -> Option<String> {
        self.state.lock().status[list][resource].as_str().map(str::to_owned)
    }

    pub(crate) fn events(&self, reason: &str) -> Vec<RecordedEvent> {
        let state = self.state.lock();
        state.events.iter().filter(|event| event.reason == reason).cloned().collect()
    }

    /// Adds a ResourceClaim that is allocated from one device of a driver, and reserved for a pod.
    pub(crate) fn allocate_claim(&self, name: &str, driver: &str, pod: &str) {
        let claim = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("{name}-uid")},
            "spec": {},
            "status": {
                "reservedFor": [{"resource": "pods", "name": pod, "uid": pod}],
                "allocation": {"devices": {"results": [
                    {"request": "all", "driver": driver, "pool": "pool", "device": "device-0"},
                ]}},
            },
        });
        let claim = serde_json::from_value(claim).unwrap();
        self.state.lock().claims.insert(name.to_owned(), claim);
    }

    /// Makes certificate requests hang from now on.
    pub(crate) fn hang_certificate_requests(&self) {
        self.state.lock().is_slow = true;
    }

    /// Number of certificate requests.
    pub(crate) fn certificate_requests(&self) -> usize {
        self.state.lock().asked
    }

    fn node(&self) -> core::Node {
        let status = self.state.lock().status.clone();
        let metadata = json!({"name": "node", "uid": "node-uid"});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }
}

fn missing<T>() -> Result<T, ApiError> {
    Err(api_error(ApiErrorKind::NotFound))
}

fn listed<T: Send + 'static>(list: Vec<T>) -> FeedStream<T> {
    futures::stream::iter([Feed::Listed(list)]).chain(futures::stream::pending()).boxed()
}

#[async_trait]
impl ApiNodes for Cluster {
    fn watch(&self) -> FeedStream<core::Node> {
        listed(vec![self.node()])
    }

    async fn get(&self) -> Result<core::Node, ApiError> {
        Ok(self.node())
    }

    async fn create(&self, _: &core::Node) -> Result<core::Node, ApiError> {
        Ok(self.node())
    }

    async fn patch_status(&self, patch: &Value) -> Result<core::Node, ApiError> {
        merge(&mut self.state.lock().status, &patch["status"]);
        Ok(self.node())
    }
}

/// Merges conditions by type and objects by name, and replaces other fields.
fn merge(status: &mut Value, patch: &Value) {
    for (name, value) in patch.as_object().into_iter().flatten() {
        if status[name].is_object() && value.is_object() {
            merge(&mut status[name], value);
            continue;
        }
        let (Some(old), Some(new), "conditions") =
            (status[name].as_array().cloned(), value.as_array(), name.as_str())
        else {
            status[name] = value.clone();
            continue;
        };
        let kept = old.into_iter().filter(|own| !new.iter().any(|other| other["type"] == own["type"]));
        status[name] = kept.chain(new.iter().cloned()).collect();
    }
}

#[async_trait]
impl ApiEvents for Cluster {
    async fn create(&self, report: &EventReport) -> Result<(), ApiError> {
        self.state.lock().events.push(report.event.clone());
        Ok(())
    }

    async fn update(&self, _: &EventReport) -> Result<(), ApiError> {
        Ok(())
    }
}

#[async_trait]
impl ApiObjects for Cluster {
    async fn get(&self, _: &ObjectKey) -> Result<ConfigObject, ApiError> {
        missing()
    }

    fn watch(&self, _: &ObjectKey) -> FeedStream<ConfigObject> {
        listed(Vec::new())
    }
}

#[async_trait]
impl ApiTokens for Cluster {
    async fn create(&self, _: &TokenRequest) -> Result<IssuedToken, ApiError> {
        missing()
    }
}

#[async_trait]
impl ApiServiceAccounts for Cluster {
    async fn get(&self, _: &str, name: &str) -> Result<ServiceAccount, ApiError> {
        let uid = format!("{name}-uid");
        match name {
            "app" => Ok(ServiceAccount { name: name.to_owned(), uid, ..ServiceAccount::default() }),
            _ => missing(),
        }
    }
}

#[async_trait]
impl ApiPodCertificates for Cluster {
    async fn create(&self, _: &CertificateWish) -> Result<CertificateRequest, ApiError> {
        let is_slow = {
            let mut state = self.state.lock();
            state.asked += 1;
            state.is_slow
        };
        if is_slow {
            std::future::pending::<()>().await;
        }
        Ok(CertificateRequest {
            name: "req".to_owned(),
            created_at: Timestamp::from_secs(2_000_000_000),
            key: "key\n".to_owned(),
        })
    }

    async fn get(&self, _: &str, _: &str) -> Result<Option<CertificateOutcome>, ApiError> {
        Ok(Some(CertificateOutcome::Issued {
            chain: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
            begin_refresh_at: Timestamp::from_secs(4_000_000_000),
            not_after: Timestamp::from_secs(4_000_100_000),
        }))
    }
}

impl ApiServices for Cluster {
    fn watch(&self) -> FeedStream<Service> {
        listed(Vec::new())
    }
}

impl ApiRuntimeClasses for Cluster {
    fn watch(&self) -> FeedStream<RuntimeClass> {
        listed(Vec::new())
    }
}

#[async_trait]
impl ApiVolumes for Cluster {
    async fn claim(&self, _: &str, _: &str) -> Result<core::PersistentVolumeClaim, ApiError> {
        missing()
    }

    async fn volume(&self, _: &str) -> Result<core::PersistentVolume, ApiError> {
        missing()
    }

    async fn attachment(&self, _: &str) -> Result<VolumeAttachment, ApiError> {
        missing()
    }

    async fn secret(&self, _: &str, _: &str) -> Result<core::Secret, ApiError> {
        missing()
    }

    async fn patch_claim_status(&self, _: &str, _: &str, _: &Value) -> Result<(), ApiError> {
        missing()
    }

    fn watch_drivers(&self) -> FeedStream<CSIDriver> {
        listed(Vec::new())
    }
}

#[async_trait]
impl ApiResourceClaims for Cluster {
    async fn resource_claim(&self, _: &str, name: &str) -> Result<ResourceClaim, ApiError> {
        self.state.lock().claims.get(name).cloned().map_or_else(missing, Ok)
    }

    async fn delete_slices(&self, _: Option<&str>) -> Result<(), ApiError> {
        Ok(())
    }
}

#[async_trait]
impl ApiCsiNodes for Cluster {
    async fn get(&self) -> Result<CSINode, ApiError> {
        missing()
    }

    async fn create(&self, _: &CSINode) -> Result<(), ApiError> {
        Ok(())
    }

    async fn replace(&self, _: &CSINode) -> Result<(), ApiError> {
        Ok(())
    }

    async fn delete(&self) -> Result<(), ApiError> {
        Ok(())
    }
}

#[async_trait]
impl ApiLeases for Cluster {
    async fn get(&self) -> Result<Lease, ApiError> {
        missing()
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        Ok(lease.clone())
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, ApiError> {
        Ok(lease.clone())
    }
}

#[async_trait]
impl ApiTokenReviews for Cluster {
    async fn owner(&self, _: &str) -> Result<Option<User>, ApiError> {
        Ok(None)
    }
}

#[async_trait]
impl ApiAccessReviews for Cluster {
    async fn allowed(&self, _: &AccessQuestion) -> Result<bool, ApiError> {
        Ok(false)
    }
}
