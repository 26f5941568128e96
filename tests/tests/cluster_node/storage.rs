//! Claims, persistent volumes and a real CSI driver, with the control plane's binder and attach controller.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::csi_driver::{Ability, CsiDriver};
use testkit::poll::eventually;

scenarios!(
    mounts_claims_of_local_and_host_path_volumes,
    csi_volume_is_attached_staged_expanded_and_detached,
    inline_csi_volume_is_removed_with_its_pod,
    csi_volume_is_mapped_as_block_device,
    csi_volume_limit_changes_are_reported,
    csi_volume_stats_come_from_the_driver,
);

/// A pod that only mounts the volumes.
fn holder(name: &str, volumes: &[(&str, Value)]) -> Value {
    let mounts: Vec<Value> =
        volumes.iter().map(|(name, _)| json!({"name": name, "mountPath": format!("/{name}")})).collect();
    let volumes: Vec<Value> =
        volumes.iter().map(|(name, source)| with(source.clone(), "/name", json!(name))).collect();
    let web = with(pod(name, [container("main", "sleep forever")]), "/spec/volumes", json!(volumes));
    with(web, "/spec/containers/0/volumeMounts", json!(mounts))
}

fn claimed(claim: &str) -> Value {
    json!({"persistentVolumeClaim": {"claimName": claim}})
}

/// Creates a persistent volume and a claim bound to it.
async fn provide(node: &ClusterNode, name: &str, class: &str, source: Value) -> Result<String> {
    provide_as(node, name, class, "Filesystem", source).await
}

async fn provide_as(
    node: &ClusterNode,
    name: &str,
    class: &str,
    mode: &str,
    source: Value,
) -> Result<String> {
    let volume = format!("{name}-{}", node.name);
    let base = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": node.namespace, "name": name},
        },
    });
    let mut object = base;
    if let (Some(spec), Some(source)) = (object["spec"].as_object_mut(), source.as_object()) {
        spec.extend(source.clone());
    }
    node.apply(&object).await?;
    node.apply(&json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class, "volumeName": volume,
            "volumeMode": mode,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }))
    .await?;
    node.wait_field(&["pvc", name], "/status/phase", &json!("Bound")).await?;
    Ok(volume)
}

async fn mounts_claims_of_local_and_host_path_volumes(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let folder = |name: &str| -> Result<PathBuf> {
        let path = node.containerd.instance().path(name);
        fs::create_dir_all(&path)?;
        fs::write(path.join("who"), name)?;
        Ok(path)
    };
    let here = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]},
    ]}]}});
    let (disk, plain) = (folder("disk")?, folder("plain")?);
    let volumes = [
        provide(&node, "disk", "", json!({"local": {"path": disk}, "nodeAffinity": here})).await?,
        provide(&node, "plain", "", json!({"hostPath": {"path": plain}})).await?,
    ];
    node.apply(&holder("web", &[("disk", claimed("disk")), ("plain", claimed("plain"))])).await?;
    node.wait_running("web").await?;
    let pid = node.cri().pid(&node.running("web").await?.first().context("a container")?.id).await?;
    for name in ["disk", "plain"] {
        let seen = fs::read_to_string(format!("/proc/{pid}/root/{name}/who"))?;
        ensure!(seen == name, "{name} shows {seen}");
    }
    fs::write(format!("/proc/{pid}/root/disk/made"), "")?;
    node.restart_agent_unseen().await?;
    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    node.wait_absent(&["pod", "web"]).await?;
    ensure!(disk.join("made").exists() && disk.join("who").exists(), "what lay in the volume is gone");
    no_mounts_below(&node.agent.root().join("pods")).await?;
    for volume in &volumes {
        node.kubectl(&["delete", "pv", volume, "--wait=false"]).await?;
    }
    node.end()
}

async fn no_mounts_below(folder: &std::path::Path) -> Result<()> {
    eventually("nothing is mounted for pods", Duration::from_secs(60), async || {
        let table = fs::read_to_string("/proc/self/mounts")?;
        let own = table.lines().find(|line| line.contains(&*folder.to_string_lossy()));
        ensure!(own.is_none(), "{own:?}");
        Ok(())
    })
    .await
}

/// Starts a driver on the node and registers it with the cluster.
async fn driver(node: &ClusterNode, spec: Value) -> Result<CsiDriver> {
    able_driver(node, spec, &[Ability::StageUnstageVolume, Ability::ExpandVolume]).await
}

async fn able_driver(node: &ClusterNode, spec: Value, abilities: &[Ability]) -> Result<CsiDriver> {
    let name = format!("{}.csi.test", node.name);
    node.apply(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec,
    }))
    .await?;
    let folder = node.containerd.instance().path("driver");
    let mut driver = CsiDriver::start(&name, &folder, abilities)?;
    driver.register(&node.agent.root().join("plugins_registry"))?;
    let registered = tokio::time::timeout(Duration::from_secs(60), driver.registered()).await;
    registered.context("the agent did not report a registration result")?.map_err(anyhow::Error::msg)?;
    node.wait("the CSINode lists the driver", async || {
        let object = node.get(&["csinode", &node.name]).await?;
        let found = object["spec"]["drivers"].as_array().cloned().unwrap_or_default();
        ensure!(
            found.iter().any(|one| one["name"] == name && one["nodeID"] == format!("{name}-node")),
            "{object}"
        );
        Ok(())
    })
    .await?;
    Ok(driver)
}

async fn csi_volume_is_attached_staged_expanded_and_detached(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let driver = driver(&node, json!({"attachRequired": true, "podInfoOnMount": true})).await?;
    let name = format!("{}.csi.test", node.name);
    let class = format!("grows-{}", node.name);
    node.apply(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
        "provisioner": name, "allowVolumeExpansion": true,
    }))
    .await?;
    let source =
        json!({"csi": {"driver": name, "volumeHandle": "v-1", "volumeAttributes": {"colour": "blue"}}});
    let volume = provide(&node, "data", &class, source).await?;
    node.apply(&holder("web", &[("data", claimed("data"))])).await?;

    // The test acts as the attacher: nothing may be staged before it reports the volume as attached.
    let attachment = attachment(&node, &volume).await?;
    ensure!(driver.calls().is_empty(), "{:?}", driver.call_names());
    let attached = json!({"status": {"attached": true, "attachmentMetadata": {"device": "sdx"}}}).to_string();
    let patch = ["patch", "volumeattachment", &attachment, "--subresource=status", "--type=merge", "--patch"];
    node.kubectl(&[&patch[..], &[attached.as_str()]].concat()).await?;
    node.wait_running("web").await?;
    let staged = driver.last("NodeStageVolume").context("it was not staged")?;
    ensure!(staged.publish_context.get("device").is_some_and(|device| device == "sdx"), "{staged:?}");
    ensure!(staged.context.get("colour").is_some_and(|colour| colour == "blue"), "{staged:?}");
    let published = driver.last("NodePublishVolume").context("it was not published")?;
    ensure!(
        published.context.get("csi.storage.k8s.io/pod.name").is_some_and(|pod| pod == "web"),
        "{published:?}"
    );
    let in_use = node.node().await?["status"]["volumesInUse"].to_string();
    ensure!(in_use.contains("v-1"), "{in_use}");
    node.restart_agent_unseen().await?;
    ensure!(driver.last("NodeUnpublishVolume").is_none(), "the restart took the volume away");

    grow(&node, &volume, &driver).await?;

    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    node.wait_absent(&["pod", "web"]).await?;
    eventually("the volume is let go", Duration::from_secs(60), async || {
        let names = driver.call_names();
        ensure!(names.ends_with(&["NodeUnpublishVolume", "NodeUnstageVolume"]), "{names:?}");
        Ok(())
    })
    .await?;
    // The controller detaches only volumes that the node no longer reports in use.
    node.wait_absent(&["volumeattachment", &attachment]).await?;
    node.kubectl(&["delete", "pv", &volume, "--wait=false"]).await?;
    node.kubectl(&["delete", "csidriver", &name]).await?;
    node.kubectl(&["delete", "storageclass", &class]).await?;
    node.end()
}

/// The attachment that the controller created for a volume.
async fn attachment(node: &ClusterNode, volume: &str) -> Result<String> {
    node.wait("the controller creates an attachment", async || {
        let list = node.get(&["volumeattachments"]).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let own = items.iter().find(|one| one["spec"]["source"]["persistentVolumeName"] == volume);
        let own = own.context("no attachment yet")?;
        ensure!(own["spec"]["nodeName"] == node.name.as_str(), "{own}");
        Ok(own["metadata"]["name"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

/// The test acts as the resizer: the volume has grown, its file system has not.
async fn grow(node: &ClusterNode, volume: &str, driver: &CsiDriver) -> Result<()> {
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}).to_string();
    node.kubectl(&["patch", "pvc", "data", "--type=merge", "--patch", &larger]).await?;
    let grown = json!({"spec": {"capacity": {"storage": "2Gi"}}}).to_string();
    node.kubectl(&["patch", "pv", volume, "--type=merge", "--patch", &grown]).await?;
    let pending = json!({"status": {"conditions": [{
        "type": "FileSystemResizePending", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}})
    .to_string();
    let patch = ["patch", "pvc", "data", "--subresource=status", "--type=merge", "--patch"];
    node.kubectl(&[&patch[..], &[pending.as_str()]].concat()).await?;
    let claim = node.wait_field(&["pvc", "data"], "/status/capacity/storage", &json!("2Gi")).await?;
    let left = claim["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty());
    ensure!(!left, "{}", claim["status"]);
    let expanded = driver.last("NodeExpandVolume").context("the driver was not called")?;
    ensure!(expanded.bytes == 2 << 30, "{expanded:?}");
    let reported = format!("MountVolume.NodeExpandVolume succeeded for volume \"{volume}\" {}", node.name);
    for object in ["Pod", "PersistentVolumeClaim"] {
        let selector = format!("reason=FileSystemResizeSuccessful,involvedObject.kind={object}");
        node.wait(&format!("an event of the {object}"), async || {
            let events = node.get(&["events", "--field-selector", &selector]).await?;
            let first = events["items"].as_array().and_then(|items| items.first()).cloned();
            let first = first.context("no event")?;
            ensure!(first["message"].as_str().map(str::trim) == Some(reported.as_str()), "{first}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn inline_csi_volume_is_removed_with_its_pod(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let spec = json!({
        "attachRequired": false, "podInfoOnMount": true, "volumeLifecycleModes": ["Ephemeral"],
    });
    let driver = driver(&node, spec).await?;
    let name = format!("{}.csi.test", node.name);
    let inline = json!({"csi": {"driver": name, "volumeAttributes": {"colour": "red"}}});
    node.apply(&holder("web", &[("scratch", inline)])).await?;
    node.wait_running("web").await?;
    let published = driver.last("NodePublishVolume").context("it was not published")?;
    for (key, value) in [("colour", "red"), ("csi.storage.k8s.io/ephemeral", "true")] {
        ensure!(published.context.get(key).is_some_and(|found| found == value), "{published:?}");
    }
    ensure!(published.volume.starts_with("csi-"), "{published:?}");
    ensure!(driver.last("NodeStageVolume").is_none(), "{:?}", driver.call_names());
    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    node.wait_absent(&["pod", "web"]).await?;
    eventually("the volume is gone", Duration::from_secs(60), async || {
        let last = driver.last("NodeUnpublishVolume").context("not unpublished")?;
        ensure!(last.volume == published.volume, "{last:?}");
        Ok(())
    })
    .await?;
    node.kubectl(&["delete", "csidriver", &name]).await?;
    node.end()
}

/// A loop device backed by a file; detached on drop.
struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    fn on(file: &std::path::Path) -> Result<Self> {
        fs::write(file, vec![0; 1 << 20])?;
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output()?;
        ensure!(output.status.success(), "losetup: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Self { path: PathBuf::from(String::from_utf8(output.stdout)?.trim()) })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

async fn csi_volume_is_mapped_as_block_device(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let driver = driver(&node, json!({"attachRequired": false})).await?;
    let name = format!("{}.csi.test", node.name);
    let file = node.containerd.instance().path("disk.image");
    let device = LoopDevice::on(&file)?;
    std::os::unix::fs::symlink(&device.path, driver.volume("raw"))?;
    let source = json!({"csi": {"driver": name, "volumeHandle": "raw"}, "volumeMode": "Block"});
    let volume = provide_as(&node, "data", "", "Block", source).await?;
    let web = with(
        pod("web", [container("main", "sleep forever")]),
        "/spec/volumes",
        json!([with(claimed("data"), "/name", json!("data"))]),
    );
    let devices = json!([{"name": "data", "devicePath": "/dev/data"}]);
    node.apply(&with(web, "/spec/containers/0/volumeDevices", devices)).await?;
    node.wait_running("web").await?;
    let pid = node.cri().pid(&node.running("web").await?.first().context("a container")?.id).await?;
    let inside = PathBuf::from(format!("/proc/{pid}/root/dev/data"));
    let (seen, real) = (fs::metadata(&inside)?, fs::metadata(&device.path)?);
    ensure!(seen.file_type().is_block_device() && seen.rdev() == real.rdev(), "{seen:?}");
    ensure!(driver.last("NodeStageVolume").is_some(), "{:?}", driver.call_names());
    node.restart_agent_unseen().await?;
    ensure!(driver.last("NodeUnpublishVolume").is_none(), "the restart took the volume away");
    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    node.wait_absent(&["pod", "web"]).await?;
    eventually("the volume is let go", Duration::from_secs(60), async || {
        let names = driver.call_names();
        ensure!(names.ends_with(&["NodeUnpublishVolume", "NodeUnstageVolume"]), "{names:?}");
        Ok(())
    })
    .await?;
    no_mounts_below(&node.agent.root().join("plugins")).await?;
    node.kubectl(&["delete", "pv", &volume, "--wait=false"]).await?;
    node.kubectl(&["delete", "csidriver", &name]).await?;
    node.end()
}

async fn csi_volume_limit_changes_are_reported(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let spec = json!({"attachRequired": false, "nodeAllocatableUpdatePeriodSeconds": 10});
    let driver = driver(&node, spec).await?;
    let name = format!("{}.csi.test", node.name);
    let count = json!(16);
    node.wait_field(&["csinode", &node.name], "/spec/drivers/0/allocatable/count", &count).await?;
    driver.set_volume_limit(7);
    let count = json!(7);
    node.wait_field(&["csinode", &node.name], "/spec/drivers/0/allocatable/count", &count).await?;
    node.kubectl(&["delete", "csidriver", &name]).await?;
    node.end()
}

async fn csi_volume_stats_come_from_the_driver(agent: Agent) -> Result<()> {
    let options = AgentOptions { overlay: json!({"volumeStatsAggPeriod": "5s"}), ..AgentOptions::default() };
    let node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    let spec = json!({"attachRequired": false, "volumeLifecycleModes": ["Ephemeral"]});
    let driver = able_driver(&node, spec, &[Ability::GetVolumeStats]).await?;
    let name = format!("{}.csi.test", node.name);
    node.apply(&holder("web", &[("data", json!({"csi": {"driver": name}}))])).await?;
    node.wait_running("web").await?;
    let path = |page: &str| format!("/api/v1/nodes/{}/proxy{page}", node.name);
    node.wait("the driver was called", async || {
        let summary: Value =
            serde_json::from_str(&node.kubectl(&["get", "--raw", &path("/stats/summary")]).await?)?;
        let pods = summary["pods"].as_array().cloned().unwrap_or_default();
        let web = pods.iter().find(|pod| pod["podRef"]["name"] == "web").context("the pod")?;
        let volumes = web["volume"].as_array().cloned().unwrap_or_default();
        let data = volumes.iter().find(|volume| volume["name"] == "data").context("the volume")?;
        ensure!(data["capacityBytes"].as_u64().is_some_and(|bytes| bytes > 0), "{data}");
        // It reports no inodes; the file system would.
        ensure!(data["inodes"].as_u64().is_none_or(|inodes| inodes == 0), "{data}");
        Ok(())
    })
    .await?;
    let requested = driver.last("NodeGetVolumeStats").context("the agent sent no request to the driver")?;
    ensure!(requested.path.ends_with("/volumes/kubernetes.io~csi/data/mount"), "{requested:?}");
    let metrics = node.kubectl(&["get", "--raw", &path("/metrics")]).await?;
    let method = "method_name=\"/csi.v1.Node/NodeGetVolumeStats\"";
    let counted = |line: &str| line.starts_with("csi_operations_seconds_count") && line.contains(method);
    ensure!(metrics.lines().any(counted), "the call was not counted");
    ensure!(metrics.contains(&format!("metric_source=\"{name}\"")), "the time was not counted");
    node.kubectl(&["delete", "pod", "web"]).await?;
    node.kubectl(&["delete", "csidriver", &name]).await?;
    node.end()
}
