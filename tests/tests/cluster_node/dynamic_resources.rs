//! Dynamic resource allocation with a real driver: the control plane creates and allocates claims, the driver prepares them, and
//! containerd injects its devices.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::dra_driver::{DraCall, DraDriver, DraFault};
use testkit::poll::eventually;

scenarios!(
    claims_are_prepared_for_their_pods_and_unprepared_after_the_last,
    failed_prepare_is_repeated_until_both_drivers_succeed,
    failed_unprepare_keeps_the_pod_across_a_restart,
    claim_of_a_vanished_pod_is_unprepared,
    slices_of_an_unusable_driver_are_deleted,
);

pub(crate) const V1: &str = "v1.DRAPlugin";
pub(crate) const LONG: Duration = Duration::from_secs(150);

/// A failed preparation is repeated by the next regular sync.
fn quick_syncs() -> AgentOptions {
    AgentOptions { overlay: json!({"syncFrequency": "10s"}), ..AgentOptions::default() }
}

pub(crate) async fn start(agent: Agent) -> Result<ClusterNode> {
    ClusterNode::start_on_containerd_2(agent, &quick_syncs()).await
}

pub(crate) fn driver_name(node: &ClusterNode, label: &str) -> String {
    format!("{label}.{}.dra.test", node.name)
}

/// Starts and registers a driver.
pub(crate) async fn start_driver(
    node: &ClusterNode,
    label: &str,
    service: &'static str,
) -> Result<DraDriver> {
    let instance = node.containerd.instance();
    let folder = instance.path(&format!("dra-{label}"));
    let mut driver = DraDriver::start(&driver_name(node, label), &folder, &instance.path("cdi"), service)?;
    driver.register(&node.agent.root().join("plugins_registry"))?;
    let registered = tokio::time::timeout(Duration::from_secs(60), driver.registered()).await;
    registered.context("the agent did not register the driver")??;
    Ok(driver)
}

/// Publishes one device of a driver, as a driver does after each start of the agent, and a class that selects it.
pub(crate) async fn publish(node: &ClusterNode, label: &str) -> Result<()> {
    let driver = driver_name(node, label);
    node.apply(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": driver},
        "spec": {
            "driver": driver, "nodeName": node.name, "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "device-0"}],
        },
    }))
    .await?;
    let expression = format!("device.driver == \"{driver}\"");
    node.apply(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }))
    .await
}

/// The slices of the node are deleted at the start of an agent; drivers publish theirs afterwards.
pub(crate) async fn wait_slices(node: &ClusterNode, count: usize) -> Result<()> {
    let selector = format!("--field-selector=spec.nodeName={}", node.name);
    eventually("the number of slices", LONG, async || {
        let slices = node.get(&["resourceslices", &selector]).await?;
        let found = slices["items"].as_array().map_or(0, Vec::len);
        ensure!(found == count, "{found} instead of {count}");
        Ok(())
    })
    .await
}

fn claim_spec(node: &ClusterNode, labels: &[&str]) -> Value {
    let request =
        |label: &&str| json!({"name": label, "exactly": {"deviceClassName": driver_name(node, label)}});
    json!({"devices": {"requests": labels.iter().map(request).collect::<Vec<_>>()}})
}

pub(crate) async fn create_claim(node: &ClusterNode, name: &str, labels: &[&str]) -> Result<()> {
    node.apply(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": claim_spec(node, labels),
    }))
    .await
}

/// A pod whose container has the devices of a claim in its environment.
pub(crate) fn claiming_pod(name: &str, claim: &Value) -> Value {
    let pod = with(pod(name, [container("main", "sleep forever")]), "/spec/resourceClaims", json!([claim]));
    let pod = with(pod, "/spec/terminationGracePeriodSeconds", json!(1));
    with(pod, "/spec/containers/0/resources", json!({"claims": [{"name": "devices"}]}))
}

pub(crate) fn named(claim: &str) -> Value {
    json!({"name": "devices", "resourceClaimName": claim})
}

/// The drivers whose devices the container has.
pub(crate) async fn injected(node: &ClusterNode, pod: &str) -> Result<Vec<String>> {
    let id = node.running(pod).await?.first().context("a running container")?.id.clone();
    let pid = node.cri().pid(&id).await?;
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).context("read the environment")?;
    let claims = environment.split('\0').filter(|variable| variable.starts_with("CLAIM_OF_"));
    let mut drivers: Vec<_> =
        claims.filter_map(|variable| variable.split_once('=')).map(|(_, name)| name.to_owned()).collect();
    drivers.sort();
    Ok(drivers)
}

async fn claims_are_prepared_for_their_pods_and_unprepared_after_the_last(agent: Agent) -> Result<()> {
    let mut node = start(agent).await?;
    let driver = start_driver(&node, "a", "v1beta1.DRAPlugin").await?;
    wait_slices(&node, 0).await?;
    publish(&node, "a").await?;
    create_claim(&node, "shared", &["a"]).await?;
    node.apply(&claiming_pod("one", &named("shared"))).await?;
    node.wait_running("one").await?;
    ensure!(injected(&node, "one").await? == [driver_name(&node, "a")], "the device is missing");
    node.apply(&claiming_pod("two", &named("shared"))).await?;
    node.wait_running("two").await?;
    ensure!(driver.count(DraCall::Prepare, "shared") == 1, "{:?}", driver.calls());
    let containers = node.cri().containers().await?;

    driver.fail_registrations(1);
    node.restart_agent().await?;
    let registered = tokio::time::timeout(Duration::from_secs(60), driver.registered()).await;
    registered.context("the agent did not register the driver after its restart")??;
    ensure!(node.cri().containers().await? == containers, "the restart changed containers");

    node.kubectl(&["delete", "pod", "one", "--wait=false"]).await?;
    node.wait_absent(&["pod", "one"]).await?;
    ensure!(driver.count(DraCall::Unprepare, "shared") == 0, "the claim is still in use");
    node.kubectl(&["delete", "pod", "two", "--wait=false"]).await?;
    node.wait_absent(&["pod", "two"]).await?;
    ensure!(driver.count(DraCall::Unprepare, "shared") == 1, "{:?}", driver.calls());
    ensure!(driver.prepared()? == 0, "a device is still prepared");
    let state = fs::read_to_string(node.agent.root().join("dra_manager_state"));
    let state = state.context("read the stored claims")?;
    ensure!(!state.contains("ClaimUID"), "{state}");
    clean_up(&node, &["a"]).await?;
    node.end()
}

async fn failed_prepare_is_repeated_until_both_drivers_succeed(agent: Agent) -> Result<()> {
    let node = start(agent).await?;
    let (good, bad) = (start_driver(&node, "a", V1).await?, start_driver(&node, "b", V1).await?);
    wait_slices(&node, 0).await?;
    publish(&node, "a").await?;
    publish(&node, "b").await?;
    bad.set_fault(DraCall::Prepare, Some(DraFault::FailsClaims));
    node.apply(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "both"},
        "spec": {"spec": claim_spec(&node, &["a", "b"])},
    }))
    .await?;
    let claim = json!({"name": "devices", "resourceClaimTemplateName": "both"});
    node.apply(&claiming_pod("web", &claim)).await?;
    let pod = node.wait_pod("web", "is assigned", |pod| pod.phase == "Pending").await?;
    ensure!(pod.phase == "Pending", "{pod:?}");
    node.wait("the event of the failure", async || {
        let events = node.kubectl(&["get", "events", "-o", "json"]).await?;
        let text = "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim";
        ensure!(events.contains(text) && events.contains("injected failure of a claim"), "no event");
        ensure!(events.contains("FailedPrepareDynamicResources"), "no such reason");
        Ok(())
    })
    .await?;
    bad.set_fault(DraCall::Prepare, None);
    eventually("the pod runs", LONG, async || node.wait_running("web").await.map(drop)).await?;
    let found = injected(&node, "web").await?;
    ensure!(found == [driver_name(&node, "a"), driver_name(&node, "b")], "{found:?}");
    ensure!(good.prepared()? == 1 && bad.prepared()? == 1, "not prepared by both drivers");
    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    node.wait_absent(&["pod", "web"]).await?;
    ensure!(good.prepared()? == 0 && bad.prepared()? == 0, "not unprepared by both drivers");
    clean_up(&node, &["a", "b"]).await?;
    node.end()
}

async fn failed_unprepare_keeps_the_pod_across_a_restart(agent: Agent) -> Result<()> {
    let mut node = start(agent).await?;
    let driver = start_driver(&node, "a", V1).await?;
    wait_slices(&node, 0).await?;
    publish(&node, "a").await?;
    create_claim(&node, "own", &["a"]).await?;
    node.apply(&claiming_pod("web", &named("own"))).await?;
    node.wait_running("web").await?;
    driver.set_fault(DraCall::Unprepare, Some(DraFault::Fails));
    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    wait_calls(&driver, DraCall::Unprepare, "own", 1).await?;
    node.restart_agent().await?;
    wait_calls(&driver, DraCall::Unprepare, "own", driver.count(DraCall::Unprepare, "own") + 1).await?;
    let pod = node.get(&["pod", "web"]).await?;
    ensure!(pod.pointer("/metadata/deletionTimestamp").is_some(), "{pod}");
    ensure!(pod["status"]["phase"] == "Running", "the phase is {}", pod["status"]["phase"]);
    driver.set_fault(DraCall::Unprepare, None);
    node.wait_absent(&["pod", "web"]).await?;
    ensure!(driver.prepared()? == 0, "a device is still prepared");
    clean_up(&node, &["a"]).await?;
    node.end()
}

async fn claim_of_a_vanished_pod_is_unprepared(agent: Agent) -> Result<()> {
    let mut node = start(agent).await?;
    let driver = start_driver(&node, "a", V1).await?;
    wait_slices(&node, 0).await?;
    publish(&node, "a").await?;
    create_claim(&node, "own", &["a"]).await?;
    node.apply(&claiming_pod("web", &named("own"))).await?;
    node.wait_running("web").await?;
    node.agent.kill9()?;
    node.kubectl(&["delete", "pod", "web", "--force", "--grace-period=0"]).await?;
    node.wait_absent(&["pod", "web"]).await?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    eventually("the claim is unprepared", LONG, async || {
        ensure!(driver.prepared()? == 0, "still prepared");
        Ok(())
    })
    .await?;
    ensure!(driver.count(DraCall::Prepare, "own") == 1, "{:?}", driver.calls());
    let running = node.running("web").await?;
    ensure!(running.is_empty(), "unprepared while containers run: {running:?}");
    clean_up(&node, &["a"]).await?;
    node.end()
}

async fn slices_of_an_unusable_driver_are_deleted(agent: Agent) -> Result<()> {
    let mut node = start(agent).await?;
    let mut driver = start_driver(&node, "a", V1).await?;
    wait_slices(&node, 0).await?;
    publish(&node, "a").await?;
    // The new process must know the driver to detect that it has ended.
    driver.fail_registrations(0);
    node.restart_agent().await?;
    wait_slices(&node, 0).await?;
    driver.registered().await?;
    publish(&node, "a").await?;
    driver.unregister();
    tokio::time::sleep(Duration::from_secs(15)).await;
    wait_slices(&node, 1).await?;
    wait_slices(&node, 0).await?;
    clean_up(&node, &["a"]).await?;
    node.end()
}

pub(crate) async fn wait_calls(driver: &DraDriver, call: DraCall, claim: &str, count: usize) -> Result<()> {
    eventually("the driver is called", LONG, async || {
        ensure!(driver.count(call, claim) >= count, "{:?}", driver.calls());
        Ok(())
    })
    .await
}

/// Deletes objects that are not in the scenario's namespace.
pub(crate) async fn clean_up(node: &ClusterNode, labels: &[&str]) -> Result<()> {
    for label in labels {
        let name = driver_name(node, label);
        node.kubectl(&["delete", "resourceslice,deviceclass", &name, "--ignore-not-found"]).await?;
    }
    Ok(())
}
