//! Admission on a node with 5,000 devices: 500 pods get ten each, aligned with NUMA nodes, from a real plugin on a real socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::metrics::Metrics;
use agent::pipeline::device_plugins::{self, DevicePluginsDeps};
use agent::pipeline::exclusive_cpus::ExclusiveCpus;
use agent::pipeline::managed_resources::ManagedResources;
use agent::pipeline::pinned_memory::PinnedMemory;
use agent::pipeline::plugin_devices::{PluginDevices, PluginDevicesDeps};
use decide::topology::{Alignment, AlignmentOptions, AlignmentPolicy, AlignmentScope};
use host::StateFiles;
use model::{NumaMask, NumaNode, PluginDevice, Pod, PodSource};
use plugins::{GrpcDevicePluginConnector, serve_device_registration};
use serde_json::json;
use testkit::builders;
use testkit::device_plugin::{DevicePluginOptions, TestDevicePlugin};
use testkit::poll::eventually;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const RESOURCE: &str = "vendor.com/x";
const DEVICES: usize = 5_000;
const PODS: usize = 500;
const NODES: usize = 8;
/// Limit of one admission.
const ADMISSION: Duration = Duration::from_millis(5);

fn device(number: usize) -> PluginDevice {
    PluginDevice {
        id: format!("device-{number:04}"),
        health: "Healthy".to_owned(),
        nodes: vec![i64::try_from(number % NODES).unwrap()],
    }
}

fn pod(number: usize) -> Pod {
    let amount = json!({RESOURCE: (DEVICES / PODS).to_string()});
    let resources = json!({"limits": amount, "requests": amount});
    let container = json!({"name": "main", "resources": resources});
    builders::pod(&format!("pod-{number}"), PodSource::Api, json!({"containers": [container]}))
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a benchmark"]
async fn five_hundred_pods_share_five_thousand_devices() {
    let folder = tempfile::Builder::new().prefix("podward-devices-").tempdir().unwrap();
    let metrics = Arc::new(Metrics::new());
    let numa: Vec<_> =
        (0..NODES).map(|id| NumaNode { id: i32::try_from(id).unwrap(), ..NumaNode::default() }).collect();
    let devices = PluginDevices::restore(PluginDevicesDeps {
        connector: Arc::new(GrpcDevicePluginConnector),
        folder: folder.path().to_owned(),
        files: Arc::new(StateFiles::new(folder.path())),
        machine: NumaMask::of(numa.iter().map(|node| node.id)),
        metrics: metrics.clone(),
    })
    .await;
    let alignment = Alignment::new(
        AlignmentPolicy::BestEffort,
        AlignmentScope::Container,
        AlignmentOptions::default(),
        &numa,
    );
    let (cpus, memory) = (ExclusiveCpus::default(), PinnedMemory::default());
    let managed =
        ManagedResources::new(Some(alignment.unwrap()), cpus, memory, metrics).with_devices(devices.clone());
    let cancel = CancellationToken::new();
    let reports = watch::Sender::default();
    let stage = DevicePluginsDeps { devices: devices.clone(), reports };
    let stage = tokio::spawn(device_plugins::run(stage, cancel.clone()));
    let (socket, registry, stop) =
        (folder.path().join("kubelet.sock"), Arc::new(devices.clone()), cancel.clone());
    let server =
        tokio::spawn(async move { serve_device_registration(&socket, registry, stop.cancelled()).await });

    let mut plugin = TestDevicePlugin::new(RESOURCE, folder.path(), &[], DevicePluginOptions::default());
    plugin.set_devices((0..DEVICES).map(device).collect());
    plugin.start().unwrap();
    eventually("all devices are healthy", Duration::from_secs(60), async || {
        let found = devices.counts().get(RESOURCE).map(|count| count.allocatable);
        anyhow::ensure!(found == Some(DEVICES), "{found:?}");
        Ok(())
    })
    .await
    .unwrap();

    let (mut admissions, mut saves) = (Vec::new(), Vec::new());
    for number in 0..PODS {
        let pod = pod(number);
        let started = Instant::now();
        managed.admit(&pod).await.unwrap();
        admissions.push(started.elapsed());
        let started = Instant::now();
        devices.flush().await.unwrap();
        saves.push(started.elapsed());
    }
    assert!(managed.admit(&pod(PODS)).await.is_err(), "no device is left");
    cancel.cancel();
    stage.await.unwrap();
    server.await.unwrap().unwrap();

    for (what, times) in [("admission", &mut admissions), ("saving the owners", &mut saves)] {
        times.sort();
        let [median, p99] = [50, 99].map(|percent| percentile(times, percent));
        println!("{what}: median {median:.1?}, 99 % {p99:.1?}, longest {:.1?}", times[times.len() - 1]);
    }
    let p99 = percentile(&admissions, 99);
    assert!(p99 < ADMISSION, "99 % of the admissions took up to {p99:?}, the limit is {ADMISSION:?}");
}
