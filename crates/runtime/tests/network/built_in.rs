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
    on_node(async |node| {
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
        assert_eq!(
            error,
            "set up the network of pod default/one: the sandbox already has the address 10.85.0.2"
        );
        remove_pinned_namespace(&pod.netns).await.unwrap();
        for _ in 0..2 {
            networks.tear_down(&pod).await.unwrap();
        }
        networks.remove_unused().await.unwrap();
        assert_eq!(node.left_overs(), Vec::<String>::new());
    });
}
