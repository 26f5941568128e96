//! Devices of pods through kills of the agent, a reboot of the node, and the end of pods.

use testkit::device_plugin::allocated_devices;

use super::*;

scenarios!(
    two_resources_are_allocated_at_once,
    sidecar_keeps_the_device_of_an_init_container_and_the_app_gets_another,
    kill_during_a_call_of_the_plugin_leaves_its_devices_free,
    pods_of_a_rebooted_node_are_rejected_while_their_plugin_is_away,
    pod_resources_are_the_same_after_a_restart,
);

#[test]
fn all_managed_resources_survive_a_switch_to_podward_and_back() {
    if Agent::Upstream.selected() && Agent::Podward.selected() {
        let name = "devices::all_managed_resources_survive_a_switch_to_podward_and_back";
        scenarios::run(Agent::Podward, name, |_| switch_with_all_resources());
    }
}

const Y: &str = "vendor.com/y";

async fn two_resources_are_allocated_at_once(agent: Agent) -> Result<()> {
    let own = Fixture::start(agent, &["a", "b"], DevicePluginOptions::default()).await?;
    let folder = own.node.runtime.instance().path("device-plugins");
    let mut other = TestDevicePlugin::new(Y, &folder, &["n"], DevicePluginOptions::default());
    other.start()?;
    let socket = own.node.agent.root().join("pod-resources/kubelet.sock");
    eventually("the second resource", LONG, async || {
        let found = allocatable_devices(&socket, Y).await?;
        ensure!(found == ["n"], "{found:?}");
        Ok(())
    })
    .await?;
    let amounts = json!({X: "2", Y: "1"});
    let both = with(
        with_devices("both", 2),
        "/spec/containers/0/resources",
        json!({"limits": amounts, "requests": amounts}),
    );
    own.node.write("both.json", &both)?;
    own.node.wait_running("both").await?;
    ensure!(own.devices("both", "main").await? == "a,b", "other devices");
    let nics = own.variable("both", "main", "DEVICES_OF_vendor_com_y=").await?;
    ensure!(nics == ["DEVICES_OF_vendor_com_y=n"], "{nics:?}");
    // One of two resources is used up: the free one stays free.
    own.node.write("late.json", &with(both, "/metadata/name", json!("late")))?;
    own.message_of_rejection("late").await?;
    own.node.remove("late.json")?;
    own.node.remove("both.json")?;
    own.node.wait_gone("both").await?;
    own.node.write("next.json", &with_devices("next", 2))?;
    own.node.wait_running("next").await?;
    Ok(())
}

async fn sidecar_keeps_the_device_of_an_init_container_and_the_app_gets_another(agent: Agent) -> Result<()> {
    let own = Fixture::start(agent, &["a", "b"], DevicePluginOptions::default()).await?;
    let amount = json!({X: "1"});
    let resources = json!({"limits": amount, "requests": amount});
    let init = with(container("init", "exit 0"), "/resources", resources.clone());
    let sidecar = with(container("sidecar", "sleep forever"), "/resources", resources);
    let sidecar = with(sidecar, "/restartPolicy", json!("Always"));
    own.node
        .write("one.json", &with(with_devices("one", 1), "/spec/initContainers", json!([init, sidecar])))?;
    own.node.wait_pod("one", "runs with its sidecar", |pod| pod.phase == "Running").await?;
    let (sidecar, app) = (own.devices("one", "sidecar").await?, own.devices("one", "main").await?);
    ensure!(sidecar != app, "sidecar and app share {app}");
    let allocated = own.plugin.calls_of(DeviceCall::Allocate);
    ensure!(
        allocated[0] == allocated[1],
        "the sidecar reuses the device of the init container: {allocated:?}"
    );
    let listed = listed(&own).await?;
    let expected = [("main".to_owned(), vec![app]), ("sidecar".to_owned(), vec![sidecar])];
    ensure!(listed == expected, "{listed:?}");
    Ok(())
}

/// The containers that pod-resources lists, with their devices.
async fn listed(own: &Fixture) -> Result<Vec<(String, Vec<String>)>> {
    allocated_devices(&own.node.agent.root().join("pod-resources/kubelet.sock")).await
}

async fn kill_during_a_call_of_the_plugin_leaves_its_devices_free(agent: Agent) -> Result<()> {
    let options = DevicePluginOptions { needs_pre_start: true, ..DevicePluginOptions::default() };
    let mut own = Fixture::start(agent, &["a"], options).await?;
    for (step, call) in [DeviceCall::Allocate, DeviceCall::PreStartContainer].into_iter().enumerate() {
        own.plugin.set_fault(call, Some(DeviceFault::Hangs));
        let (name, called) = (format!("broken-{step}"), own.plugin.calls_of(call).len());
        own.node.write(&format!("{name}.json"), &with_devices(&name, 1))?;
        eventually("the plugin is called", LONG, async || {
            ensure!(own.plugin.calls_of(call).len() > called, "no call");
            Ok(())
        })
        .await?;
        own.node.agent.kill9()?;
        own.node.remove(&format!("{name}.json"))?;
        own.plugin.set_fault(call, None);
        own.node.agent.start()?;
        own.node.agent.wait_ready().await?;
        own.node.wait_gone(&name).await?;
        own.wait_healthy(&["a"]).await?;
        let name = format!("next-{step}");
        own.node.write(&format!("{name}.json"), &with_devices(&name, 1))?;
        own.node.wait_running(&name).await?;
        ensure!(own.devices(&name, "main").await? == "a", "another device");
        own.node.remove(&format!("{name}.json"))?;
        own.node.wait_gone(&name).await?;
    }
    Ok(())
}

async fn pods_of_a_rebooted_node_are_rejected_while_their_plugin_is_away(agent: Agent) -> Result<()> {
    let mut own = Fixture::start(agent, &["a"], DevicePluginOptions::default()).await?;
    own.node.write("one.json", &with_devices("one", 1))?;
    own.node.wait_running("one").await?;
    own.node.agent.kill9()?;
    own.plugin.stop();
    own.node.cri().remove_all().await?;
    own.node.agent.start()?;
    own.node.agent.wait_ready().await?;
    let found = own.message_of_rejection("one").await?;
    ensure!(found.contains("cannot allocate unhealthy devices vendor.com/x"), "{found}");
    own.plugin.start()?;
    own.wait_healthy(&["a"]).await?;
    own.node.remove("one.json")?;
    own.node.wait_gone("one").await?;
    own.node.write("two.json", &with_devices("two", 1))?;
    own.node.wait_running("two").await?;
    ensure!(own.devices("two", "main").await? == "a", "another device");
    Ok(())
}

async fn pod_resources_are_the_same_after_a_restart(agent: Agent) -> Result<()> {
    let mut own = Fixture::start(agent, &["a", "b", "c"], DevicePluginOptions::default()).await?;
    own.node.write("one.json", &with_devices("one", 1))?;
    own.node.write("two.json", &with_devices("two", 2))?;
    own.node.wait_running("one").await?;
    own.node.wait_running("two").await?;
    let before = listed(&own).await?;
    ensure!(before.iter().map(|(_, ids)| ids.len()).sum::<usize>() == 3, "{before:?}");
    own.node.restart_agent().await?;
    // The agent knows its pods a moment after it is ready.
    eventually("the list of before the restart", LONG, async || {
        let after = listed(&own).await?;
        ensure!(after == before, "{before:?} became {after:?}");
        Ok(())
    })
    .await?;
    own.wait_healthy(&["a", "b", "c"]).await?;
    let after = listed(&own).await?;
    ensure!(after == before, "{before:?} became {after:?}");
    Ok(())
}

/// Exclusive CPUs, pinned memory and devices of one container.
async fn switch_with_all_resources() -> Result<()> {
    let runtime = NodeRuntime::Containerd(Containerd::start().await?);
    let folder = runtime.instance().path("device-plugins");
    let overlay = json!({
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "1s",
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": "single-numa-node",
        "systemReserved": {"cpu": "100m", "memory": "200Mi"},
        "evictionHard": {"memory.available": "100Mi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "300Mi"}}],
    });
    let options = AgentOptions { device_plugins: Some(folder.clone()), overlay, ..AgentOptions::default() };
    let mut node = Node::on(runtime, Agent::Upstream, &options)?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    let mut plugin = TestDevicePlugin::new(X, &folder, &["a", "b"], DevicePluginOptions::default());
    plugin.start()?;
    let mut own = Fixture { node, plugin };
    own.wait_healthy(&["a", "b"]).await?;
    let amounts = json!({X: "1", "cpu": "1", "memory": "32Mi"});
    let resources = json!({"limits": amounts, "requests": amounts});
    let pinned = with(with_devices("pinned", 1), "/spec/containers/0/resources", resources);
    own.node.write("pinned.json", &pinned)?;
    own.node.wait_running("pinned").await?;
    let states = |own: &Fixture| -> Result<[Value; 2]> {
        let read = |name: &str| -> Result<Value> {
            let content = fs::read(own.node.agent.root().join(name))?;
            serde_json::from_slice(&content).context("a state file is no JSON")
        };
        Ok([read("cpu_manager_state")?, read("memory_manager_state")?])
    };
    let (stored, devices) = (states(&own)?, listed(&own).await?);
    for entries in [&stored[0]["entries"], &stored[1]["entries"]] {
        ensure!(entries.as_object().is_some_and(|pods| pods.len() == 1), "nothing is pinned: {stored:?}");
    }
    for agent in [Agent::Podward, Agent::Upstream] {
        let containers = own.node.cri().containers().await?;
        own.node.agent.term().await?;
        own.node.agent.become_kind(agent)?;
        own.node.agent.start()?;
        own.node.agent.wait_ready().await?;
        own.wait_healthy(&["a", "b"]).await?;
        // The agent knows its pods a moment after it is ready.
        eventually("the devices of before the switch", LONG, async || {
            let now = listed(&own).await?;
            ensure!(now == devices, "{devices:?} became {now:?}");
            Ok(())
        })
        .await?;
        throughout("the same containers and resources", Duration::from_secs(6), async || {
            let now = own.node.cri().containers().await?;
            ensure!(now == containers, "containers changed\nbefore {containers:#?}\nnow {now:#?}");
            ensure!(states(&own)? == stored, "{:?} is not {stored:?}", states(&own)?);
            ensure!(listed(&own).await? == devices, "other devices than {devices:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
