//! Devices of claims beyond the usual: their health, extended resources, interrupted calls, and a switch of agents.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, ClusterNode, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::dra_driver::{DraCall, DraFault, HealthStatus};
use testkit::poll::{eventually, throughout};

use crate::dynamic_resources::{
    LONG, V1, claiming_pod, clean_up, create_claim, driver_name, injected, named, publish, start,
    start_driver, wait_calls, wait_slices,
};

scenarios!(
    health_of_claimed_devices_is_shown,
    extended_resource_is_backed_by_a_device_of_a_driver,
    kill_during_a_call_of_the_driver_repeats_it,
);

#[test]
fn prepared_claims_survive_a_switch_to_podward_and_back() {
    if Agent::Upstream.selected() && Agent::Podward.selected() {
        let name = "cluster_node::prepared_claims_survive_a_switch_to_podward_and_back";
        scenarios::run(Agent::Podward, name, |_| switch_agents());
    }
}

async fn wait_health(node: &ClusterNode, pod: &str, expected: &str, message: Option<&str>) -> Result<()> {
    eventually(&format!("the device of {pod} is {expected}"), LONG, async || {
        let object = node.get(&["pod", pod]).await?;
        let pointer = "/status/containerStatuses/0/allocatedResourcesStatus/0";
        let shown = object.pointer(pointer).context("no health in the status")?;
        ensure!(shown["name"] == "claim:devices", "{shown}");
        let device = &shown["resources"][0];
        ensure!(device["health"] == expected && device["message"].as_str() == message, "{shown}");
        Ok(())
    })
    .await
}

async fn health_of_claimed_devices_is_shown(agent: Agent) -> Result<()> {
    let node = start(agent).await?;
    let driver = start_driver(&node, "a", V1).await?;
    wait_slices(&node, 0).await?;
    publish(&node, "a").await?;
    create_claim(&node, "own", &["a"]).await?;
    driver.set_health(HealthStatus::Healthy, "", 600);
    node.apply(&claiming_pod("web", &named("own"))).await?;
    node.wait_running("web").await?;
    wait_health(&node, "web", "Healthy", None).await?;
    driver.set_health(HealthStatus::Unhealthy, "too hot", 600);
    wait_health(&node, "web", "Unhealthy", Some("too hot")).await?;
    driver.set_health(HealthStatus::Healthy, "", 600);
    wait_health(&node, "web", "Healthy", None).await?;
    let state = fs::read_to_string(node.agent.root().join("dra_health_state"));
    let state: Value = serde_json::from_str(&state.context("read the stored health")?)?;
    let stored = &state[driver_name(&node, "a")]["Devices"]["pool/device-0"];
    ensure!(stored["Health"] == "Healthy" && stored["HealthCheckTimeout"] == 600_000_000_000_i64, "{state}");
    driver.end_health();
    wait_health(&node, "web", "Unknown", None).await?;
    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    node.wait_absent(&["pod", "web"]).await?;
    clean_up(&node, &["a"]).await?;
    node.end()
}

async fn extended_resource_is_backed_by_a_device_of_a_driver(agent: Agent) -> Result<()> {
    let node = start(agent).await?;
    let driver = start_driver(&node, "a", V1).await?;
    wait_slices(&node, 0).await?;
    publish(&node, "a").await?;
    let (name, resource) = (driver_name(&node, "a"), format!("{}.example.com/gpu", node.name));
    node.kubectl(&[
        "patch",
        "deviceclass",
        &name,
        "--type=merge",
        "-p",
        &json!({"spec": {"extendedResourceName": resource}}).to_string(),
    ])
    .await?;
    let amount = json!({resource: "1"});
    let web = with(
        pod("web", [container("main", "sleep forever")]),
        "/spec/terminationGracePeriodSeconds",
        json!(1),
    );
    let web = with(web, "/spec/containers/0/resources", json!({"limits": amount, "requests": amount}));
    node.apply(&web).await?;
    node.wait_running("web").await?;
    ensure!(injected(&node, "web").await? == [name], "the device is missing");
    let object = node.get(&["pod", "web"]).await?;
    let claim = object.pointer("/status/extendedResourceClaimStatus/resourceClaimName");
    let claim = claim.and_then(Value::as_str).context("the scheduler made no claim")?;
    ensure!(driver.count(DraCall::Prepare, claim) == 1, "{:?}", driver.calls());
    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    node.wait_absent(&["pod", "web"]).await?;
    ensure!(driver.prepared()? == 0, "a device is still prepared");
    clean_up(&node, &["a"]).await?;
    node.end()
}

async fn kill_during_a_call_of_the_driver_repeats_it(agent: Agent) -> Result<()> {
    let mut node = start(agent).await?;
    let driver = start_driver(&node, "a", V1).await?;
    wait_slices(&node, 0).await?;
    publish(&node, "a").await?;
    create_claim(&node, "own", &["a"]).await?;
    driver.set_fault(DraCall::Prepare, Some(DraFault::Hangs));
    node.apply(&claiming_pod("web", &named("own"))).await?;
    wait_calls(&driver, DraCall::Prepare, "own", 1).await?;
    node.agent.kill9()?;
    driver.set_fault(DraCall::Prepare, None);
    node.agent.start()?;
    node.agent.wait_ready().await?;
    eventually("the pod runs", LONG, async || node.wait_running("web").await.map(drop)).await?;
    ensure!(driver.count(DraCall::Prepare, "own") > 1, "{:?}", driver.calls());
    ensure!(injected(&node, "web").await? == [driver_name(&node, "a")], "the device is missing");

    driver.set_fault(DraCall::Unprepare, Some(DraFault::Hangs));
    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    wait_calls(&driver, DraCall::Unprepare, "own", 1).await?;
    node.agent.kill9()?;
    driver.set_fault(DraCall::Unprepare, None);
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.wait_absent(&["pod", "web"]).await?;
    ensure!(driver.prepared()? == 0, "a device is still prepared");
    clean_up(&node, &["a"]).await?;
    node.end()
}

async fn switch_agents() -> Result<()> {
    let mut node = start(Agent::Upstream).await?;
    let driver = start_driver(&node, "a", V1).await?;
    wait_slices(&node, 0).await?;
    publish(&node, "a").await?;
    create_claim(&node, "shared", &["a"]).await?;
    node.apply(&claiming_pod("one", &named("shared"))).await?;
    node.wait_running("one").await?;
    let claims = |node: &ClusterNode| -> Result<String> {
        fs::read_to_string(node.agent.root().join("dra_manager_state")).context("read the stored claims")
    };
    let stored = claims(&node)?;
    ensure!(stored.contains("ClaimUID"), "{stored}");
    for agent in [Agent::Podward, Agent::Upstream] {
        let containers = node.cri().containers().await?;
        node.agent.term().await?;
        driver.fail_registrations(0);
        node.agent.become_kind(agent)?;
        node.agent.start()?;
        node.agent.wait_ready().await?;
        let registered = tokio::time::timeout(Duration::from_secs(60), driver.registered()).await;
        registered.context("the agent did not register the driver")??;
        throughout("the same containers and claims", Duration::from_secs(6), async || {
            let now = node.cri().containers().await?;
            ensure!(now == containers, "containers changed\nbefore {containers:#?}\nnow {now:#?}");
            ensure!(claims(&node)? == stored, "{} is not {stored}", claims(&node)?);
            Ok(())
        })
        .await?;
        ensure!(driver.count(DraCall::Unprepare, "shared") == 0, "{:?}", driver.calls());
    }
    node.kubectl(&["delete", "pod", "one", "--wait=false"]).await?;
    node.wait_absent(&["pod", "one"]).await?;
    ensure!(driver.prepared()? == 0, "a device is still prepared");
    clean_up(&node, &["a"]).await?;
    node.end()
}
