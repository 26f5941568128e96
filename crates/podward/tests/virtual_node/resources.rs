//! The pod-resources socket.

use plugins::pod_resources_v1::pod_resources_lister_client::PodResourcesListerClient;
use plugins::pod_resources_v1::{GetPodResourcesRequest, ListPodResourcesRequest};

use crate::node::{VirtualNode, pod};

#[tokio::test]
async fn pod_resources_socket_lists_a_running_pod() {
    let node = VirtualNode::started();
    node.write("a.json", &pod("a", "uid-a", &["main", "side"]));
    node.until_running("uid-a").await;
    let socket = node.path("root/pod-resources/kubelet.sock");
    let mut client = PodResourcesListerClient::new(plugins::dial(&socket).await.unwrap());
    let listed = client.list(ListPodResourcesRequest {}).await.unwrap().into_inner().pod_resources;
    let [pod] = listed.as_slice() else { panic!("{listed:?}") };
    let containers: Vec<&str> = pod.containers.iter().map(|own| own.name.as_str()).collect();
    assert_eq!((pod.namespace.as_str(), containers), ("default", vec!["main", "side"]));
    let ask = GetPodResourcesRequest { pod_name: pod.name.clone(), pod_namespace: "default".to_owned() };
    let got = client.get(ask).await.unwrap().into_inner();
    assert_eq!(got.pod_resources.as_ref(), Some(pod));
}
