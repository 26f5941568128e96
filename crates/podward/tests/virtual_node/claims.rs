//! Dynamic resources: a real driver on real sockets, whose devices containers get and whose health pods show.

use k8s_openapi::api::core::v1::PodStatus;
use plugins::dra_services::health::HealthStatus;
use plugins::pod_resources_v1::GetPodResourcesRequest;
use plugins::pod_resources_v1::pod_resources_lister_client::PodResourcesListerClient;
use serde_json::{Value, json};
use testkit::dra_driver::{DraCall, DraDriver, DraFault};

use crate::cluster::Cluster;
use crate::node::{TIMEOUT, VirtualNode, containers, pod};

const DRIVER: &str = "gpu.example";

struct Fixture {
    node: VirtualNode,
    cluster: Cluster,
    driver: DraDriver,
}

impl Fixture {
    async fn start() -> Self {
        let (mut node, cluster) = (VirtualNode::new(), Cluster::default());
        node.cluster = Some(cluster.clone());
        node.start_agent();
        let (folder, specs) = (node.path("driver"), node.path("cdi"));
        let mut driver = DraDriver::start(DRIVER, &folder, &specs, "v1.DRAPlugin").unwrap();
        let registry = node.path("root/plugins_registry");
        std::fs::create_dir_all(&registry).unwrap();
        driver.register(&registry).unwrap();
        tokio::time::timeout(TIMEOUT, driver.registered()).await.unwrap().unwrap();
        Self { node, cluster, driver }
    }

    /// Adds a pod with a claim, or with an extended resource that the scheduler's claim backs.
    fn put(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.cluster.allocate_claim("gpus", DRIVER, name);
        let mut pod = pod(name, name, &["main"]);
        change(&mut pod);
        self.cluster.pods.put(pod);
    }

    async fn until_health(&self, uid: &str, expected: Value) {
        self.node.until_status(uid, |status| health(status) == expected).await;
    }

    /// The devices of claims, as the pod-resources socket shows them.
    async fn listed(&self, name: &str) -> Value {
        let socket = self.node.path("root/pod-resources/kubelet.sock");
        let channel = plugins::dial(&socket).await.unwrap();
        let request =
            GetPodResourcesRequest { pod_name: name.to_owned(), pod_namespace: "default".to_owned() };
        let answer = PodResourcesListerClient::new(channel).get(request).await.unwrap().into_inner();
        let containers = answer.pod_resources.unwrap().containers;
        let claims = containers.into_iter().flat_map(|container| container.dynamic_resources);
        let rows = claims.map(|claim| {
            let devices = claim.claim_resources.into_iter().map(|device| {
                let ids: Vec<_> = device.cdi_devices.into_iter().map(|id| id.name).collect();
                json!([device.driver_name, device.pool_name, device.device_name, ids])
            });
            json!({"claim": claim.claim_name, "devices": devices.collect::<Vec<_>>()})
        });
        rows.collect()
    }
}

fn claiming(pod: &mut Value) {
    pod["spec"]["resourceClaims"] = json!([{"name": "devices", "resourceClaimName": "gpus"}]);
    pod["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "devices"}]});
}

fn health(status: &PodStatus) -> Value {
    let container = containers(status).first();
    json!(container.and_then(|container| container.allocated_resources_status.clone()))
}

fn device(health: &str, message: Option<&str>) -> Value {
    let mut device = json!({"resourceID": "gpu.example/claim=gpus-uid", "health": health});
    if let Some(message) = message {
        device["message"] = json!(message);
    }
    json!([{"name": "claim:devices", "resources": [device]}])
}

#[tokio::test]
async fn pod_status_follows_the_health_that_the_driver_reports() {
    let own = Fixture::start().await;
    own.put("web", claiming);
    own.node.until_running("web").await;
    own.until_health("web", device("Unknown", None)).await;
    own.driver.set_health(HealthStatus::Healthy, "", 0);
    own.until_health("web", device("Healthy", None)).await;
    own.driver.set_health(HealthStatus::Unhealthy, "too hot", 0);
    own.until_health("web", device("Unhealthy", Some("too hot"))).await;
    let state = own.node.path("root/dra_health_state");
    testkit::poll::eventually("the health on disk", TIMEOUT, async || {
        let content = std::fs::read_to_string(&state)?;
        anyhow::ensure!(content.contains("too hot"), "{content}");
        Ok(())
    })
    .await
    .unwrap();
    // Without reports the last one counts for its time only.
    own.driver.set_health(HealthStatus::Healthy, "", 1);
    own.until_health("web", device("Healthy", None)).await;
    own.until_health("web", device("Unknown", None)).await;
    own.driver.set_health(HealthStatus::Healthy, "", 600);
    own.until_health("web", device("Healthy", None)).await;
    own.driver.end_health();
    own.until_health("web", device("Unknown", None)).await;
    own.driver.set_health(HealthStatus::Healthy, "back", 600);
    own.until_health("web", device("Healthy", Some("back"))).await;
    assert_eq!(own.driver.calls(), [(DraCall::Prepare, "gpus".to_owned())]);
}

#[tokio::test]
async fn extended_resource_of_a_driver_reaches_its_container_and_is_listed() {
    let own = Fixture::start().await;
    own.put("web", |pod| {
        let amount = json!({"example.com/gpu": "1"});
        pod["spec"]["containers"][0]["resources"] = json!({"limits": amount, "requests": amount});
        pod["status"]["extendedResourceClaimStatus"] = json!({
            "resourceClaimName": "gpus",
            "requestMappings": [
                {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "all"},
            ],
        });
    });
    own.node.until_running("web").await;
    let created = own.node.containers("web").pop().unwrap();
    let ids: Vec<_> = created.config.cdi_devices.into_iter().map(|device| device.name).collect();
    assert_eq!(ids, ["gpu.example/claim=gpus-uid"]);
    let devices = json!([["gpu.example", "pool", "device-0", ids]]);
    assert_eq!(own.listed("web").await, json!([{"claim": "gpus", "devices": devices}]));
    // Like upstream, the status shows the health of named claims only.
    assert_eq!(health(&own.node.status("web").unwrap()), Value::Null);
    own.cluster.pods.delete_gracefully("web", 1);
    testkit::poll::eventually("the claim is unprepared", TIMEOUT, async || {
        anyhow::ensure!(own.driver.count(DraCall::Unprepare, "gpus") == 1, "{:?}", own.driver.calls());
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn failed_prepare_is_shown_as_an_event_and_prepared_claims_are_listed() {
    let own = Fixture::start().await;
    own.driver.set_fault(DraCall::Prepare, Some(DraFault::FailsClaims));
    own.put("web", claiming);
    testkit::poll::eventually("the event", TIMEOUT, async || {
        let events = own.cluster.events("FailedPrepareDynamicResources");
        let message = events.first().map(|event| event.message.clone());
        let expected = "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim gpus: injected failure of a claim";
        anyhow::ensure!(message.as_deref() == Some(expected), "{message:?}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(own.listed("web").await, json!([{"claim": "gpus", "devices": []}]));
    own.driver.set_fault(DraCall::Prepare, None);
    // Any change of the pod leads to the next attempt before the regular one.
    own.cluster.pods.change("web", |pod| pod["metadata"]["labels"] = json!({"again": "yes"}));
    own.node.until_running("web").await;
    let devices = json!([["gpu.example", "pool", "device-0", ["gpu.example/claim=gpus-uid"]]]);
    assert_eq!(own.listed("web").await, json!([{"claim": "gpus", "devices": devices}]));
}
