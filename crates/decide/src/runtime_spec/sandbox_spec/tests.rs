use model::{LinuxResources, NamespaceMode, SecurityProfile};
use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

fn spec_of(pod: &Pod) -> Result<SandboxSpec, String> {
    let settings = settings();
    sandbox_spec(&SandboxInputs {
        pod,
        attempt: 3,
        settings: &settings,
        dns: Some(DnsConfig { servers: vec!["10.96.0.10".into()], ..DnsConfig::default() }),
        user_namespace: model::UserNamespace::Node,
        volume_groups: &[],
        runtime_handler: "kata".into(),
    })
}

#[test]
fn builds_complete_sandbox_spec() {
    let mut pod = pod(json!({
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "9"}]},
    }));
    pod.metadata.labels = Some([("app".to_owned(), "x".to_owned())].into());
    pod.metadata.annotations = Some([("note".to_owned(), "y".to_owned())].into());
    let spec = spec_of(&pod).unwrap();
    assert_eq!((spec.name.as_str(), spec.namespace.as_str(), spec.uid.as_str()), ("p", "default", "u"));
    assert_eq!((spec.attempt, spec.hostname.as_str()), (3, "p"));
    assert_eq!(spec.log_directory, "/var/log/pods/default_p_u");
    assert_eq!(spec.dns.unwrap().servers, ["10.96.0.10"]);
    let labels: Vec<_> = spec.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        labels,
        [
            ("app", "x"),
            ("io.kubernetes.pod.name", "p"),
            ("io.kubernetes.pod.namespace", "default"),
            ("io.kubernetes.pod.uid", "u"),
        ]
    );
    assert_eq!(spec.annotations, [("note".to_owned(), "y".to_owned())].into());
    assert_eq!(spec.cgroup_parent, "/kubepods/burstable/podu");
    assert_eq!(spec.sysctls, [("net.core.somaxconn".to_owned(), "9".to_owned())].into());
    assert_eq!(spec.security.seccomp, Some(SecurityProfile::RuntimeDefault));
    assert_eq!(spec.resources.unwrap().cpu_shares, 1024);
    assert_eq!(spec.overhead, Some(LinuxResources::default()));
    assert_eq!(spec.runtime_handler, "kata");
}

#[test]
fn converts_sysctl_slashes_to_dots() {
    let names = |name: &str| {
        let sysctls = json!({"sysctls": [{"name": name, "value": "1"}]});
        let spec = spec_of(&pod(json!({"containers": [], "securityContext": sysctls}))).unwrap();
        spec.sysctls.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(names("kernel/shm_rmid_forced"), ["kernel.shm_rmid_forced"]);
    assert_eq!(names("net/ipv4/conf/eno2.100/rp_filter"), ["net.ipv4.conf.eno2/100.rp_filter"]);
    assert_eq!(names("net.core.somaxconn"), ["net.core.somaxconn"]);
}

#[test]
fn hostname_depends_on_network_and_fqdn() {
    let of = |fields: Value| {
        let mut spec = json!({"containers": []});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        spec_of(&pod(spec)).map(|spec| (spec.hostname, spec.security.namespaces.network))
    };
    assert_eq!(of(json!({"hostNetwork": true, "hostname": "h"})), Ok((String::new(), NamespaceMode::Node)));
    assert_eq!(of(json!({"hostname": "h"})), Ok(("h".into(), NamespaceMode::Pod)));
    assert_eq!(
        of(json!({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": true})),
        Ok(("h.s.default.svc.cluster.local".into(), NamespaceMode::Pod))
    );
    let long = json!({"hostname": "h".repeat(60), "subdomain": "s", "setHostnameAsFQDN": true});
    assert!(
        of(long).unwrap_err().starts_with("failed to construct FQDN from pod hostname and cluster domain")
    );
}

#[test]
fn maps_ports_of_regular_containers_once() {
    let pod = pod(json!({
        "initContainers": [{"name": "i", "ports": [{"containerPort": 1, "hostPort": 1}]}],
        "containers": [
            {"name": "a", "ports": [
                {"name": "x", "containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"},
                {"name": "x", "containerPort": 81},
                {"containerPort": 53, "protocol": "UDP"},
                {"containerPort": 53, "protocol": "UDP"},
                {"containerPort": 53, "protocol": "TCP"},
            ]},
            {"name": "b", "ports": [{"name": "x", "containerPort": 90, "protocol": "SCTP"}]},
        ],
    }));
    let ports: Vec<_> = spec_of(&pod)
        .unwrap()
        .port_mappings
        .into_iter()
        .map(|port| (port.protocol, port.container_port, port.host_port, port.host_ip))
        .collect();
    assert_eq!(
        ports,
        [
            (Protocol::Tcp, 80, 8080, "127.0.0.1".to_owned()),
            (Protocol::Udp, 53, 0, String::new()),
            (Protocol::Tcp, 53, 0, String::new()),
            (Protocol::Sctp, 90, 0, String::new()),
        ]
    );
}

#[test]
fn rejects_unsupported_settings() {
    assert!(spec_of(&pod(json!({"containers": [], "hostUsers": false}))).is_err());
    assert!(spec_of(&pod(json!({"containers": [], "hostname": "No"}))).is_err());
}
