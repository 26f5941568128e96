//! Device plugins: a real plugin on real sockets, with the same steps on both agents.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::containerd::Containerd;
use testkit::device_plugin::{
    DeviceCall, DeviceFault, DevicePluginOptions, TestDevicePlugin, allocatable_devices,
};
use testkit::node_runtime::{NodeRuntime, RuntimeKind};
use testkit::poll::{eventually, throughout};

mod life;

scenarios!(
    devices_are_allocated_until_none_is_left,
    devices_of_the_container_device_interface_are_injected,
    unhealthy_device_is_shown_and_recovers,
    containers_keep_their_devices_while_the_plugin_is_away,
    devices_survive_restarts_of_the_agent,
    pod_deleted_while_the_agent_is_down_releases_its_devices,
    app_container_reuses_the_device_of_an_init_container,
    failing_plugin_rejects_the_pod,
);

#[test]
fn devices_survive_a_switch_to_podward_and_back() {
    if Agent::Upstream.selected() && Agent::Podward.selected() {
        let name = "devices_survive_a_switch_to_podward_and_back";
        scenarios::run(Agent::Podward, name, |_| switch_agents());
    }
}

const X: &str = "vendor.com/x";
const LONG: Duration = Duration::from_secs(60);
const NONE_HEALTHY: &str = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices vendor.com/x, which is unexpected";

/// A node with a plugin.
struct Fixture {
    node: Node,
    plugin: TestDevicePlugin,
}

impl Fixture {
    async fn start(agent: Agent, devices: &[&str], options: DevicePluginOptions) -> Result<Self> {
        Self::start_on(NodeRuntime::start(RuntimeKind::selected()).await?, agent, devices, options).await
    }

    async fn start_on(
        runtime: NodeRuntime,
        agent: Agent,
        devices: &[&str],
        plugin_options: DevicePluginOptions,
    ) -> Result<Self> {
        let folder = runtime.instance().path("device-plugins");
        let options = AgentOptions { device_plugins: Some(folder.clone()), ..AgentOptions::default() };
        let mut node = Node::on(runtime, agent, &options)?;
        node.agent.start()?;
        node.agent.wait_ready().await?;
        let mut plugin = TestDevicePlugin::new(X, &folder, devices, plugin_options);
        plugin.start()?;
        let fixture = Self { node, plugin };
        fixture.wait_healthy(devices).await?;
        Ok(fixture)
    }

    async fn wait_healthy(&self, devices: &[&str]) -> Result<()> {
        let socket = self.node.agent.root().join("pod-resources/kubelet.sock");
        eventually(&format!("healthy devices {devices:?}"), LONG, async || {
            let found = allocatable_devices(&socket, X).await?;
            ensure!(found == devices, "{found:?}, registration {:?}", self.plugin.registration());
            Ok(())
        })
        .await
    }

    /// The root folder of the process of a container.
    async fn root(&self, pod: &str, container: &str) -> Result<PathBuf> {
        let running = self.node.running(pod).await?;
        let own = running.iter().find(|view| view.name == container).context("no such container")?;
        Ok(Path::new("/proc").join(self.node.cri().pid(&own.id).await?.to_string()))
    }

    async fn variable(&self, pod: &str, container: &str, prefix: &str) -> Result<Vec<String>> {
        let environment = self.root(pod, container).await?.join("environ");
        let environment = fs::read_to_string(environment).context("read the environment")?;
        let own = environment.split('\0').filter(|variable| variable.starts_with(prefix));
        Ok(own.map(str::to_owned).collect())
    }

    /// The devices in the environment of a container.
    async fn devices(&self, pod: &str, container: &str) -> Result<String> {
        // The runtime shows the process a moment before it executes the program with this environment.
        eventually(&format!("the devices of {pod}"), LONG, async || {
            let own = self.variable(pod, container, "DEVICES_OF_vendor_com_x=").await?;
            let (_, devices) = own.first().and_then(|own| own.split_once('=')).context("no devices")?;
            Ok(devices.to_owned())
        })
        .await
    }

    async fn message_of_rejection(&self, name: &str) -> Result<String> {
        self.node.wait_pod(name, "is rejected", |pod| pod.phase == "Failed").await?;
        let status = self.node.api_pod(name).await?.status.context("no status")?;
        ensure!(status.reason.as_deref() == Some("UnexpectedAdmissionError"), "{:?}", status.reason);
        status.message.context("no message")
    }

    async fn wait_health(&self, name: &str, expected: &str) -> Result<()> {
        eventually(&format!("device of {name} is {expected}"), LONG, async || {
            let pod = serde_json::to_value(self.node.api_pod(name).await?)?;
            let shown = pod.pointer("/status/containerStatuses/0/allocatedResourcesStatus");
            let expected = json!([{"name": X, "resources": [{"resourceID": "a", "health": expected}]}]);
            ensure!(shown == Some(&expected), "{shown:?}");
            Ok(())
        })
        .await
    }

    async fn wait_restarted(&self, name: &str, restarts: i32) -> Result<()> {
        let restarted = |pod: &scenarios::PodView| {
            pod.all_running() && pod.containers.iter().all(|own| own.restarts == restarts)
        };
        self.node.wait_pod(name, "has restarted", restarted).await.map(drop)
    }
}

fn with_devices(name: &str, count: u32) -> Value {
    let amount = json!({X: count.to_string()});
    let pod = pod(name, [container("main", "sleep forever")]);
    with(pod, "/spec/containers/0/resources", json!({"limits": amount, "requests": amount}))
}

async fn devices_are_allocated_until_none_is_left(agent: Agent) -> Result<()> {
    let runtime = NodeRuntime::start(RuntimeKind::selected()).await?;
    let file = runtime.instance().path("plugin-file");
    fs::write(&file, "from the plugin\n")?;
    let options = DevicePluginOptions {
        mounted_file: Some(file),
        needs_pre_start: true,
        ..DevicePluginOptions::default()
    };
    let own = Fixture::start_on(runtime, agent, &["a", "b"], options).await?;
    own.node.write("one.json", &with_devices("one", 2))?;
    own.node.wait_running("one").await?;
    ensure!(own.devices("one", "main").await? == "a,b", "other devices");
    let root = own.root("one", "main").await?.join("root");
    ensure!(fs::read_to_string(root.join("plugin-file"))? == "from the plugin\n", "another file");
    for device in ["a", "b"] {
        ensure!(root.join(format!("dev/vendor.com-x-{device}")).exists(), "no device node {device}");
    }
    own.node.write("late.json", &with_devices("late", 1))?;
    let message = "Pod was rejected: Allocate failed due to requested number of devices unavailable for vendor.com/x. Requested: 1, Available: 0, which is unexpected";
    let found = own.message_of_rejection("late").await?;
    ensure!(found == message, "{found}");
    own.node.remove("late.json")?;
    own.node.remove("one.json")?;
    own.node.wait_gone("one").await?;
    own.node.write("next.json", &with_devices("next", 2))?;
    own.node.wait_running("next").await?;
    let prepared = own.plugin.calls_of(DeviceCall::PreStartContainer);
    ensure!(prepared == [["a", "b"], ["a", "b"]], "{prepared:?}");
    let page = own.node.agent.page("/metrics").await?;
    for line in [
        "kubelet_device_plugin_registration_total{resource_name=\"vendor.com/x\"} 1",
        "kubelet_device_plugin_alloc_duration_seconds_count{resource_name=\"vendor.com/x\"} 2",
    ] {
        ensure!(page.lines().any(|own| own == line), "{line} is missing");
    }
    Ok(())
}

async fn devices_of_the_container_device_interface_are_injected(agent: Agent) -> Result<()> {
    let home = std::env::var_os("HOME").map_or("/root".into(), PathBuf::from);
    let binary = std::env::var_os("PODWARD_CONTAINERD_2").map(PathBuf::from);
    let binary = binary.unwrap_or_else(|| home.join(".cache/podward/bin/containerd"));
    let runtime = NodeRuntime::Containerd(Containerd::start_binary(&binary).await?);
    let specs = runtime.instance().path("cdi");
    let options = DevicePluginOptions { cdi_specs: Some(specs), ..DevicePluginOptions::default() };
    let own = Fixture::start_on(runtime, agent, &["a"], options).await?;
    own.node.write("one.json", &with_devices("one", 1))?;
    own.node.wait_running("one").await?;
    let injected = own.variable("one", "main", "CDI_").await?;
    ensure!(injected == ["CDI_a=vendor.com/x"], "{injected:?}");
    Ok(())
}

async fn unhealthy_device_is_shown_and_recovers(agent: Agent) -> Result<()> {
    let own = Fixture::start(agent, &["a"], DevicePluginOptions::default()).await?;
    own.node.write("one.json", &with_devices("one", 1))?;
    own.node.wait_running("one").await?;
    own.wait_health("one", "Healthy").await?;
    own.plugin.set_health("a", "Unhealthy");
    own.wait_health("one", "Unhealthy").await?;
    own.wait_healthy(&[]).await?;
    own.node.write("late.json", &with_devices("late", 1))?;
    let found = own.message_of_rejection("late").await?;
    ensure!(found == NONE_HEALTHY, "{found}");
    own.plugin.set_health("a", "Healthy");
    own.wait_health("one", "Healthy").await?;
    own.node.wait_running("one").await?;
    Ok(())
}

async fn containers_keep_their_devices_while_the_plugin_is_away(agent: Agent) -> Result<()> {
    let preferred = Some(vec!["b".to_owned()]);
    let options = DevicePluginOptions { preferred, ..DevicePluginOptions::default() };
    let mut own = Fixture::start(agent, &["a", "b"], options).await?;
    own.node.write("one.json", &with_devices("one", 1))?;
    own.node.wait_running("one").await?;
    ensure!(own.devices("one", "main").await? == "b", "the plugin prefers b");
    own.plugin.stop();
    own.wait_healthy(&[]).await?;
    own.node.write("late.json", &with_devices("late", 1))?;
    let found = own.message_of_rejection("late").await?;
    ensure!(found == NONE_HEALTHY, "{found}");
    let process = own.root("one", "main").await?;
    let process = process.file_name().context("no process")?;
    ensure!(Command::new("kill").arg("-9").arg(process).status()?.success(), "cannot kill the container");
    own.wait_restarted("one", 1).await?;
    ensure!(own.devices("one", "main").await? == "b", "another device");
    own.plugin.start()?;
    own.wait_healthy(&["a", "b"]).await?;
    own.node.write("two.json", &with_devices("two", 1))?;
    own.node.wait_running("two").await?;
    ensure!(own.devices("two", "main").await? == "a", "the device of the first pod");
    Ok(())
}

async fn devices_survive_restarts_of_the_agent(agent: Agent) -> Result<()> {
    let mut own = Fixture::start(agent, &["a", "b"], DevicePluginOptions::default()).await?;
    own.node.write("one.json", &with_devices("one", 1))?;
    let before = own.node.wait_running("one").await?;
    let device = own.devices("one", "main").await?;
    own.node.agent.term().await?;
    own.node.agent.start()?;
    own.node.agent.wait_ready().await?;
    own.wait_healthy(&["a", "b"]).await?;
    own.node.restart_agent().await?;
    own.wait_healthy(&["a", "b"]).await?;
    throughout("the same container", Duration::from_secs(4), async || {
        let now = own.node.wait_running("one").await?;
        ensure!(now.container("main") == before.container("main"), "{now:?}");
        Ok(())
    })
    .await?;
    own.node.write("two.json", &with_devices("two", 1))?;
    own.node.wait_running("two").await?;
    ensure!(own.devices("two", "main").await? != device, "both pods have {device}");
    let allocated = own.plugin.calls_of(DeviceCall::Allocate).len();
    ensure!(allocated == 2, "{allocated} allocations");
    Ok(())
}

async fn pod_deleted_while_the_agent_is_down_releases_its_devices(agent: Agent) -> Result<()> {
    let mut own = Fixture::start(agent, &["a"], DevicePluginOptions::default()).await?;
    own.node.write("one.json", &with_devices("one", 1))?;
    own.node.wait_running("one").await?;
    own.node.agent.kill9()?;
    own.node.remove("one.json")?;
    own.node.agent.start()?;
    own.node.agent.wait_ready().await?;
    own.node.wait_gone("one").await?;
    own.wait_healthy(&["a"]).await?;
    own.node.write("next.json", &with_devices("next", 1))?;
    own.node.wait_running("next").await?;
    ensure!(own.devices("next", "main").await? == "a", "another device");
    Ok(())
}

async fn app_container_reuses_the_device_of_an_init_container(agent: Agent) -> Result<()> {
    let own = Fixture::start(agent, &["a"], DevicePluginOptions::default()).await?;
    let amount = json!({X: "1"});
    let init = with(container("init", "exit 0"), "/resources", json!({"limits": amount, "requests": amount}));
    own.node.write("one.json", &with(with_devices("one", 1), "/spec/initContainers", json!([init])))?;
    own.node.wait_running("one").await?;
    ensure!(own.devices("one", "main").await? == "a", "another device");
    let allocated = own.plugin.calls_of(DeviceCall::Allocate);
    ensure!(allocated == [["a"], ["a"]], "{allocated:?}");
    Ok(())
}

async fn failing_plugin_rejects_the_pod(agent: Agent) -> Result<()> {
    let own = Fixture::start(agent, &["a"], DevicePluginOptions::default()).await?;
    for (version, resource, error) in [
        (
            "v2",
            X,
            "requested API version \"v2\" is not supported by kubelet. Supported version is [\"v1beta1\"]",
        ),
        ("v1beta1", "gpu", "the ResourceName \"gpu\" is invalid"),
    ] {
        let answer = own.plugin.register_as(version, resource).await;
        ensure!(answer == Err(error.to_owned()), "{answer:?}");
    }
    own.plugin.set_fault(DeviceCall::GetDevicePluginOptions, Some(DeviceFault::Fails));
    let answer = own.plugin.register_as("v1beta1", X).await;
    let error = "failed to get device plugin options: rpc error: code = Internal desc = injected failure";
    ensure!(answer == Err(error.to_owned()), "{answer:?}");
    own.plugin.set_fault(DeviceCall::GetDevicePluginOptions, None);
    own.plugin.set_fault(DeviceCall::Allocate, Some(DeviceFault::Fails));
    own.node.write("one.json", &with_devices("one", 1))?;
    let found = own.message_of_rejection("one").await?;
    let message = "Pod was rejected: Allocate failed due to rpc error: code = Internal desc = injected failure, which is unexpected";
    ensure!(found == message, "{found}");
    own.plugin.set_fault(DeviceCall::Allocate, None);
    own.node.write("two.json", &with_devices("two", 1))?;
    own.node.wait_running("two").await?;
    Ok(())
}

async fn switch_agents() -> Result<()> {
    let mut own = Fixture::start(Agent::Upstream, &["a", "b"], DevicePluginOptions::default()).await?;
    own.node.write("one.json", &with_devices("one", 1))?;
    own.node.wait_running("one").await?;
    let device = own.devices("one", "main").await?;
    for agent in [Agent::Podward, Agent::Upstream] {
        let containers = own.node.cri().containers().await?;
        own.node.agent.term().await?;
        own.node.agent.become_kind(agent)?;
        own.node.agent.start()?;
        own.node.agent.wait_ready().await?;
        own.wait_healthy(&["a", "b"]).await?;
        throughout("same containers after the switch", Duration::from_secs(4), async || {
            let now = own.node.cri().containers().await?;
            ensure!(now == containers, "containers changed\nbefore {containers:#?}\nnow {now:#?}");
            Ok(())
        })
        .await?;
        own.node.write("two.json", &with_devices("two", 1))?;
        own.node.wait_running("two").await?;
        ensure!(own.devices("two", "main").await? != device, "both pods have {device}");
        own.node.remove("two.json")?;
        own.node.wait_gone("two").await?;
    }
    Ok(())
}
