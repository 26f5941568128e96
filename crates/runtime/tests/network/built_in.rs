//! The built-in network: bridge, masquerading, host ports.

use std::net::IpAddr;

use runtime::network::*;

use crate::node::*;

const V4: &str = "10.85.0.0/24";
const BOTH: &str = "10.85.0.0/24 fd85::/64";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn port(text: &str) -> PortMapping {
    let (protocol, rest) = text.split_once(' ').unwrap();
    let (host, container_port) = rest.split_once(" to ").unwrap();
    let (host_ip, host_port) = host.rsplit_once(':').unwrap_or(("", host));
    let protocol = PortProtocol::ALL.into_iter().find(|known| known.name() == protocol).unwrap();
    PortMapping {
        protocol,
        container_port: container_port.parse().unwrap(),
        host_port: host_port.parse().unwrap(),
        host_ip: (!host_ip.is_empty()).then(|| ip(host_ip)),
    }
}

#[test]
#[ignore = "needs root"]
fn pods_reach_each_other_the_node_and_the_outside() {
    require_root();
    on_node(async |node| {
        let outside = node.outside().await;
        let networks = node.networks(BOTH);
        let (one, two) = (node.pod("one").await, node.pod("two").await);
        let first = networks.set_up(&one).await.unwrap();
        assert_eq!((first.primary, first.additional.as_slice()), (ip("10.85.0.2"), &[ip("fd85::2")][..]));
        let second = networks.set_up(&two).await.unwrap();
        assert_eq!(second.primary, ip("10.85.0.3"));

        serve(&two.netns, "[::]:80");
        enter(&one.netns, || {
            for (server, client) in [("10.85.0.3:80", "::ffff:10.85.0.2"), ("[fd85::3]:80", "fd85::2")] {
                assert_eq!(ask_tcp(server).unwrap(), ip(client));
                assert_eq!(ask_udp(server).unwrap(), ip(client));
            }
        });
        // From the node, and to the node.
        assert_eq!(ask_tcp("10.85.0.3:80").unwrap(), ip("::ffff:10.85.0.1"));
        assert_eq!(ask_tcp("[fd85::3]:80").unwrap(), ip("fd85::1"));
        serve(std::path::Path::new("/proc/thread-self/ns/net"), "[::]:81");
        assert_eq!(enter(&one.netns, || ask_tcp("10.85.0.1:81")).unwrap(), ip("::ffff:10.85.0.2"));
        assert_eq!(enter(&one.netns, || ask_tcp("192.0.2.1:81")).unwrap(), ip("::ffff:10.85.0.2"));
        // Masqueraded.
        serve(&outside, "[::]:82");
        assert_eq!(enter(&one.netns, || ask_tcp("192.0.2.2:82")).unwrap(), ip("::ffff:192.0.2.1"));
        assert_eq!(enter(&one.netns, || ask_udp("192.0.2.2:82")).unwrap(), ip("::ffff:192.0.2.1"));
        assert_eq!(enter(&one.netns, || ask_tcp("[2001:db8::2]:82")).unwrap(), ip("2001:db8::1"));
    });
}

#[test]
#[ignore = "needs root"]
fn host_ports_lead_to_the_pod_from_everywhere() {
    require_root();
    // Whether bridged packets pass the rules of the node, which kube-proxy needs, or not.
    for bridged_packets_pass_rules in ["0", "1"] {
        host_ports_lead_to_the_pod(bridged_packets_pass_rules);
    }
}

fn host_ports_lead_to_the_pod(bridged_packets_pass_rules: &'static str) {
    on_node(async move |node| {
        for name in ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"] {
            let setting = std::path::Path::new("/proc/sys/net/bridge").join(name);
            if setting.exists() {
                std::fs::write(setting, bridged_packets_pass_rules).unwrap();
            }
        }
        let outside = node.outside().await;
        let networks = node.networks(BOTH);
        let mut server = node.pod("server").await;
        server.port_mappings =
            ["tcp 8080 to 80", "udp 8080 to 80", "tcp 192.0.2.1:9090 to 80"].map(port).to_vec();
        networks.set_up(&server).await.unwrap();
        let client = node.pod("client").await;
        networks.set_up(&client).await.unwrap();
        serve(&server.netns, "[::]:80");

        // By the node's address from outside: the pod sees the real client.
        enter(&outside, || {
            assert_eq!(ask_tcp("192.0.2.1:8080").unwrap(), ip("::ffff:192.0.2.2"));
            assert_eq!(ask_udp("192.0.2.1:8080").unwrap(), ip("::ffff:192.0.2.2"));
            assert_eq!(ask_tcp("[2001:db8::1]:8080").unwrap(), ip("2001:db8::2"));
            assert_eq!(ask_tcp("192.0.2.1:9090").unwrap(), ip("::ffff:192.0.2.2"));
        });
        // On the node, also by 127.0.0.1.
        for address in ["127.0.0.1:8080", "192.0.2.1:8080", "10.85.0.1:8080"] {
            assert!(ask_tcp(address).is_ok(), "tcp {address}");
            assert!(ask_udp(address).is_ok(), "udp {address}");
        }
        assert!(ask_tcp("[2001:db8::1]:8080").is_ok());
        assert!(ask_tcp("127.0.0.1:9090").is_err(), "the host port is limited to another address");
        // From another pod and from the pod itself.
        for pod in [&client, &server] {
            enter(&pod.netns, || {
                assert!(ask_tcp("192.0.2.1:8080").is_ok(), "{}", pod.name);
                assert!(ask_udp("192.0.2.1:8080").is_ok(), "{}", pod.name);
                assert!(ask_tcp("[2001:db8::1]:8080").is_ok(), "{}", pod.name);
            });
        }
        networks.tear_down(&server).await.unwrap();
        assert!(enter(&outside, || ask_tcp("192.0.2.1:8080")).is_err());
    });
}

#[test]
#[ignore = "needs root"]
fn tear_down_leaves_nothing_and_can_be_repeated() {
    require_root();
    on_node(async |node| {
        let networks = node.networks(V4);
        let mut pod = node.pod("one").await;
        pod.port_mappings = vec![port("tcp 8080 to 80"), port("udp 53 to 53")];
        networks.set_up(&pod).await.unwrap();
        let error = networks.set_up(&pod).await.unwrap_err().to_string();
        assert_eq!(error, "set up the network of pod default/one: the sandbox already has a network");
        remove_pinned_namespace(&pod.netns).await.unwrap();
        for _ in 0..2 {
            networks.tear_down(&pod).await.unwrap();
        }
        networks.remove_unused().await.unwrap();
        assert_eq!(node.left_overs(), Vec::<String>::new());
    });
}

#[test]
#[ignore = "needs root"]
fn failed_set_up_names_the_reason_and_leaves_nothing() {
    require_root();
    on_node(async |node| {
        let networks = node.networks("10.85.0.0/29");
        let mut owner = node.pod("owner").await;
        owner.port_mappings = vec![port("tcp 8080 to 80")];
        networks.set_up(&owner).await.unwrap();
        let mut other = node.pod("other").await;
        other.port_mappings = vec![port("udp 8080 to 80"), port("tcp 192.0.2.1:8080 to 80")];
        let error = networks.set_up(&other).await.unwrap_err().to_string();
        let expected = "set up the network of pod default/other: \
            host port 192.0.2.1:8080/tcp is already used by pod default/owner";
        assert_eq!(error, expected);
        networks.tear_down(&owner).await.unwrap();
        networks.set_up(&other).await.unwrap();
        networks.tear_down(&other).await.unwrap();

        let mut pods = Vec::new();
        for number in 0..5 {
            pods.push(node.pod(&format!("pod-{number}")).await);
            networks.set_up(&pods[number]).await.unwrap();
        }
        let error = networks.set_up(&other).await.unwrap_err().to_string();
        assert!(error.ends_with("no free address in 10.85.0.0/29: pods use 5"), "{error}");
        networks.tear_down(&pods[3]).await.unwrap();
        networks.set_up(&other).await.unwrap();

        remove_pinned_namespace(&pods[0].netns).await.unwrap();
        networks.tear_down(&pods[0]).await.unwrap();
        let error = networks.set_up(&pods[0]).await.unwrap_err().to_string();
        assert!(error.contains("open network namespace"), "{error}");
        std::fs::write(&pods[0].netns, "").unwrap();
        assert!(networks.set_up(&pods[0]).await.is_err(), "a file that is not a namespace");
        for pod in pods.iter().chain([&other]) {
            networks.tear_down(pod).await.unwrap();
        }
        networks.remove_unused().await.unwrap();
        assert_eq!(node.left_overs(), Vec::<String>::new());
    });
}

#[test]
#[ignore = "needs root"]
fn two_hundred_pods_in_parallel_leave_nothing() {
    require_root();
    on_node(async |node| {
        let networks = node.networks(BOTH);
        for round in 0..20u16 {
            let mut pods = Vec::new();
            for number in 0..10 {
                let mut pod = node.pod(&format!("pod-{round}-{number}")).await;
                let host_port = 9000 + number;
                pod.port_mappings = PortProtocol::ALL
                    .map(|protocol| PortMapping { protocol, host_port, ..port("tcp 1 to 80") })
                    .to_vec();
                pods.push(pod);
            }
            let set_up = futures::future::join_all(pods.iter().map(|pod| networks.set_up(pod))).await;
            let mut addresses: Vec<IpAddr> =
                set_up.into_iter().map(|result| result.unwrap().primary).collect();
            addresses.sort();
            addresses.dedup();
            assert_eq!(addresses.len(), 10);
            let torn_down = futures::future::join_all(pods.iter().map(|pod| networks.tear_down(pod))).await;
            torn_down.into_iter().for_each(|result| result.unwrap());
            for pod in &pods {
                remove_pinned_namespace(&pod.netns).await.unwrap();
            }
        }
        assert!(!run_program("nft", &["list", "table", "inet", "podward"]).contains(" . 90"));
        networks.remove_unused().await.unwrap();
        assert_eq!(node.left_overs(), Vec::<String>::new());
    });
}

#[test]
#[ignore = "needs root"]
fn flushed_rules_and_a_removed_bridge_are_repaired() {
    require_root();
    on_node(async |node| {
        let outside = node.outside().await;
        let networks = node.networks(V4);
        let mut server = node.pod("server").await;
        server.port_mappings = vec![port("tcp 8080 to 80")];
        networks.set_up(&server).await.unwrap();
        serve(&server.netns, "[::]:80");
        run_program("nft", &["add", "table", "inet", "other"]);
        run_program("nft", &["delete", "table", "inet", "podward"]);
        networks.readiness().await.unwrap();
        assert!(enter(&outside, || ask_tcp("192.0.2.1:8080")).is_ok());
        // The set-up and the tear-down of another pod repair it as well.
        let mut other = node.pod("other").await;
        other.port_mappings = vec![port("tcp 8081 to 80")];
        run_program("nft", &["delete", "table", "inet", "podward"]);
        networks.set_up(&other).await.unwrap();
        assert!(enter(&outside, || ask_tcp("192.0.2.1:8080")).is_ok());
        run_program("nft", &["delete", "table", "inet", "podward"]);
        networks.tear_down(&other).await.unwrap();
        assert!(enter(&outside, || ask_tcp("192.0.2.1:8080")).is_ok());
        assert!(run_program("nft", &["list", "tables"]).contains("inet other"));
        networks.tear_down(&server).await.unwrap();

        run_program("ip", &["link", "delete", "podward0"]);
        networks.set_up(&other).await.unwrap();
        run_program("ip", &["link", "delete", "podward0"]);
        run_program("ip", &["link", "add", "podward0", "type", "veth", "peer", "name", "not-a-bridge"]);
        assert_eq!(
            networks.readiness().await.unwrap_err(),
            "pod network: bridge podward0 is a link of another kind"
        );
    });
}

#[test]
#[ignore = "needs root"]
fn udp_flows_follow_the_host_port_to_the_next_pod() {
    require_root();
    on_node(async |node| {
        let outside = node.outside().await;
        let networks = node.networks(V4);
        let socket = enter(&outside, || std::net::UdpSocket::bind("192.0.2.2:5000").unwrap());
        let address = "192.0.2.1:5353".parse().unwrap();
        let ask = |timeout: u64| ask_from(&socket, address, std::time::Duration::from_millis(timeout));
        // A flow to the node itself, before the host port exists.
        assert!(ask(100).is_err());
        for name in ["first", "second"] {
            let mut pod = node.pod(name).await;
            pod.port_mappings = vec![port("udp 5353 to 53")];
            networks.set_up(&pod).await.unwrap();
            serve(&pod.netns, "0.0.0.0:53");
            assert_eq!(ask(20_000).unwrap(), ip("192.0.2.2"), "{name}");
            networks.tear_down(&pod).await.unwrap();
        }
    });
}

#[test]
#[ignore = "needs root"]
fn pods_cannot_reach_loopback_addresses_of_the_node() {
    require_root();
    on_node(async |node| {
        let networks = node.networks(V4);
        let pod = node.pod("pod").await;
        networks.set_up(&pod).await.unwrap();
        serve(std::path::Path::new("/proc/thread-self/ns/net"), "0.0.0.0:90");
        enter(&pod.netns, || {
            // As a pod with raw sockets could do it.
            run_program("ip", &["address", "delete", "127.0.0.1/8", "dev", "lo"]);
            run_program("ip", &["route", "add", "127.0.0.1", "via", "10.85.0.1"]);
            std::fs::write("/proc/sys/net/ipv4/conf/eth0/route_localnet", "1").unwrap();
            assert!(ask_udp("10.85.0.1:90").is_ok());
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            let timeout = std::time::Duration::from_millis(300);
            assert!(ask_from(&socket, "127.0.0.1:90".parse().unwrap(), timeout).is_err());
        });
    });
}

#[test]
#[ignore = "needs root"]
fn recovery_keeps_live_pods_and_removes_the_others() {
    require_root();
    on_node(async |node| {
        let outside = node.outside().await;
        let networks = node.networks(V4);
        let (mut live, mut dead) = (node.pod("live").await, node.pod("dead").await);
        live.port_mappings = vec![port("tcp 8080 to 80")];
        dead.port_mappings = vec![port("tcp 8081 to 80")];
        networks.set_up(&live).await.unwrap();
        networks.set_up(&dead).await.unwrap();
        serve(&live.netns, "[::]:80");
        drop(networks);

        // Another range: the live pod keeps its address and its gateway.
        let networks = node.networks("10.99.0.0/24");
        networks.recover(&[LiveAttachment { sandbox_id: live.sandbox_id.clone() }]).await.unwrap();
        assert!(enter(&outside, || ask_tcp("192.0.2.1:8080")).is_ok());
        let error = node.pod("third").await;
        assert_eq!(networks.set_up(&error).await.unwrap().primary, ip("10.99.0.2"));
        assert!(enter(&error.netns, || ask_tcp("10.85.0.2:80")).is_ok());
        let ports = run_program("ip", &["-o", "link", "show", "master", "podward0"]);
        assert_eq!(ports.lines().count(), 2, "{ports}");
        for pod in [&live, &error] {
            networks.tear_down(pod).await.unwrap();
        }
        networks.set_pod_cidrs(vec!["10.99.0.0/24".parse().unwrap()]).await.unwrap();
        assert!(!run_program("ip", &["address"]).contains("10.85.0.1"));
        networks.remove_unused().await.unwrap();
        let links = run_program("ip", &["-o", "link"]);
        assert!(!links.contains("podward0") && !links.contains(": pw"), "{links}");
    });
}

#[test]
#[ignore = "needs root"]
fn bandwidth_annotations_limit_both_directions() {
    require_root();
    on_node(async |node| {
        let networks = node.networks(V4);
        let mut pod = node.pod("pod").await;
        let limits = [("kubernetes.io/ingress-bandwidth", "10M"), ("kubernetes.io/egress-bandwidth", "50G")];
        pod.annotations = limits.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        networks.set_up(&pod).await.unwrap();
        let ingress = run_program("tc", &["qdisc", "show"]);
        assert!(
            ingress.contains("tbf 1: dev pw") && ingress.contains("rate 10Mbit burst 128Kb"),
            "{ingress}"
        );
        let egress = enter(&pod.netns, || run_program("tc", &["qdisc", "show"]));
        assert!(egress.contains("tbf 1: dev eth0") && egress.contains("rate 50Gbit"), "{egress}");
        networks.tear_down(&pod).await.unwrap();
        pod.annotations = [("kubernetes.io/egress-bandwidth".to_owned(), "1".to_owned())].into();
        let error = networks.set_up(&pod).await.unwrap_err().to_string();
        assert!(error.contains("egress-bandwidth \"1\": unreasonably small"), "{error}");
    });
}

#[test]
#[ignore = "needs root"]
fn thousands_of_host_ports_fit_into_one_transaction() {
    require_root();
    on_node(async |node| {
        let networks = node.networks(BOTH);
        let mut pod = node.pod("pod").await;
        let ports = (1..=3000).map(|host_port| PortMapping { host_port, ..port("sctp 1 to 80") });
        pod.port_mappings = ports.collect();
        networks.set_up(&pod).await.unwrap();
        run_program("nft", &["delete", "table", "inet", "podward"]);
        networks.readiness().await.unwrap();
        let listed = run_program("nft", &["-n", "list", "map", "inet", "podward", "ports_ipv6"]);
        assert_eq!(listed.matches("132 . ").count(), 3000);
        networks.tear_down(&pod).await.unwrap();
        let listed = run_program("nft", &["-n", "list", "map", "inet", "podward", "ports_ipv6"]);
        assert_eq!(listed.matches("132 . ").count(), 0);
    });
}

#[test]
#[ignore = "needs root"]
fn bridge_belongs_to_one_state_folder() {
    require_root();
    on_node(async |node| {
        let networks = node.networks(V4);
        let pod = node.pod("pod").await;
        networks.set_up(&pod).await.unwrap();
        let other_settings = NetworkSettings { state_folder: node.path("other"), ..node.settings() };
        let other = PodNetworks::open(other_settings.clone()).unwrap();
        let state = node.path("state").display().to_string();
        let reason = other.readiness().await.unwrap_err();
        let expected = format!("bridge podward0 belongs to the pod networks in {state}: use another");
        assert!(reason.contains(&expected), "{reason}");
        assert!(other.recover(&[]).await.unwrap_err().to_string().contains(&expected));
        let second = node.pod("second").await;
        assert!(other.set_up(&second).await.unwrap_err().to_string().contains(&expected));
        serve(&pod.netns, "[::]:80");
        assert!(ask_tcp("10.85.0.2:80").is_ok());
        // Without its state folder, nothing needs the bridge any more.
        std::fs::remove_dir_all(node.path("state")).unwrap();
        other.recover(&[]).await.unwrap();
        other.set_up(&second).await.unwrap();
        assert!(ask_tcp("10.85.0.2:80").is_err());
    });
}

#[test]
#[ignore = "needs root"]
fn range_that_contains_an_address_of_the_node_is_refused() {
    require_root();
    on_node(async |node| {
        node.outside().await;
        let networks = node.networks("192.0.2.0/24");
        let reason = networks.readiness().await.unwrap_err();
        let expected = "the range of pod addresses 192.0.2.0/24 contains 192.0.2.1, which the node has outside of the bridge";
        assert!(reason.ends_with(expected), "{reason}");
        networks.set_pod_cidrs(vec![V4.parse().unwrap()]).await.unwrap();
        networks.readiness().await.unwrap();
    });
}

#[test]
#[ignore = "needs root"]
fn pods_take_the_packet_size_of_the_uplink() {
    require_root();
    on_node(async |node| {
        node.outside().await;
        let networks = node.networks(V4);
        let pod = node.pod("pod").await;
        networks.set_up(&pod).await.unwrap();
        let size = || enter(&pod.netns, || run_program("ip", &["-o", "link", "show", "eth0"]));
        assert!(size().contains(" mtu 1500 "), "without a default route");
        networks.tear_down(&pod).await.unwrap();
        run_program("ip", &["link", "set", "uplink", "mtu", "1400"]);
        run_program("ip", &["route", "add", "default", "via", "192.0.2.2"]);
        networks.set_up(&pod).await.unwrap();
        assert!(size().contains(" mtu 1400 "), "{}", size());
        networks.tear_down(&pod).await.unwrap();
        let networks = PodNetworks::open(NetworkSettings { mtu: Some(1300), ..node.settings() }).unwrap();
        networks.set_up(&pod).await.unwrap();
        assert!(size().contains(" mtu 1300 "), "{}", size());
    });
}
