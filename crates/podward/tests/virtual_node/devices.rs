//! Device plugins: real plugins on real sockets, through restarts of the plugin and of the agent.

use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use model::PluginDevice;
use plugins::pod_resources_v1::pod_resources_lister_client::PodResourcesListerClient;
use plugins::pod_resources_v1::{AllocatableResourcesRequest, GetPodResourcesRequest};
use serde_json::{Value, json};
use testkit::device_plugin::{DeviceCall, DeviceFault, DevicePluginOptions, TestDevicePlugin};
use testkit::fake_runtime::Exit;
use testkit::poll::eventually;

use crate::cluster::Cluster;
use crate::node::{TIMEOUT, VirtualNode, containers, pod};

const X: &str = "vendor.com/x";

async fn plugin(node: &VirtualNode, devices: &[&str], options: DevicePluginOptions) -> TestDevicePlugin {
    let mut plugin = TestDevicePlugin::new(X, &node.path("device-plugins"), devices, options);
    plugin.start().unwrap();
    tokio::time::timeout(TIMEOUT, plugin.followed()).await.unwrap().unwrap();
    until_devices(node, devices.len()).await;
    plugin
}

async fn until_devices(node: &VirtualNode, healthy: usize) {
    eventually("the healthy devices", TIMEOUT, async || {
        let found = node.views().devices.counts().get(X).map(|count| count.allocatable);
        anyhow::ensure!(found == Some(healthy), "{found:?}");
        Ok(())
    })
    .await
    .unwrap();
}

fn limits(pod: &mut Value, kind: &str, index: usize, count: u32) {
    let limits = json!({X: count.to_string()});
    pod["spec"][kind][index]["resources"] = json!({"limits": limits, "requests": limits});
}

fn with_devices(name: &str, uid: &str, count: u32) -> Value {
    let mut pod = pod(name, uid, &["main"]);
    limits(&mut pod, "containers", 0, count);
    pod
}

/// The devices that a container was created with.
fn devices(node: &VirtualNode, uid: &str, container: &str) -> Option<String> {
    let created = node.containers(uid).into_iter().rev().find(|own| own.name() == container)?;
    let variable = created.config.envs.into_iter().find(|pair| pair.key == "DEVICES_OF_vendor_com_x")?;
    String::from_utf8(variable.value).ok()
}

async fn until_rejected(node: &VirtualNode, uid: &str) -> String {
    let status = node.until_status(uid, |status| status.phase.as_deref() == Some("Failed")).await;
    assert_eq!(status.reason.as_deref(), Some("UnexpectedAdmissionError"));
    status.message.unwrap()
}

fn health(status: &PodStatus) -> Option<String> {
    let resources = containers(status).first()?.allocated_resources_status.as_ref()?;
    resources.first()?.resources.as_ref()?.first()?.health.clone()
}

#[tokio::test]
async fn containers_get_devices_until_none_is_left_and_return_them() {
    let node = VirtualNode::started();
    let plugin = plugin(&node, &["a", "b"], DevicePluginOptions::default()).await;
    node.write("one.json", &with_devices("one", "uid-one", 2));
    node.until_running("uid-one").await;
    let created = node.containers("uid-one").pop().unwrap();
    assert_eq!(devices(&node, "uid-one", "main").as_deref(), Some("a,b"));
    let paths: Vec<_> = created.config.devices.iter().map(|device| device.container_path.as_str()).collect();
    assert_eq!(paths, ["/dev/vendor.com-x-a", "/dev/vendor.com-x-b"]);
    assert_eq!(created.config.annotations["devices.vendor.com.x"], "a,b");
    node.write("late.json", &with_devices("late", "uid-late", 1));
    let message = until_rejected(&node, "uid-late").await;
    assert_eq!(
        message,
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for vendor.com/x. Requested: 1, Available: 0, which is unexpected"
    );
    let socket = node.path("root/pod-resources/kubelet.sock");
    let mut client = PodResourcesListerClient::new(plugins::dial(&socket).await.unwrap());
    let request = GetPodResourcesRequest { pod_name: "one-node".into(), pod_namespace: "default".into() };
    let shown = client.get(request).await.unwrap().into_inner().pod_resources.unwrap();
    let shown: Vec<_> = shown.containers[0].devices.iter().map(|own| own.device_ids[0].as_str()).collect();
    assert_eq!(shown, ["a", "b"]);
    let all = client.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap().into_inner();
    assert_eq!(all.devices.len(), 2);
    node.remove("late.json");
    node.remove("one.json");
    node.until_gone("uid-one").await;
    node.write("next.json", &with_devices("next", "uid-next", 2));
    node.until_running("uid-next").await;
    assert_eq!(plugin.calls_of(DeviceCall::Allocate), [["a", "b"], ["a", "b"]]);
    node.assert_no_violations();
}

#[tokio::test]
async fn running_pod_keeps_its_device_across_restarts_of_agent_and_plugin() {
    let mut node = VirtualNode::started();
    let mut plugin = plugin(&node, &["a", "b"], DevicePluginOptions::default()).await;
    node.write("one.json", &with_devices("one", "uid-one", 1));
    node.until_running("uid-one").await;
    let id = node.running("uid-one", "main");
    plugin.stop();
    node.restart_agent().await;
    node.until_running("uid-one").await;
    assert_eq!(node.running("uid-one", "main"), id);
    // A container that ends while the plugin is away restarts with its device.
    node.runtime.exit_container(&id, Exit::code(1));
    node.until("the container runs again", |state| {
        state.running_container("uid-one", "main").is_some_and(|own| own.id != id)
    })
    .await;
    assert_eq!(devices(&node, "uid-one", "main").as_deref(), Some("a"));
    node.write("early.json", &with_devices("early", "uid-early", 1));
    let message = until_rejected(&node, "uid-early").await;
    assert!(message.contains("no healthy devices present; cannot allocate unhealthy devices vendor.com/x"));
    plugin.start().unwrap();
    until_devices(&node, 2).await;
    node.write("two.json", &with_devices("two", "uid-two", 1));
    node.until_running("uid-two").await;
    assert_eq!(devices(&node, "uid-two", "main").as_deref(), Some("b"));
    // The plugin registers again after the agent has created a new socket.
    node.restart_agent().await;
    until_devices(&node, 2).await;
    assert_eq!(plugin.calls_of(DeviceCall::Allocate), [["a"], ["b"]]);
    node.assert_no_violations();
}

#[tokio::test]
async fn pod_deleted_while_the_agent_is_down_releases_its_devices() {
    let mut node = VirtualNode::started();
    let _plugin = plugin(&node, &["a"], DevicePluginOptions::default()).await;
    node.write("one.json", &with_devices("one", "uid-one", 1));
    node.until_running("uid-one").await;
    node.kill_agent().await;
    node.remove("one.json");
    node.start_agent();
    node.until_gone("uid-one").await;
    until_devices(&node, 1).await;
    node.write("next.json", &with_devices("next", "uid-next", 1));
    node.until_running("uid-next").await;
}

#[tokio::test]
async fn replaced_pod_waits_for_the_device_of_its_predecessor() {
    let node = VirtualNode::started();
    let plugin = plugin(&node, &["a"], DevicePluginOptions::default()).await;
    node.write("one.json", &with_devices("one", "uid-old", 1));
    node.until_running("uid-old").await;
    // The removed pod still runs when its successor is admitted.
    node.write("one.json", &with_devices("one", "uid-new", 1));
    node.until_running("uid-new").await;
    assert_eq!(devices(&node, "uid-new", "main").as_deref(), Some("a"));
    node.until_gone("uid-old").await;
    assert_eq!(plugin.calls_of(DeviceCall::Allocate), [["a"], ["a"]]);
    // Without a removed pod, a lack of devices is final.
    node.write("late.json", &with_devices("late", "uid-late", 1));
    until_rejected(&node, "uid-late").await;
}

#[tokio::test]
async fn finished_pod_stays_finished_without_its_plugin() {
    let (mut node, cluster) = (VirtualNode::new(), Cluster::default());
    node.cluster = Some(cluster.clone());
    node.start_agent();
    let mut plugin = plugin(&node, &["a"], DevicePluginOptions::default()).await;
    let mut job = with_devices("job", "uid-job", 1);
    job["spec"]["restartPolicy"] = json!("Never");
    cluster.pods.put(job);
    node.until_running("uid-job").await;
    node.runtime.exit_container(&node.running("uid-job", "main"), Exit::code(0));
    let status = node.until_status("uid-job", |status| status.phase.as_deref() == Some("Succeeded")).await;
    cluster.pods.change("job", |pod| pod["status"] = json!(status));
    plugin.stop();
    node.restart_agent().await;
    // Pods are admitted in their order: the job has been handled when a later pod runs.
    cluster.pods.put(pod("later", "uid-later", &["main"]));
    node.until_running("uid-later").await;
    node.until_status("uid-job", |status| status.phase.as_deref() == Some("Succeeded")).await;
    assert!(cluster.events("UnexpectedAdmissionError").is_empty());
    assert_eq!(node.containers("uid-job").len(), 1, "the pod was started again");
}

#[tokio::test]
async fn app_container_reuses_the_device_of_an_init_container() {
    let node = VirtualNode::started();
    let _plugin = plugin(&node, &["a"], DevicePluginOptions::default()).await;
    let mut own = with_devices("one", "uid-one", 1);
    own["spec"]["initContainers"] = json!([{"name": "init", "image": "example.com/init:1"}]);
    limits(&mut own, "initContainers", 0, 1);
    node.write("one.json", &own);
    node.until("the init container runs", |state| state.running_container("uid-one", "init").is_some()).await;
    node.runtime.exit_container(&node.running("uid-one", "init"), Exit::code(0));
    node.until("the app container runs", |state| state.running_container("uid-one", "main").is_some()).await;
    for container in ["init", "main"] {
        assert_eq!(devices(&node, "uid-one", container).as_deref(), Some("a"), "{container}");
    }
}

#[tokio::test]
async fn pod_status_shows_the_health_of_its_devices() {
    let node = VirtualNode::started();
    let plugin = plugin(&node, &["a", "b"], DevicePluginOptions::default()).await;
    node.write("one.json", &with_devices("one", "uid-one", 1));
    node.until_status("uid-one", |status| health(status).as_deref() == Some("Healthy")).await;
    plugin.set_health("a", "Unhealthy");
    node.until_status("uid-one", |status| health(status).as_deref() == Some("Unhealthy")).await;
    assert_eq!(node.views().devices.counts()[X].capacity, 2);
    plugin.set_health("a", "Healthy");
    node.until_status("uid-one", |status| health(status).as_deref() == Some("Healthy")).await;
}

#[tokio::test]
async fn slow_plugin_delays_only_new_pods() {
    let node = VirtualNode::started();
    let plugin = plugin(&node, &["a"], DevicePluginOptions::default()).await;
    node.write("before.json", &pod("before", "uid-before", &["main"]));
    node.until_running("uid-before").await;
    plugin.set_fault(DeviceCall::Allocate, Some(DeviceFault::Hangs));
    node.write("one.json", &with_devices("one", "uid-one", 1));
    eventually("the plugin is called", TIMEOUT, async || {
        anyhow::ensure!(!plugin.calls_of(DeviceCall::Allocate).is_empty(), "not called");
        Ok(())
    })
    .await
    .unwrap();
    // Pods that run are still restarted and removed.
    let id = node.running("uid-before", "main");
    node.runtime.exit_container(&id, Exit::code(1));
    node.until("the container runs again", |state| {
        state.running_container("uid-before", "main").is_some_and(|own| own.id != id)
    })
    .await;
    node.remove("before.json");
    node.until_gone("uid-before").await;
    plugin.set_fault(DeviceCall::Allocate, None);
    node.until_running("uid-one").await;
}

#[tokio::test]
async fn pod_removed_while_its_plugin_hangs_leaves_the_device_free() {
    let node = VirtualNode::started();
    let plugin = plugin(&node, &["a"], DevicePluginOptions::default()).await;
    plugin.set_fault(DeviceCall::Allocate, Some(DeviceFault::Hangs));
    node.write("one.json", &with_devices("one", "uid-one", 1));
    node.write("two.json", &with_devices("two", "uid-two", 1));
    eventually("the plugin is called", TIMEOUT, async || {
        anyhow::ensure!(!plugin.calls_of(DeviceCall::Allocate).is_empty(), "not called");
        Ok(())
    })
    .await
    .unwrap();
    node.remove("one.json");
    eventually("the agent has dropped the pod", TIMEOUT, async || {
        anyhow::ensure!(node.views().desired.get(&"uid-one".into()).is_none(), "still desired");
        Ok(())
    })
    .await
    .unwrap();
    plugin.set_fault(DeviceCall::Allocate, None);
    node.until_running("uid-two").await;
}

#[tokio::test]
async fn device_that_prepares_its_containers_is_prepared_at_every_start() {
    let node = VirtualNode::started();
    let options = DevicePluginOptions {
        needs_pre_start: true,
        preferred: Some(vec!["c".to_owned()]),
        ..DevicePluginOptions::default()
    };
    let plugin = plugin(&node, &["a", "b", "c"], options).await;
    node.write("one.json", &with_devices("one", "uid-one", 1));
    node.until_running("uid-one").await;
    assert_eq!(devices(&node, "uid-one", "main").as_deref(), Some("c"), "the plugin prefers it");
    let id = node.running("uid-one", "main");
    node.runtime.exit_container(&id, Exit::code(1));
    node.until("the container runs again", |state| {
        state.running_container("uid-one", "main").is_some_and(|own| own.id != id)
    })
    .await;
    assert_eq!(plugin.calls_of(DeviceCall::PreStartContainer), [["c"], ["c"]]);
    plugin.set_fault(DeviceCall::PreStartContainer, Some(DeviceFault::Fails));
    node.write("two.json", &with_devices("two", "uid-two", 1));
    node.until_status("uid-two", |status| {
        let waiting = containers(status).first().and_then(|own| own.state.as_ref()?.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CreateContainerConfigError"))
    })
    .await;
    plugin.set_fault(DeviceCall::PreStartContainer, None);
    node.until_running("uid-two").await;
}

#[tokio::test]
async fn node_status_shows_devices_and_keeps_those_of_a_stopped_plugin() {
    let (mut node, cluster) = (VirtualNode::new(), Cluster::default());
    node.cluster = Some(cluster.clone());
    node.status_period = Duration::from_millis(100);
    node.start_agent();
    let mut plugin = plugin(&node, &["a", "b"], DevicePluginOptions::default()).await;
    let until = async |capacity: &str, allocatable: &str| {
        eventually("the devices in the node status", TIMEOUT, async || {
            let found = (cluster.amount("capacity", X), cluster.amount("allocatable", X));
            anyhow::ensure!(found == (Some(capacity.to_owned()), Some(allocatable.to_owned())), "{found:?}");
            Ok(())
        })
        .await
        .unwrap();
    };
    until("2", "2").await;
    plugin.set_devices(vec![
        PluginDevice { id: "a".to_owned(), health: "Healthy".to_owned(), nodes: vec![0] },
        PluginDevice { id: "b".to_owned(), health: "broken".to_owned(), nodes: Vec::new() },
    ]);
    until("2", "1").await;
    plugin.stop();
    until("2", "0").await;
}
