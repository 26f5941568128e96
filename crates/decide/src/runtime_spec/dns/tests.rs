#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

fn host() -> DnsConfig {
    parse_resolv_conf("nameserver 8.8.8.8\nsearch example.org lan\noptions edns0 timeout:2\n").unwrap()
}

fn config(servers: &[&str], searches: &[&str], options: &[&str]) -> DnsConfig {
    let owned = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect();
    DnsConfig { servers: owned(servers), searches: owned(searches), options: owned(options) }
}

fn check(fields: Value, settings: &NodeSettings, expected: &DnsConfig, reasons: &[&str]) {
    let mut spec = json!({"containers": []});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let (dns, warnings) = pod_dns(&pod(spec), settings, &host());
    assert_eq!(dns.as_ref(), Some(expected), "{fields}");
    assert_eq!(warnings.iter().map(|warning| warning.reason).collect::<Vec<_>>(), reasons, "{fields}");
}

fn cluster_dns() -> DnsConfig {
    let searches = ["default.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.org", "lan"];
    config(&["10.96.0.10"], &searches, &["ndots:5"])
}

fn host_dns() -> DnsConfig {
    config(&["8.8.8.8"], &["example.org", "lan"], &["edns0", "timeout:2"])
}

#[test]
fn parses_resolv_conf() {
    let text = "# nameserver 1.1.1.1\n; other comment\nnameserver 10.0.0.1 ignored\n\n  nameserver fd00::1\n\
                search a.example. .\nsearch b.example. c.example .\noptions ndots:2 rotate\noptions ndots:5\n\
                domain x\nnameserverx 9.9.9.9\n";
    let resolver = parse_resolv_conf(text).unwrap();
    assert_eq!(resolver.servers, ["10.0.0.1", "fd00::1"]);
    assert_eq!(resolver.searches, ["b.example", "c.example"]);
    assert_eq!(resolver.options, ["ndots:5", "rotate"]);
    assert_eq!(parse_resolv_conf(""), Ok(DnsConfig::default()));
    assert_eq!(parse_resolv_conf("\nnameserver\n").unwrap_err(), "line 2: nameserver without address");
}

#[test]
fn dns_policy_selects_source() {
    let settings = settings();
    check(json!({}), &settings, &cluster_dns(), &[]);
    check(json!({"dnsPolicy": "ClusterFirst"}), &settings, &cluster_dns(), &[]);
    check(json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), &settings, &host_dns(), &[]);
    check(
        json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}),
        &settings,
        &cluster_dns(),
        &[],
    );
    check(json!({"dnsPolicy": "Default"}), &settings, &host_dns(), &[]);
    check(json!({"dnsPolicy": "None"}), &settings, &DnsConfig::default(), &[]);
}

#[test]
fn falls_back_to_host_dns_without_cluster_dns() {
    let mut settings = settings();
    settings.cluster_dns.clear();
    check(
        json!({"dnsPolicy": "ClusterFirst"}),
        &settings,
        &host_dns(),
        &["MissingClusterDNS", "MissingClusterDNS"],
    );
    check(json!({"dnsPolicy": "Default"}), &settings, &host_dns(), &[]);
}

#[test]
fn keeps_host_searches_without_cluster_domain() {
    let mut settings = settings();
    settings.cluster_domain.clear();
    check(json!({}), &settings, &config(&["10.96.0.10"], &["example.org", "lan"], &["ndots:5"]), &[]);
}

#[test]
fn uses_loopback_without_resolv_conf() {
    let mut settings = settings();
    settings.resolv_conf.clear();
    check(json!({"dnsPolicy": "Default"}), &settings, &config(&["127.0.0.1", "::1"], &["."], &[]), &[]);
    let searches = ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"];
    check(json!({}), &settings, &config(&["10.96.0.10"], &searches, &["ndots:5"]), &[]);
    settings.addresses.clear();
    check(json!({"dnsPolicy": "Default"}), &settings, &config(&["127.0.0.1"], &["."], &[]), &[]);
}

#[test]
fn merges_pod_dns_config_without_duplicates() {
    let additions = json!({
        "nameservers": ["8.8.8.8", "1.1.1.1"], "searches": ["lan", "own.example"],
        "options": [{"name": "timeout", "value": "5"}, {"name": "rotate"}, {"name": "edns0"}],
    });
    check(
        json!({"dnsPolicy": "Default", "dnsConfig": additions}),
        &settings(),
        &config(
            &["8.8.8.8", "1.1.1.1"],
            &["example.org", "lan", "own.example"],
            &["edns0", "timeout:5", "rotate"],
        ),
        &[],
    );
}

#[test]
fn truncates_excess_servers() {
    check(
        json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"]}}),
        &settings(),
        &config(&["1.0.0.1", "1.0.0.2", "1.0.0.3"], &[], &[]),
        &["DNSConfigForming"],
    );
}

#[test]
fn truncates_excess_searches() {
    let cut = |searches: Vec<String>| {
        let spec = json!({"containers": [], "dnsPolicy": "None", "dnsConfig": {"searches": searches}});
        let (dns, warnings) = pod_dns(&pod(spec), &settings(), &host());
        (dns.unwrap().searches, warnings.len())
    };
    let many: Vec<String> = (0..40).map(|index| format!("d{index}")).collect();
    assert_eq!(cut(many.clone()), (many[..32].to_vec(), 1));
    assert_eq!(cut(many[..32].to_vec()), (many[..32].to_vec(), 0));
    assert_eq!(cut(vec!["a".repeat(254), "b".repeat(253)]), (vec!["b".repeat(253)], 1));
    let long: Vec<String> = (0..10).map(|index| index.to_string().repeat(250)).collect();
    assert_eq!(cut(long.clone()), (long[..8].to_vec(), 1));
}

#[test]
fn formats_warnings_like_upstream() {
    let mut settings = settings();
    settings.cluster_dns.clear();
    let pod = pod(json!({"containers": [], "dnsPolicy": "ClusterFirst", "dnsConfig": {
        "nameservers": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"], "searches": ["x".repeat(254)],
    }}));
    let host = DnsConfig { searches: vec!["a.example".to_owned()], ..DnsConfig::default() };
    let (_, warnings) = pod_dns(&pod, &settings, &host);
    let missing = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" \
                   policy. Falling back to \"Default\" policy.";
    let texts: Vec<_> = warnings.iter().map(|warning| (warning.subject, warning.message.as_str())).collect();
    assert_eq!(
        texts,
        [
            (WarningSubject::Node, missing),
            (WarningSubject::Pod, format!("pod: \"p_default(u)\". {missing}").as_str()),
            (
                WarningSubject::Pod,
                "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line \
                 is: 10.0.0.1 10.0.0.2 10.0.0.3"
            ),
            (
                WarningSubject::Pod,
                "Search Line limits were exceeded, some search paths have been omitted, the applied search line \
                 is: a.example"
            ),
        ]
    );
}

#[test]
fn reports_resolv_conf_limits() {
    let host = |searches: Vec<String>| DnsConfig { searches, ..DnsConfig::default() };
    let domains = |count: usize, length: usize| vec!["x".repeat(length); count];
    for (searches, domain, expected) in [
        (domains(32, 3), "", None),
        (domains(29, 3), "cluster.local", None),
        (
            domains(30, 3),
            "cluster.local",
            Some("Resolv.conf file '/r' contains search line consisting of more than 29 domains!"),
        ),
        (
            domains(1, 254),
            "",
            Some(
                "Resolv.conf file \"/r\" contains a search path which length is more than allowed 253 chars!",
            ),
        ),
        (
            domains(10, 250),
            "",
            Some("Resolv.conf file '/r' contains search line which length is more than allowed 2048 chars!"),
        ),
    ] {
        assert_eq!(resolv_conf_problem("/r", &host(searches), domain).as_deref(), expected);
    }
}
