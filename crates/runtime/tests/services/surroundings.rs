//! Networks, streams, statistics and events of pods.

use cri::v1::*;
use futures::{SinkExt, StreamExt};
use runtime::network::NetworkSettings;
use rustix::thread::UnshareFlags;
use tokio_websockets::{ClientBuilder, Message};

use crate::node::Node;

/// Runs a test in a separate network namespace: the threads of an async runtime belong to the namespace of the thread that
/// starts it.
#[expect(unsafe_code, reason = "unshare has no safe wrapper")]
fn in_own_network(test: impl Future<Output = ()> + Send + 'static) {
    crate::node::require_root();
    let thread = std::thread::spawn(move || {
        // SAFETY: only the network namespace of this thread changes.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        let up = std::process::Command::new("/bin/busybox").args(["ip", "link", "set", "lo", "up"]).status();
        assert!(up.unwrap().success());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(test);
    });
    thread.join().unwrap();
}

/// Statistics and metrics have the pod's interface, and each metric has the labels of its description.
async fn check_network_statistics(node: &Node, sandbox: &str) {
    let request = PodSandboxStatsRequest { pod_sandbox_id: sandbox.to_owned() };
    let stats = node.runtime().pod_sandbox_stats(request).await.unwrap().into_inner().stats.unwrap();
    let interface = stats.linux.unwrap().network.unwrap().default_interface.unwrap();
    assert_eq!(interface.name, "eth0");
    let request = ListMetricDescriptorsRequest {};
    let descriptors = node.runtime().list_metric_descriptors(request).await.unwrap().into_inner().descriptors;
    let request = ListPodSandboxMetricsRequest {};
    let pods = node.runtime().list_pod_sandbox_metrics(request).await.unwrap().into_inner().pod_metrics;
    let pod = pods.iter().find(|pod| pod.pod_sandbox_id == sandbox).unwrap();
    assert_eq!(pod.container_metrics.len(), 1, "{pod:?}");
    let container = pod.container_metrics.first().unwrap();
    for metric in pod.metrics.iter().chain(&container.metrics) {
        let description = descriptors.iter().find(|found| found.name == metric.name);
        assert_eq!(description.unwrap().label_keys.len(), metric.label_values.len(), "{metric:?}");
    }
    let has = |metrics: &[Metric], name: &str| metrics.iter().any(|metric| metric.name == name);
    assert!(has(&pod.metrics, "container_network_receive_bytes_total"), "{pod:?}");
    for name in ["container_memory_working_set_bytes", "container_processes", "container_fs_usage_bytes"] {
        assert!(has(&container.metrics, name), "{name} is missing: {container:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn pod_gets_an_address_and_returns_it() {
    in_own_network(async {
        let mut node = Node::start().await;
        let mut settings = NetworkSettings::new(node.root().join("network"));
        // The machine's configuration must not replace the built-in network.
        settings.cni_config_folder = node.folder.path().join("no-cni");
        node.use_network(settings).await;
        let mut config = node.sandbox_config("a");
        config.port_mappings =
            vec![PortMapping { host_port: 8080, container_port: 80, ..PortMapping::default() }];
        let first = node.run_sandbox(&config).await;
        let second = node.run_sandbox(&node.sandbox_config("b")).await;
        let ip = |status: PodSandboxStatus| status.network.unwrap().ip;
        let (one, two) = (ip(node.sandbox_status(&first).await), ip(node.sandbox_status(&second).await));
        assert!(!one.is_empty() && one != two, "{one} {two}");
        let id = node.run(&first, &node.container_config("main", "sleep 1000")).await;
        let seen = node.exec_output(&id, "ip addr show eth0").await;
        assert!(seen.contains(&one), "{seen}");
        check_network_statistics(&node, &first).await;
        let status = node.runtime().status(StatusRequest::default()).await.unwrap().into_inner();
        assert!(status.status.unwrap().conditions.iter().all(|condition| condition.status));
        node.restart().await;
        assert_eq!(ip(node.sandbox_status(&first).await), one);
        node.stop_sandbox(&first).await;
        assert_eq!(ip(node.sandbox_status(&first).await), "");
        node.remove_sandbox(&first).await;
        node.remove_sandbox(&second).await;
        let reserved = node.root().join("network/addresses");
        assert_eq!(std::fs::read_dir(reserved).unwrap().count(), 0);
        node.assert_empty();
    });
}

#[tokio::test]
#[ignore = "needs root"]
async fn terminal_and_input_work_over_a_stream() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let config = ContainerConfig {
        stdin: true,
        command: ["sh", "-c", "read line; echo got $line; sleep 1000"].map(str::to_owned).into(),
        ..node.container_config("main", "")
    };
    let id = node.run(&sandbox, &config).await;
    let request = AttachRequest { container_id: id.clone(), stdin: true, stdout: true, ..Default::default() };
    let url = node.runtime().attach(request).await.unwrap().into_inner().url;
    assert!(talk(&url, Some("hello\n"), "got hello\n").await.contains("got hello"));
    let command = ["sh", "-c", "test -t 0 && echo on a terminal $TERM"].map(str::to_owned).into();
    let request = ExecRequest {
        container_id: id.clone(),
        cmd: command,
        tty: true,
        stdin: true,
        stdout: true,
        stderr: false,
    };
    let url = node.runtime().exec(request.clone()).await.unwrap().into_inner().url;
    assert!(talk(&url, None, "xterm").await.contains("on a terminal xterm"));
    let both = ExecRequest { stderr: true, ..request };
    let error = node.runtime().exec(both).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

/// Sends input, and returns the output up to the expected text or the end.
async fn talk(url: &str, input: Option<&str>, expected: &str) -> String {
    let protocol = http::header::HeaderValue::from_static("v4.channel.k8s.io");
    let client = ClientBuilder::new().uri(&url.replacen("http", "ws", 1)).unwrap();
    let client = client.add_header(http::header::SEC_WEBSOCKET_PROTOCOL, protocol).unwrap();
    let (mut socket, _) = client.connect().await.unwrap();
    if let Some(input) = input {
        socket.send(Message::binary([b"\0", input.as_bytes()].concat())).await.unwrap();
    }
    let mut output = String::new();
    while let Some(Ok(message)) = socket.next().await {
        if let [1, text @ ..] = &message.as_payload()[..] {
            output.push_str(&String::from_utf8_lossy(text));
        }
        if output.contains(expected) {
            break;
        }
    }
    output
}

#[tokio::test]
#[ignore = "needs root"]
async fn statistics_have_the_usage_of_the_cgroup() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let id = node.run(&sandbox, &node.container_config("main", "echo x > /tmp/file; sleep 1000")).await;
    let created = node.create(&sandbox, &node.container_config("other", "true")).await.unwrap();
    let list = node.runtime().list_container_stats(ListContainerStatsRequest::default()).await;
    let list = list.unwrap().into_inner().stats;
    assert_eq!(list.len(), 2);
    for stats in list {
        let running = stats.attributes.unwrap().id == id;
        assert_eq!(stats.cpu.is_some(), running);
        assert_eq!(stats.memory.is_some_and(|memory| memory.usage_bytes.unwrap().value > 0), running);
        assert!(stats.writable_layer.unwrap().timestamp > 0);
    }
    let request = PodSandboxStatsRequest { pod_sandbox_id: sandbox.clone() };
    let stats = node.runtime().pod_sandbox_stats(request).await.unwrap().into_inner().stats.unwrap();
    let linux = stats.linux.unwrap();
    assert_eq!(linux.containers.len(), 1);
    assert!(linux.process.unwrap().process_count.unwrap().value > 0);
    node.remove_container(&created).await;
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn events_follow_the_life_of_a_container() {
    let node = Node::start().await;
    let events = node.runtime().get_container_events(GetEventsRequest {}).await.unwrap().into_inner();
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let id = node.run(&sandbox, &node.container_config("main", "exit 3")).await;
    node.exited(&id).await;
    node.remove_sandbox(&sandbox).await;
    let events: Vec<_> = events.take(8).map(Result::unwrap).collect().await;
    assert!(events.iter().all(|event| event.pod_sandbox_status.as_ref().unwrap().metadata.is_some()));
    let kinds = |id: &str| -> Vec<ContainerEventType> {
        events
            .iter()
            .filter(|event| event.container_id == id)
            .map(ContainerEventResponse::container_event_type)
            .collect()
    };
    use ContainerEventType::{
        ContainerCreatedEvent as Created, ContainerDeletedEvent as Deleted, ContainerStartedEvent as Started,
        ContainerStoppedEvent as Stopped,
    };
    assert_eq!(kinds(&sandbox), [Created, Started, Stopped, Deleted]);
    // A short program may end before its start is reported.
    let mut of_container = kinds(&id);
    of_container.sort_unstable();
    assert_eq!(of_container, [Created, Started, Stopped, Deleted]);
}
