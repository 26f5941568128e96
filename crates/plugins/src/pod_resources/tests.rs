use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tokio::sync::oneshot;
use tonic::Code;

use super::*;
use crate::connect::dial;

struct FixedPodResources;

impl PodResources for FixedPodResources {
    fn list(&self, _: ContractVersion) -> Vec<AllocatedPod> {
        vec![web()]
    }

    fn get(&self, namespace: &str, name: &str) -> Option<AllocatedPod> {
        Some(web()).filter(|pod| pod.namespace == namespace && pod.name == name)
    }

    fn allocatable_cpus(&self) -> Vec<u32> {
        vec![1, 2]
    }

    fn allocatable_memory(&self) -> Vec<AllocatedMemory> {
        vec![AllocatedMemory { kind: "memory".to_owned(), size: 7, nodes: vec![0, 1] }]
    }

    fn allocatable_devices(&self) -> Vec<AllocatedDevice> {
        [Some(1), None]
            .map(|node| AllocatedDevice { resource: "v.com/x".into(), id: "a".into(), node })
            .to_vec()
    }
}

fn web() -> AllocatedPod {
    let container = |name: &str, cpus| AllocatedContainer {
        name: name.to_owned(),
        cpus,
        ..AllocatedContainer::default()
    };
    let containers = vec![container("sidecar", vec![]), container("main", vec![1, 3])];
    AllocatedPod { name: "web".to_owned(), namespace: "default".to_owned(), containers }
}

#[tokio::test]
async fn serves_both_api_versions_on_one_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("pod-resources/kubelet.sock");
    // A stale socket of a killed agent is replaced.
    std::fs::create_dir(folder.path().join("pod-resources")).unwrap();
    std::fs::write(&socket, "").unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let path = socket.clone();
    let server = tokio::spawn(async move {
        serve_pod_resources(&path, Arc::new(FixedPodResources), async { drop(stopped.await) }).await
    });
    let channel = loop {
        match dial(&socket).await {
            Ok(channel) => break channel,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let mut client = v1::pod_resources_lister_client::PodResourcesListerClient::new(channel.clone());
    let listed = client.list(v1::ListPodResourcesRequest {}).await.unwrap().into_inner();
    let names: Vec<&str> =
        listed.pod_resources[0].containers.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["sidecar", "main"]);
    let request = |name: &str| v1::GetPodResourcesRequest {
        pod_name: name.to_owned(),
        pod_namespace: "default".to_owned(),
    };
    let got = client.get(request("web")).await.unwrap().into_inner();
    let web = got.pod_resources.unwrap();
    assert_eq!((web.name.as_str(), web.containers[1].cpu_ids.as_slice()), ("web", [1, 3].as_slice()));
    let missing = client.get(request("other")).await.unwrap_err();
    assert_eq!(missing.code(), Code::Unknown);
    assert_eq!(missing.message(), "pod other in namespace default not found");
    let allocatable = client.get_allocatable_resources(v1::AllocatableResourcesRequest {}).await.unwrap();
    let allocatable = allocatable.into_inner();
    assert_eq!(allocatable.cpu_ids, [1, 2]);
    assert_eq!((allocatable.memory[0].memory_type.as_str(), allocatable.memory[0].size), ("memory", 7));
    let devices: Vec<_> = allocatable.devices.iter().map(|device| device.topology.as_ref()).collect();
    assert_eq!(devices[0].map(|topology| topology.nodes[0].id), Some(1));
    assert_eq!(devices[1], None);
    let nodes = &allocatable.memory[0].topology.as_ref().unwrap().nodes;
    assert_eq!(nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [0, 1]);
    let mut old = v1alpha1::pod_resources_lister_client::PodResourcesListerClient::new(channel);
    let listed = old.list(v1alpha1::ListPodResourcesRequest {}).await.unwrap().into_inner();
    assert_eq!(listed.pod_resources[0].namespace, "default");
    drop((client, old));
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}

/// As Go clients that dial the socket by its path.
#[tokio::test]
async fn accepts_socket_path_as_authority() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kubelet.sock");
    let path = socket.clone();
    let server = tokio::spawn(async move {
        serve_pod_resources(&path, Arc::new(FixedPodResources), std::future::pending()).await
    });
    let mut connection = loop {
        match tokio::net::UnixStream::connect(&socket).await {
            Ok(connection) => break connection,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    // POST, http, and literals whose names are entries 1, 4 and 31 (15 + 16) of HPACK's static table.
    let mut block = vec![0x83, 0x86];
    let literals: [(&[u8], &str); 3] = [
        (&[1], "%2Fvar%2Flib%2Fkubelet%2Fpod-resources%2Fkubelet.sock"),
        (&[4], "/v1.PodResourcesLister/List"),
        (&[15, 16], "application/grpc"),
    ];
    for (name, value) in literals {
        block.extend_from_slice(name);
        block.push(u8::try_from(value.len()).unwrap());
        block.extend_from_slice(value.as_bytes());
    }
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    request.extend([0, 0, u8::try_from(block.len()).unwrap(), 0x1, 0x4, 0, 0, 0, 1]);
    request.extend(block);
    // An empty message ends the request.
    request.extend([0, 0, 5, 0x0, 0x1, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    connection.write_all(&request).await.unwrap();
    let mut response = Vec::new();
    while !response.windows(3).any(|bytes| bytes == b"web") {
        let read = tokio::time::timeout(Duration::from_secs(10), connection.read_buf(&mut response)).await;
        let count = read.expect("an answer before the timeout").unwrap();
        assert!(count > 0, "the server closed the connection: {response:?}");
    }
    server.abort();
}

#[tokio::test]
async fn creates_folder_with_mode_0750() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("pod-resources/kubelet.sock");
    let _listener = bind(&socket).unwrap();
    let mode = std::fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    assert!(socket.exists());
}

#[tokio::test(start_paused = true)]
async fn limits_rate_of_calls() {
    let limit = UnaryLimit::default();
    assert_eq!((0..50).filter(|_| limit.check().is_ok()).count(), 10);
    tokio::time::advance(Duration::from_millis(50)).await;
    assert_eq!((0..50).filter(|_| limit.check().is_ok()).count(), 5);
}
