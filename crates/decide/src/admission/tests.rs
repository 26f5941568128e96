use model::{AdmissionSettings, AppArmor, ContainerState, KernelVersion, PodLevelResources, PodSource};
use serde_json::{Value, json};

use super::*;
use crate::test_objects::{container, observed};

/// A node that allows what most do.
pub(crate) fn settings() -> AdmissionSettings {
    AdmissionSettings {
        labels: [("kubernetes.io/os", "linux"), ("disk", "ssd"), ("rank", "7")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        allowed_unsafe_sysctls: vec!["net.core.somaxconn".into(), "kernel.msg*".into()],
        kernel: KernelVersion { major: 6, minor: 1 },
        apparmor: AppArmor::Disabled,
        pod_level_resources: PodLevelResources::Allowed,
        declared_features: None,
    }
}

struct Given {
    settings: NodeSettings,
    occupancy: Occupancy,
    strict_groups: StrictGroups,
    taints: Vec<Taint>,
    announced: ResourceAmounts,
    pressure: Pressure,
    shutdown: Shutdown,
}

impl Given {
    fn new() -> Self {
        Self {
            settings: crate::pod_paths::tests::settings(),
            occupancy: Occupancy::default(),
            strict_groups: StrictGroups::Supported,
            taints: Vec::new(),
            announced: ResourceAmounts::new(),
            pressure: Pressure::default(),
            shutdown: Shutdown::None,
        }
    }

    fn with(others: &[Arc<Pod>]) -> Self {
        let mut given = Self::new();
        for pod in others {
            given.occupancy.insert(pod);
        }
        given
    }

    fn admit(&self, pod: &Pod) -> Result<Vec<String>, (String, String)> {
        let Self { settings, occupancy, strict_groups, .. } = self;
        let node = Node {
            settings,
            labels: &settings.admission.labels,
            taints: &self.taints,
            announced: &self.announced,
            occupancy,
            strict_groups: *strict_groups,
            pressure: self.pressure,
            shutdown: self.shutdown,
        };
        let verdict = admit(pod, &node);
        verdict
            .map(|victims| victims.iter().map(|pod| pod.name().to_owned()).collect())
            .map_err(|rejection| (rejection.reason, rejection.message))
    }
}

fn pod(source: PodSource, name: &str, spec: Value) -> Arc<Pod> {
    let mut spec = spec;
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "a", "image": "i"}]);
    }
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": spec,
    });
    Pod::from_object(serde_json::from_value(object).unwrap(), source).unwrap().shared()
}

fn api(name: &str, spec: Value) -> Arc<Pod> {
    pod(PodSource::Api, name, spec)
}

fn fixed(name: &str, spec: Value) -> Arc<Pod> {
    pod(PodSource::File, name, spec)
}

fn requesting(cpu: &str) -> Value {
    json!({"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": cpu}}}]})
}

fn refused(given: &Given, pod: &Pod) -> String {
    given.admit(pod).unwrap_err().0
}

#[test]
fn a_plain_pod_is_admitted() {
    assert_eq!(Given::new().admit(&fixed("p", json!({}))), Ok(Vec::new()));
}

#[test]
fn what_pods_hold_is_told_with_what_there_is() {
    // 4 CPUs, one of them reserved.
    let given = Given::with(&[api("old", requesting("2500m"))]);
    assert_eq!(given.admit(&api("new", requesting("500m"))), Ok(Vec::new()));
    let (reason, message) = given.admit(&api("new", requesting("501m"))).unwrap_err();
    assert_eq!(reason, "OutOfcpu");
    assert_eq!(message, "Node didn't have enough resource: cpu, requested: 501, used: 2500, capacity: 3000");
}

#[test]
fn each_resource_has_its_reason_and_unknown_ones_belong_to_the_cluster() {
    for (resource, amount, reason) in [
        ("memory", "1Ti", Some("OutOfmemory")),
        ("ephemeral-storage", "1Ti", Some("OutOfephemeral-storage")),
        ("hugepages-1Gi", "1Gi", Some("OutOfhugepages-1Gi")),
        ("hugepages-2Mi", "2Mi", None),
        ("example.com/gpu", "1", None),
    ] {
        let spec = json!({"containers": [
            {"name": "a", "image": "i", "resources": {"requests": {resource: amount}}}
        ]});
        let verdict = Given::new().admit(&api("p", spec)).map_err(|(reason, _)| reason);
        assert_eq!(verdict.err().as_deref(), reason, "{resource}");
    }
}

#[test]
fn resources_announced_on_the_node_count() {
    let of = |name: &str, count: &str| {
        let resources = json!({"requests": {"example.com/gpu": count}, "limits": {"example.com/gpu": count}});
        api(name, json!({"containers": [{"name": "a", "image": "i", "resources": resources}]}))
    };
    let gpus = |count: &str| of("p", count);
    let list: ResourceList = serde_json::from_value(
        json!({"cpu": "64", "kubernetes.io/own": "1", "example.com/gpu": "3", "example.com/gone": "0"}),
    )
    .unwrap();
    let mut given = Given::with(&[of("old", "1")]);
    given.announced = announced(Some(&list));
    assert_eq!(given.announced.keys().collect::<Vec<_>>(), ["example.com/gone", "example.com/gpu"]);
    assert_eq!(given.admit(&gpus("2")), Ok(Vec::new()));
    let (reason, message) = given.admit(&gpus("3")).unwrap_err();
    assert_eq!(reason, "OutOfexample.com/gpu");
    assert_eq!(
        message,
        "Node didn't have enough resource: example.com/gpu, requested: 3, used: 1, capacity: 3"
    );
    assert_eq!(Given::new().admit(&gpus("3")), Ok(Vec::new()), "nobody announced it");
}

#[test]
fn overhead_and_init_containers_count() {
    let spec = json!({
        "overhead": {"cpu": "1"},
        "initContainers": [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "2500m"}}}],
        "containers": [{"name": "a", "image": "i"}],
    });
    let (_, message) = Given::new().admit(&api("p", spec)).unwrap_err();
    assert!(message.contains("requested: 3500"), "{message}");
}

#[test]
fn pods_are_counted_and_a_pod_does_not_count_against_itself() {
    let mut given = Given::with(&[api("a", json!({})), api("b", json!({}))]);
    given.settings.resources.capacity.insert("pods".into(), 2);
    assert_eq!(refused(&given, &api("c", json!({}))), "OutOfpods");
    assert_eq!(given.admit(&api("b", json!({}))), Ok(Vec::new()));
    given.occupancy.retain(|uid| uid.as_str() != "a");
    assert_eq!(given.admit(&api("c", json!({}))), Ok(Vec::new()));
}

#[test]
fn a_static_pod_that_cannot_displace_others_is_refused_with_upstreams_words() {
    let mut given = Given::with(&[fixed("a", json!({}))]);
    given.settings.resources.capacity.insert("pods".into(), 1);
    let (reason, message) = given.admit(&fixed("b", json!({}))).unwrap_err();
    assert_eq!(reason, "UnexpectedAdmissionError");
    assert_eq!(
        message,
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: pods, q: 1), ]"
    );
}

#[test]
fn a_static_pod_displaces_the_least_important_pods_that_make_room() {
    let limited = |cpu: &str| {
        json!({"containers": [{"name": "a", "image": "i", "resources": {
            "requests": {"cpu": cpu, "memory": "1Mi"}, "limits": {"cpu": cpu, "memory": "1Mi"}
        }}]})
    };
    let others = [
        api("best-effort", json!({})),
        api("small", requesting("500m")),
        api("large", requesting("1")),
        api("guaranteed", limited("1500m")),
    ];
    let given = Given::with(&others);
    // Nothing is left. Best-effort pods have no CPU to give; one burstable pod is enough for each.
    assert_eq!(given.admit(&fixed("new", requesting("400m"))), Ok(vec!["small".into()]));
    assert_eq!(given.admit(&fixed("new", requesting("900m"))), Ok(vec!["large".into()]));
    assert_eq!(given.admit(&fixed("new", requesting("1500m"))), Ok(vec!["large".into(), "small".into()]));
    let with_guaranteed = given.admit(&fixed("new", requesting("3"))).unwrap();
    assert_eq!(with_guaranteed, ["large", "small", "guaranteed"]);
    assert_eq!(refused(&given, &fixed("new", requesting("3001m"))), "UnexpectedAdmissionError");
    assert_eq!(refused(&given, &api("new", requesting("400m"))), "OutOfcpu");
}

#[test]
fn static_pods_give_way_only_to_a_higher_priority() {
    let with_priority = |priority: i32| json!({"priority": priority});
    let mut given = Given::with(&[fixed("low", with_priority(1))]);
    given.settings.resources.capacity.insert("pods".into(), 1);
    assert_eq!(given.admit(&fixed("high", with_priority(2))), Ok(vec!["low".into()]));
    assert_eq!(refused(&given, &fixed("equal", with_priority(1))), "UnexpectedAdmissionError");
    assert_eq!(given.admit(&api("critical", with_priority(2_000_000_000))), Ok(vec!["low".into()]));
}

#[test]
fn what_preemption_cannot_help_is_told_first() {
    let given = Given::with(&[api("old", requesting("3"))]);
    let mut spec = requesting("1");
    spec["nodeSelector"] = json!({"disk": "tape"});
    let (reason, message) = given.admit(&fixed("new", spec)).unwrap_err();
    assert_eq!(reason, "NodeAffinity");
    assert_eq!(message, "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector");
}

#[test]
fn the_node_must_match_the_pods_selectors() {
    let terms = |terms: Value| {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }}})
    };
    let expression = |key: &str, operator: &str, values: Value| {
        terms(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
    };
    let field = |operator: &str, value: &str| {
        terms(json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": [value]}]}]))
    };
    for (spec, admitted) in [
        (json!({"nodeSelector": {"disk": "ssd"}}), true),
        (json!({"nodeSelector": {"disk": "ssd", "zone": "a"}}), false),
        (expression("disk", "In", json!(["hdd", "ssd"])), true),
        (expression("disk", "NotIn", json!(["ssd"])), false),
        (expression("zone", "NotIn", json!(["a"])), true),
        (expression("disk", "Exists", json!([])), true),
        (expression("disk", "DoesNotExist", json!([])), false),
        (expression("rank", "Gt", json!(["6"])), true),
        (expression("rank", "Lt", json!(["6"])), false),
        (expression("disk", "Gt", json!(["6"])), false),
        (field("In", "node-1"), true),
        (field("NotIn", "node-1"), false),
        (terms(json!([{}])), false),
        (
            terms(json!([
                {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
            ])),
            true,
        ),
        (json!({"nodeName": "node-1"}), true),
    ] {
        let verdict = Given::new().admit(&fixed("p", spec.clone()));
        assert_eq!(verdict.is_ok(), admitted, "{spec}: {verdict:?}");
    }
    assert_eq!(refused(&Given::new(), &fixed("p", json!({"nodeName": "other"}))), "NodeName");
}

#[test]
fn a_host_port_belongs_to_one_pod() {
    let port = |port: i32, address: &str, protocol: &str| {
        json!({"containers": [{"name": "a", "image": "i", "ports": [
            {"containerPort": 80, "hostPort": port, "hostIP": address, "protocol": protocol}
        ]}]})
    };
    let given = Given::with(&[fixed("old", port(8080, "192.0.2.1", "TCP"))]);
    for (spec, admitted) in [
        (port(8080, "", "TCP"), false),
        (port(8080, "192.0.2.1", "TCP"), false),
        (port(8080, "192.0.2.2", "TCP"), true),
        (port(8080, "", "UDP"), true),
        (port(8081, "", "TCP"), true),
        (port(0, "", "TCP"), true),
    ] {
        let verdict = given.admit(&fixed("new", spec.clone()));
        assert_eq!(verdict.is_ok(), admitted, "{spec}");
        if let Err((reason, message)) = verdict {
            assert_eq!(reason, "NodePorts");
            assert_eq!(
                message,
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
            );
        }
    }
    let sidecar = json!({
        "initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always",
            "ports": [{"containerPort": 80, "hostPort": 8080}]}],
        "containers": [{"name": "a", "image": "i"}],
    });
    assert_eq!(refused(&given, &fixed("new", sidecar)), "NodePorts");
}

#[test]
fn sysctls_are_safe_or_allowed_and_of_the_pods_own_namespaces() {
    let check = |name: &str, more: Value, message: Option<&str>| {
        let mut spec = more;
        spec["securityContext"] = json!({"sysctls": [{"name": name, "value": "1"}]});
        let verdict = Given::new().admit(&fixed("p", spec));
        let expected =
            message.map(|text| ("SysctlForbidden".to_owned(), format!("forbidden sysctl: {text}")));
        assert_eq!(verdict.err(), expected, "{name}");
    };
    check("net.ipv4.tcp_syncookies", json!({}), None);
    check("net/ipv4/tcp_syncookies", json!({}), None);
    check("kernel.shm_rmid_forced", json!({}), None);
    check("net.core.somaxconn", json!({}), None);
    check("kernel.msgmax", json!({}), None);
    check("kernel.shmmax", json!({}), Some("\"kernel.shmmax\" not allowlisted"));
    check("net.ipv4.ip_forward", json!({}), Some("\"net.ipv4.ip_forward\" not allowlisted"));
    check("vm.swappiness", json!({}), Some("\"vm.swappiness\" not allowlisted"));
    check(
        "net.ipv4.tcp_syncookies",
        json!({"hostNetwork": true}),
        Some("\"net.ipv4.tcp_syncookies\" not allowed with host Net enabled"),
    );
    check(
        "kernel.msgmax",
        json!({"hostIPC": true}),
        Some("\"kernel.msgmax\" not allowed with host IPC enabled"),
    );
    check("kernel.msgmax", json!({"hostNetwork": true}), None);
}

#[test]
fn an_old_kernel_has_fewer_safe_sysctls() {
    let mut given = Given::new();
    given.settings.admission.kernel = KernelVersion { major: 4, minor: 14 };
    let with =
        |name: &str| fixed("p", json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}));
    assert!(given.admit(&with("net.ipv4.tcp_fin_timeout")).is_ok());
    assert_eq!(refused(&given, &with("net.ipv4.tcp_rmem")), "SysctlForbidden");
}

#[test]
fn pods_for_another_system_are_refused() {
    assert_eq!(refused(&Given::new(), &fixed("p", json!({"os": {"name": "windows"}}))), "PodOSNotSupported");
    assert!(Given::new().admit(&fixed("p", json!({"os": {"name": "linux"}}))).is_ok());
    let mut labelled = Pod::clone(&fixed("p", json!({})));
    labelled.metadata.labels = Some([("kubernetes.io/os".to_owned(), "windows".to_owned())].into());
    assert_eq!(refused(&Given::new(), &labelled), "PodOSSelectorNodeLabelDoesNotMatch");
}

#[test]
fn strict_groups_need_a_runtime_that_keeps_them() {
    let strict = fixed("p", json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}}));
    let mut given = Given::new();
    assert!(given.admit(&strict).is_ok());
    given.strict_groups = StrictGroups::Unsupported;
    let (reason, message) = given.admit(&strict).unwrap_err();
    assert_eq!(reason, "SupplementalGroupsPolicyNotSupported");
    assert_eq!(message, "SupplementalGroupsPolicy=Strict is not supported in this node");
    let merge = fixed("p", json!({"securityContext": {"supplementalGroupsPolicy": "Merge"}}));
    assert!(given.admit(&merge).is_ok());
}

#[test]
fn apparmor_needs_a_kernel_with_it_unless_unconfined() {
    let of_pod = |kind: &str| fixed("p", json!({"securityContext": {"appArmorProfile": {"type": kind}}}));
    let mut given = Given::new();
    let (reason, message) = given.admit(&of_pod("RuntimeDefault")).unwrap_err();
    assert_eq!(reason, "AppArmor");
    assert_eq!(message, "Cannot enforce AppArmor: AppArmor is not enabled on the host");
    assert!(given.admit(&of_pod("Unconfined")).is_ok());
    let mut annotated = Pod::clone(&fixed("p", json!({})));
    let key = "container.apparmor.security.beta.kubernetes.io/a".to_owned();
    annotated.metadata.annotations = Some([(key, "localhost/mine".to_owned())].into());
    assert_eq!(refused(&given, &annotated), "AppArmor");
    let of_container = fixed(
        "p",
        json!({"containers": [{"name": "a", "image": "i",
        "securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": " "}}}]}),
    );
    assert_eq!(refused(&given, &of_container), "AppArmor");
    given.settings.admission.apparmor = AppArmor::Enabled;
    assert!(given.admit(&of_pod("RuntimeDefault")).is_ok());
    assert!(given.admit(&annotated).is_ok());
    assert_eq!(refused(&given, &of_container), "AppArmor");
}

#[test]
fn pod_level_resources_need_their_gate() {
    let spec = json!({"resources": {"requests": {"cpu": "1"}}});
    let mut given = Given::new();
    assert!(given.admit(&fixed("p", spec.clone())).is_ok());
    given.settings.admission.pod_level_resources = PodLevelResources::Refused;
    assert_eq!(refused(&given, &fixed("p", spec)), "PodLevelResourcesNotSupported");
    assert!(given.admit(&fixed("p", json!({}))).is_ok());
}

#[test]
fn occupancy_follows_changes_of_a_pod() {
    let mut occupancy = Occupancy::default();
    occupancy.insert(&api("a", requesting("1")));
    occupancy.insert(&api("a", requesting("2")));
    let nobody = model::PodUid::from("x");
    assert_eq!((occupancy.requested_without(&nobody, "cpu"), occupancy.count_without(&nobody)), (2000, 1));
    assert_eq!(occupancy.requested_without(&"a".into(), "cpu"), 0);
    occupancy.remove(&"a".into());
    assert_eq!((occupancy.requested_without(&nobody, "cpu"), occupancy.contains(&"a".into())), (0, false));
}

#[test]
fn only_taints_that_drive_pods_out_count_and_static_pods_stay() {
    let taint = |effect: &str| Taint {
        key: "k".into(),
        value: Some("v".into()),
        effect: effect.into(),
        time_added: None,
    };
    let of = |source: PodSource, tolerations: serde_json::Value| {
        pod(source, "p", json!({"containers": [], "tolerations": tolerations}))
    };
    let refused = |effect: &str, pod: &Pod| {
        let mut given = Given::new();
        given.taints = vec![taint(effect)];
        given.admit(pod).err().map(|(reason, _)| reason)
    };
    let plain = of(PodSource::Api, json!([]));
    assert_eq!(refused("NoExecute", &plain).as_deref(), Some("TaintToleration"));
    assert_eq!(refused("NoSchedule", &plain), None);
    assert_eq!(refused("NoExecute", &of(PodSource::File, json!([]))), None);
    for (toleration, tolerated) in [
        (json!({"operator": "Exists"}), true),
        (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), true),
        (json!({"key": "k", "value": "v"}), true),
        (json!({"key": "k", "value": "other"}), false),
        (json!({"key": "other", "operator": "Exists"}), false),
        (json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}), false),
    ] {
        let pod = of(PodSource::Api, json!([toleration]));
        assert_eq!(refused("NoExecute", &pod).is_none(), tolerated, "{toleration}");
    }
}

#[test]
fn what_runs_is_not_asked_again() {
    let mut api = Pod::clone(&pod(PodSource::Api, "p", json!({"containers": [{"name": "a"}]})));
    let running = observed(vec![], vec![container("c", "a", 0, ContainerState::Running)]);
    let ended = observed(vec![], vec![container("c", "a", 0, ContainerState::Exited)]);
    assert_eq!(arrival(&api, None), Arrival::New);
    assert_eq!(arrival(&api, Some(&ended)), Arrival::New);
    assert_eq!(arrival(&api, Some(&running)), Arrival::Running);
    // An agent that has just started has listed the runtime's containers, and looked at none.
    for (runs, expected) in [(true, Arrival::Running), (false, Arrival::New)] {
        let mut listed = observed(vec![], vec![]);
        listed.observation = model::Observation::Listed { runs };
        assert_eq!(arrival(&api, Some(&listed)), expected);
    }
    api.status.phase = Some("Failed".into());
    assert_eq!(arrival(&api, Some(&ended)), Arrival::Over);
    assert_eq!(arrival(&api, Some(&running)), Arrival::Running);
    api.status.phase = None;
    api.metadata.deletion_timestamp = Some(model::Timestamp::ZERO.to_api_time());
    assert_eq!(arrival(&api, None), Arrival::Over);
}

#[test]
fn refusals_are_counted_under_words_that_have_an_end() {
    for (reason, label) in [
        ("OutOfcpu", "OutOfcpu"),
        ("OutOfpods", "OutOfpods"),
        ("OutOfexample.com/gpu", "OutOfExtendedResources"),
        ("NodeShutdown", "NodeShutdown"),
        ("VolumeAttachmentLimitExceeded", "VolumeAttachmentLimitExceeded"),
        // Upstream's words have no place for these.
        ("NodeAffinity", "Other"),
        ("TaintToleration", "Other"),
        ("Whatever", "Other"),
    ] {
        assert_eq!(rejection_label(reason), label, "{reason}");
    }
}

#[test]
fn a_node_under_pressure_takes_only_what_cannot_make_it_worse() {
    let mut given = Given::new();
    let greedy = json!([{"name": "a", "image": "i", "resources": {"requests": {"memory": "1Mi"}}}]);
    let tolerant = json!([{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]);
    let plain = api("plain", json!({}));
    let with_requests = api("requests", json!({"containers": greedy}));
    let with_toleration = api("tolerates", json!({"tolerations": tolerant}));
    let critical = api("critical", json!({"priority": 2_000_000_000}));
    let refused = |names: &str| Err(("Evicted".to_owned(), format!("The node had condition: [{names}]. ")));
    given.pressure = Pressure { memory: true, ..Pressure::default() };
    assert_eq!(given.admit(&plain), refused("MemoryPressure"));
    for pod in [&with_requests, &with_toleration, &critical] {
        assert_eq!(given.admit(pod), Ok(vec![]), "{}", pod.name());
    }
    given.pressure.disk = true;
    for pod in [&plain, &with_requests, &with_toleration] {
        assert_eq!(given.admit(pod), refused("MemoryPressure DiskPressure"), "{}", pod.name());
    }
    assert_eq!(given.admit(&critical), Ok(vec![]));
}

#[test]
fn a_machine_that_goes_down_takes_nothing() {
    let mut given = Given::new();
    given.shutdown = Shutdown::Imminent;
    let words = "Pod was rejected as the node is shutting down.".to_owned();
    for pod in [api("plain", json!({})), api("critical", json!({"priority": 2_000_000_000}))] {
        assert_eq!(given.admit(&pod), Err(("NodeShutdown".to_owned(), words.clone())));
    }
}
