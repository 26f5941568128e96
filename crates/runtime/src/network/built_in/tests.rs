use std::process::Command;
use std::thread;

use rustix::thread::UnshareFlags;

use super::*;
use crate::network::namespaces::{create, remove};
use crate::network::request::PortProtocol;

fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root");
}

/// Runs a test in a new network namespace, and a mount namespace in which pins disappear.
fn on_node(test: impl FnOnce() + Send + 'static) {
    let run = move || {
        #[expect(unsafe_code, reason = "rustix marks all kinds of unshare as unsafe")]
        // SAFETY: descriptors stay shared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }.unwrap();
        let private =
            rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).unwrap();
        test();
    };
    thread::spawn(run).join().unwrap();
}

fn program(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(name).args(arguments).output().unwrap();
    assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn open(folder: &std::path::Path) -> BuiltInNetwork {
    let mut settings = NetworkSettings::new(folder.to_owned());
    settings.pod_cidrs = vec!["10.85.0.0/24".parse().unwrap(), "fd85::/64".parse().unwrap()];
    BuiltInNetwork::open(&settings).unwrap()
}

fn request(netns: &std::path::Path) -> PodNetworkRequest {
    let port = PortMapping { protocol: PortProtocol::Udp, container_port: 53, host_port: 53, host_ip: None };
    PodNetworkRequest {
        sandbox_id: "sandbox".to_owned(),
        name: "pod".to_owned(),
        namespace: "default".to_owned(),
        netns: netns.to_owned(),
        port_mappings: vec![port],
        annotations: [("kubernetes.io/ingress-bandwidth".to_owned(), "10M".to_owned())].into(),
        ..PodNetworkRequest::default()
    }
}

/// The traces of a pod: its port, its records, its elements in maps.
fn left_overs(network: &BuiltInNetwork) -> Vec<String> {
    let links = program("ip", &["-o", "link"]);
    let mut left: Vec<String> =
        links.lines().filter(|line| line.contains(": pw")).map(str::to_owned).collect();
    let tables = program("nft", &["list", "ruleset"]);
    left.extend(tables.lines().filter(|line| line.contains("udp . 53")).map(str::to_owned));
    left.extend(network.reservations.addresses().unwrap().iter().map(|record| record.subject.to_string()));
    left.extend(network.reservations.ports().unwrap().iter().map(|record| record.subject.host_side()));
    left
}

#[test]
#[ignore = "needs root"]
fn recovers_from_a_crash_between_any_two_steps() {
    require_root();
    on_node(|| {
        let folder = tempfile::tempdir().unwrap();
        let pin = folder.path().join("netns");
        for is_recovered_by_tear_down in [false, true] {
            for steps in 0..=SetUpStep::ALL.len() {
                create(&pin).unwrap();
                let crashed = open(folder.path());
                let mut attachment = crashed.admit(&request(&pin)).unwrap();
                for step in &SetUpStep::ALL[..steps] {
                    crashed.perform(*step, &mut attachment).unwrap();
                }
                drop((crashed, attachment));
                let network = open(folder.path());
                if is_recovered_by_tear_down {
                    remove(&pin).unwrap();
                    network.tear_down("sandbox").unwrap();
                } else {
                    network.recover(&HashSet::new()).unwrap();
                    remove(&pin).unwrap();
                }
                assert_eq!(left_overs(&network), Vec::<String>::new(), "after {steps} steps");
            }
        }
    });
}

#[test]
#[ignore = "needs root"]
fn recovers_from_a_crash_during_tear_down() {
    require_root();
    on_node(|| {
        let folder = tempfile::tempdir().unwrap();
        let pin = folder.path().join("netns");
        // The tear-down has removed the records of host ports, but not yet their elements.
        for removed in ["host-ports", "addresses"] {
            create(&pin).unwrap();
            let crashed = open(folder.path());
            crashed.set_up(crashed.admit(&request(&pin)).unwrap()).unwrap();
            drop(crashed);
            for entry in std::fs::read_dir(folder.path().join(removed)).unwrap() {
                std::fs::remove_file(entry.unwrap().path()).unwrap();
            }
            let network = open(folder.path());
            network.tear_down("sandbox").unwrap();
            network.recover(&HashSet::new()).unwrap();
            assert_eq!(left_overs(&network), Vec::<String>::new(), "without {removed}");
            remove(&pin).unwrap();
        }
    });
}

#[test]
#[ignore = "needs root"]
fn writes_rules_that_nft_understands() {
    require_root();
    on_node(|| {
        let folder = tempfile::tempdir().unwrap();
        let network = open(folder.path());
        let owner = Owner { sandbox_id: "a".to_owned(), pod: "default/pod".to_owned() };
        for range in network.current_ranges() {
            network.reservations.reserve_address(range, &owner).unwrap();
        }
        // One element per set: nft prints more in any order.
        for (host_ip, protocol) in [("0.0.0.0", PortProtocol::Tcp), ("2001:db8::1", PortProtocol::Sctp)] {
            let host_ip = Some(host_ip.parse().unwrap());
            let port = PortMapping { protocol, container_port: 80, host_port: 8080, host_ip };
            network.reservations.reserve_ports(&[port], &owner).unwrap();
        }
        network.prepare_node().unwrap();
        let listed = program("nft", &["-n", "list", "table", "inet", "podward"]);
        assert_eq!(listed, include_str!("testdata/rules.nft"), "{listed}");
    });
}
