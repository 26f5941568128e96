use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

const HEAD: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n\
    ::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\n\
    fe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

fn names(spec: Value) -> Result<(String, String), String> {
    hostname_and_domain(&pod(spec), &settings())
}

#[test]
fn maps_every_address_to_hostname() {
    let pod = pod(json!({"containers": []}));
    let ips = ["10.0.0.2".to_owned(), "fd00::2".to_owned()];
    assert_eq!(hosts_file(&pod, &ips, "h", "", None), format!("{HEAD}10.0.0.2\th\nfd00::2\th\n"));
    assert_eq!(
        hosts_file(&pod, &ips[..1], "h", "sub.ns.svc.cluster.local", None),
        format!("{HEAD}10.0.0.2\th.sub.ns.svc.cluster.local\th\n")
    );
}

#[test]
fn appends_host_aliases() {
    let pod = pod(json!({
        "containers": [], "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "b"]}, {"ip": "::2"}],
    }));
    assert_eq!(
        hosts_file(&pod, &["10.0.0.2".to_owned()], "h", "", None),
        format!("{HEAD}10.0.0.2\th\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n::2\t\n")
    );
}

#[test]
fn host_network_pod_gets_node_hosts_file() {
    let pod = pod(json!({
        "containers": [], "hostNetwork": true, "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}],
    }));
    assert_eq!(
        hosts_file(&pod, &[], "h", "", Some("127.0.0.1 node\n")),
        "# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n\
         \n# Entries added by HostAliases.\n1.2.3.4\ta\n"
    );
}

#[test]
fn mounts_hosts_file_once_address_is_known() {
    let plain: Container = serde_json::from_value(json!({"name": "c"})).unwrap();
    let own: Container = serde_json::from_value(
        json!({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/etc/hosts"}]}),
    )
    .unwrap();
    let ips = ["10.0.0.2".to_owned()];
    let in_pod = pod(json!({"containers": []}));
    let on_host = pod(json!({"containers": [], "hostNetwork": true}));
    assert!(!needs_hosts_mount(&in_pod, &plain, &[]));
    assert!(needs_hosts_mount(&in_pod, &plain, &ips));
    assert!(needs_hosts_mount(&on_host, &plain, &[]));
    assert!(!needs_hosts_mount(&in_pod, &own, &ips));
}

#[test]
fn derives_hostname_from_spec_or_pod_name() {
    let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
    assert_eq!(names(json!({"containers": []})), pair("p", ""));
    assert_eq!(names(json!({"containers": [], "hostname": "h"})), pair("h", ""));
    assert_eq!(
        names(json!({"containers": [], "hostname": "h", "subdomain": "s"})),
        pair("h", "s.default.svc.cluster.local")
    );
    let overridden =
        json!({"containers": [], "hostname": "h", "subdomain": "s", "hostnameOverride": "x.example.org"});
    assert_eq!(names(overridden), pair("x.example.org", ""));
    for (field, expected) in [
        ("hostname", "pod Hostname \"Not-A_Label\" is not a valid DNS label"),
        ("subdomain", "pod Subdomain \"Not-A_Label\" is not a valid DNS label"),
        ("hostnameOverride", "pod HostnameOverride \"Not-A_Label\" is not a valid DNS subdomain"),
    ] {
        let mut spec = json!({"containers": []});
        spec[field] = json!("Not-A_Label");
        assert_eq!(names(spec).unwrap_err(), expected);
    }
    let mut without = settings();
    without.gates.hostname_override = false;
    let pod = pod(json!({"containers": [], "hostname": "h", "hostnameOverride": "x"}));
    assert_eq!(hostname_and_domain(&pod, &without), pair("h", ""));
}

#[test]
fn truncates_long_hostnames() {
    let mut pod = pod(json!({"containers": []}));
    pod.full_name.name = format!("{}.-{}", "a".repeat(61), "b".repeat(20));
    assert_eq!(hostname_and_domain(&pod, &settings()).unwrap().0, "a".repeat(61));
    pod.full_name.name = "a".repeat(64);
    assert_eq!(hostname_and_domain(&pod, &settings()).unwrap().0, "a".repeat(63));
}

#[test]
fn kernel_hostname_is_fqdn_if_requested() {
    let short = pod(json!({"containers": []}));
    let full = pod(json!({"containers": [], "setHostnameAsFQDN": true}));
    assert_eq!(kernel_hostname(&short, "h", "d").unwrap(), "h");
    assert_eq!(kernel_hostname(&full, "h", "d").unwrap(), "h.d");
    assert_eq!(kernel_hostname(&full, "h", "").unwrap(), "h");
    assert_eq!(kernel_hostname(&full, &"h".repeat(32), &"d".repeat(31)).unwrap().len(), 64);
    let problem = kernel_hostname(&full, &"h".repeat(32), &"d".repeat(32)).unwrap_err();
    assert!(
        problem.ends_with("is too long (64 characters is the max, 65 characters requested)"),
        "{problem}"
    );
}
