use model::{AdmissionSettings, AppArmor, ContainerState, KernelVersion, PodLevelResources, PodSource};
use serde_json::{Value, json};

use super::*;
use crate::test_objects::{container, observed};

/// Settings of a typical node.
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

struct TestNode {
    settings: NodeSettings,
    occupancy: Occupancy,
    strict_groups: StrictGroups,
    taints: Vec<Taint>,
    extended_resources: ResourceAmounts,
    pressure: Pressure,
    shutdown: Shutdown,
}

impl TestNode {
    fn new() -> Self {
        Self {
            settings: crate::runtime_spec::pod_paths::tests::settings(),
            occupancy: Occupancy::default(),
            strict_groups: StrictGroups::Supported,
            taints: Vec::new(),
            extended_resources: ResourceAmounts::new(),
            pressure: Pressure::default(),
            shutdown: Shutdown::None,
        }
    }

    fn with(others: &[Arc<Pod>]) -> Self {
        let mut node = Self::new();
        for pod in others {
            node.occupancy.insert(pod);
        }
        node
    }

    fn admit(&self, pod: &Pod) -> Result<Vec<String>, (String, String)> {
        let Self { settings, occupancy, strict_groups, .. } = self;
        let inputs = AdmissionInputs {
            settings,
            labels: &settings.admission.labels,
            taints: &self.taints,
            extended_resources: &self.extended_resources,
            occupancy,
            strict_groups: *strict_groups,
            pressure: self.pressure,
            shutdown: self.shutdown,
        };
        let result = check_all(pod, &inputs);
        result
            .map(|victims| victims.iter().map(|pod| pod.name().to_owned()).collect())
            .map_err(|rejection| (rejection.reason, rejection.message))
    }
}

/// All checks of a pod without managed resources.
pub(crate) fn check_all(pod: &Pod, inputs: &AdmissionInputs<'_>) -> Result<Vec<Arc<Pod>>, Rejection> {
    check_before_allocation(pod, inputs)?;
    check_after_allocation(pod, inputs)
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

fn static_pod(name: &str, spec: Value) -> Arc<Pod> {
    pod(PodSource::File, name, spec)
}

fn requesting(cpu: &str) -> Value {
    json!({"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": cpu}}}]})
}

fn rejection_reason(node: &TestNode, pod: &Pod) -> String {
    node.admit(pod).unwrap_err().0
}

#[test]
fn admits_plain_pod() {
    assert_eq!(TestNode::new().admit(&static_pod("p", json!({}))), Ok(Vec::new()));
}

#[test]
fn rejection_names_requested_used_and_capacity() {
    // 4 CPUs, one of them reserved.
    let node = TestNode::with(&[api("old", requesting("2500m"))]);
    assert_eq!(node.admit(&api("new", requesting("500m"))), Ok(Vec::new()));
    let (reason, message) = node.admit(&api("new", requesting("501m"))).unwrap_err();
    assert_eq!(reason, "OutOfcpu");
    assert_eq!(message, "Node didn't have enough resource: cpu, requested: 501, used: 2500, capacity: 3000");
}

#[test]
fn each_resource_has_its_reason_and_unknown_resources_are_ignored() {
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
        let result = TestNode::new().admit(&api("p", spec)).map_err(|(reason, _)| reason);
        assert_eq!(result.err().as_deref(), reason, "{resource}");
    }
}

#[test]
fn extended_resources_of_node_are_checked() {
    let of = |name: &str, count: &str| {
        let resources = json!({"requests": {"example.com/gpu": count}, "limits": {"example.com/gpu": count}});
        api(name, json!({"containers": [{"name": "a", "image": "i", "resources": resources}]}))
    };
    let gpus = |count: &str| of("p", count);
    let list: ResourceList = serde_json::from_value(
        json!({"cpu": "64", "kubernetes.io/own": "1", "example.com/gpu": "3", "example.com/gone": "0"}),
    )
    .unwrap();
    let mut node = TestNode::with(&[of("old", "1")]);
    node.extended_resources = extended_resources(Some(&list), &ResourceAmounts::new());
    assert_eq!(node.extended_resources.keys().collect::<Vec<_>>(), ["example.com/gone", "example.com/gpu"]);
    assert_eq!(node.admit(&gpus("2")), Ok(Vec::new()));
    let (reason, message) = node.admit(&gpus("3")).unwrap_err();
    assert_eq!(reason, "OutOfexample.com/gpu");
    assert_eq!(
        message,
        "Node didn't have enough resource: example.com/gpu, requested: 3, used: 1, capacity: 3"
    );
    assert_eq!(TestNode::new().admit(&gpus("3")), Ok(Vec::new()), "not on the Node object");
}

#[test]
fn extended_resources_are_never_less_than_what_pods_own() {
    let list: ResourceList =
        serde_json::from_value(json!({"example.com/restarting": "0", "example.com/gpu": "3"})).unwrap();
    let owned = [("restarting", 2), ("gpu", 1), ("unknown", 1)];
    let owned = owned.map(|(name, count)| (format!("example.com/{name}"), count)).into();
    let expected = [("restarting", 2), ("gpu", 3), ("unknown", 1)];
    let expected = expected.map(|(name, count)| (format!("example.com/{name}"), count)).into();
    assert_eq!(extended_resources(Some(&list), &owned), expected);
}

#[test]
fn requests_include_overhead_and_init_containers() {
    let spec = json!({
        "overhead": {"cpu": "1"},
        "initContainers": [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "2500m"}}}],
        "containers": [{"name": "a", "image": "i"}],
    });
    let (_, message) = TestNode::new().admit(&api("p", spec)).unwrap_err();
    assert!(message.contains("requested: 3500"), "{message}");
}

#[test]
fn pod_limit_does_not_count_the_pod_itself() {
    let mut node = TestNode::with(&[api("a", json!({})), api("b", json!({}))]);
    node.settings.resources.capacity.insert("pods".into(), 2);
    assert_eq!(rejection_reason(&node, &api("c", json!({}))), "OutOfpods");
    assert_eq!(node.admit(&api("b", json!({}))), Ok(Vec::new()));
    node.occupancy.retain(|uid| uid.as_str() != "a");
    assert_eq!(node.admit(&api("c", json!({}))), Ok(Vec::new()));
}

#[test]
fn static_pod_that_cannot_preempt_is_rejected_with_upstream_message() {
    let mut node = TestNode::with(&[static_pod("a", json!({}))]);
    node.settings.resources.capacity.insert("pods".into(), 1);
    let (reason, message) = node.admit(&static_pod("b", json!({}))).unwrap_err();
    assert_eq!(reason, "UnexpectedAdmissionError");
    assert_eq!(
        message,
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: pods, q: 1), ]"
    );
}

#[test]
fn static_pod_preempts_least_important_pods() {
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
    let node = TestNode::with(&others);
    // All CPU is requested. Best-effort pods free none; one burstable pod is enough for each of the first two.
    assert_eq!(node.admit(&static_pod("new", requesting("400m"))), Ok(vec!["small".into()]));
    assert_eq!(node.admit(&static_pod("new", requesting("900m"))), Ok(vec!["large".into()]));
    assert_eq!(node.admit(&static_pod("new", requesting("1500m"))), Ok(vec!["large".into(), "small".into()]));
    let with_guaranteed = node.admit(&static_pod("new", requesting("3"))).unwrap();
    assert_eq!(with_guaranteed, ["large", "small", "guaranteed"]);
    assert_eq!(rejection_reason(&node, &static_pod("new", requesting("3001m"))), "UnexpectedAdmissionError");
    assert_eq!(rejection_reason(&node, &api("new", requesting("400m"))), "OutOfcpu");
}

#[test]
fn static_pods_are_preempted_only_by_higher_priority() {
    let with_priority = |priority: i32| json!({"priority": priority});
    let mut node = TestNode::with(&[static_pod("low", with_priority(1))]);
    node.settings.resources.capacity.insert("pods".into(), 1);
    assert_eq!(node.admit(&static_pod("high", with_priority(2))), Ok(vec!["low".into()]));
    assert_eq!(rejection_reason(&node, &static_pod("equal", with_priority(1))), "UnexpectedAdmissionError");
    assert_eq!(node.admit(&api("critical", with_priority(2_000_000_000))), Ok(vec!["low".into()]));
}

#[test]
fn failures_without_preemption_are_reported_first() {
    let node = TestNode::with(&[api("old", requesting("3"))]);
    let mut spec = requesting("1");
    spec["nodeSelector"] = json!({"disk": "tape"});
    let (reason, message) = node.admit(&static_pod("new", spec)).unwrap_err();
    assert_eq!(reason, "NodeAffinity");
    assert_eq!(message, "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector");
}

#[test]
fn node_must_match_selectors_of_pod() {
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
        let result = TestNode::new().admit(&static_pod("p", spec.clone()));
        assert_eq!(result.is_ok(), admitted, "{spec}: {result:?}");
    }
    assert_eq!(
        rejection_reason(&TestNode::new(), &static_pod("p", json!({"nodeName": "other"}))),
        "NodeName"
    );
}

#[test]
fn rejects_conflicting_host_ports() {
    let port = |port: i32, address: &str, protocol: &str| {
        json!({"containers": [{"name": "a", "image": "i", "ports": [
            {"containerPort": 80, "hostPort": port, "hostIP": address, "protocol": protocol}
        ]}]})
    };
    let node = TestNode::with(&[static_pod("old", port(8080, "192.0.2.1", "TCP"))]);
    for (spec, admitted) in [
        (port(8080, "", "TCP"), false),
        (port(8080, "192.0.2.1", "TCP"), false),
        (port(8080, "192.0.2.2", "TCP"), true),
        (port(8080, "", "UDP"), true),
        (port(8081, "", "TCP"), true),
        (port(0, "", "TCP"), true),
    ] {
        let result = node.admit(&static_pod("new", spec.clone()));
        assert_eq!(result.is_ok(), admitted, "{spec}");
        if let Err((reason, message)) = result {
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
    assert_eq!(rejection_reason(&node, &static_pod("new", sidecar)), "NodePorts");
}

#[test]
fn sysctls_must_be_allowed_and_not_in_host_namespaces() {
    let check = |name: &str, more: Value, message: Option<&str>| {
        let mut spec = more;
        spec["securityContext"] = json!({"sysctls": [{"name": name, "value": "1"}]});
        let result = TestNode::new().admit(&static_pod("p", spec));
        let expected =
            message.map(|text| ("SysctlForbidden".to_owned(), format!("forbidden sysctl: {text}")));
        assert_eq!(result.err(), expected, "{name}");
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
fn old_kernel_has_fewer_safe_sysctls() {
    let mut node = TestNode::new();
    node.settings.admission.kernel = KernelVersion { major: 4, minor: 14 };
    let with =
        |name: &str| static_pod("p", json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}));
    assert!(node.admit(&with("net.ipv4.tcp_fin_timeout")).is_ok());
    assert_eq!(rejection_reason(&node, &with("net.ipv4.tcp_rmem")), "SysctlForbidden");
}

#[test]
fn rejects_pods_for_other_operating_systems() {
    assert_eq!(
        rejection_reason(&TestNode::new(), &static_pod("p", json!({"os": {"name": "windows"}}))),
        "PodOSNotSupported"
    );
    assert!(TestNode::new().admit(&static_pod("p", json!({"os": {"name": "linux"}}))).is_ok());
    let mut labelled = Pod::clone(&static_pod("p", json!({})));
    labelled.metadata.labels = Some([("kubernetes.io/os".to_owned(), "windows".to_owned())].into());
    assert_eq!(rejection_reason(&TestNode::new(), &labelled), "PodOSSelectorNodeLabelDoesNotMatch");
}

#[test]
fn strict_groups_need_runtime_support() {
    let strict = static_pod("p", json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}}));
    let mut node = TestNode::new();
    assert!(node.admit(&strict).is_ok());
    node.strict_groups = StrictGroups::Unsupported;
    let (reason, message) = node.admit(&strict).unwrap_err();
    assert_eq!(reason, "SupplementalGroupsPolicyNotSupported");
    assert_eq!(message, "SupplementalGroupsPolicy=Strict is not supported in this node");
    let merge = static_pod("p", json!({"securityContext": {"supplementalGroupsPolicy": "Merge"}}));
    assert!(node.admit(&merge).is_ok());
}

#[test]
fn apparmor_needs_kernel_support_unless_unconfined() {
    let of_pod =
        |kind: &str| static_pod("p", json!({"securityContext": {"appArmorProfile": {"type": kind}}}));
    let mut node = TestNode::new();
    let (reason, message) = node.admit(&of_pod("RuntimeDefault")).unwrap_err();
    assert_eq!(reason, "AppArmor");
    assert_eq!(message, "Cannot enforce AppArmor: AppArmor is not enabled on the host");
    assert!(node.admit(&of_pod("Unconfined")).is_ok());
    let mut annotated = Pod::clone(&static_pod("p", json!({})));
    let key = "container.apparmor.security.beta.kubernetes.io/a".to_owned();
    annotated.metadata.annotations = Some([(key, "localhost/mine".to_owned())].into());
    assert_eq!(rejection_reason(&node, &annotated), "AppArmor");
    let of_container = static_pod(
        "p",
        json!({"containers": [{"name": "a", "image": "i",
        "securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": " "}}}]}),
    );
    assert_eq!(rejection_reason(&node, &of_container), "AppArmor");
    node.settings.admission.apparmor = AppArmor::Enabled;
    assert!(node.admit(&of_pod("RuntimeDefault")).is_ok());
    assert!(node.admit(&annotated).is_ok());
    assert_eq!(rejection_reason(&node, &of_container), "AppArmor");
}

#[test]
fn pod_level_resources_need_feature_gate() {
    let spec = json!({"resources": {"requests": {"cpu": "1"}}});
    let mut node = TestNode::new();
    assert!(node.admit(&static_pod("p", spec.clone())).is_ok());
    node.settings.admission.pod_level_resources = PodLevelResources::Refused;
    assert_eq!(rejection_reason(&node, &static_pod("p", spec)), "PodLevelResourcesNotSupported");
    assert!(node.admit(&static_pod("p", json!({}))).is_ok());
}

#[test]
fn occupancy_follows_updates_of_a_pod() {
    let mut occupancy = Occupancy::default();
    occupancy.insert(&api("a", requesting("1")));
    occupancy.insert(&api("a", requesting("2")));
    let other_uid = model::PodUid::from("x");
    assert_eq!(
        (occupancy.requested_without(&other_uid, "cpu"), occupancy.count_without(&other_uid)),
        (2000, 1)
    );
    assert_eq!(occupancy.requested_without(&"a".into(), "cpu"), 0);
    occupancy.remove(&"a".into());
    assert_eq!((occupancy.requested_without(&other_uid, "cpu"), occupancy.contains(&"a".into())), (0, false));
}

#[test]
fn rejects_untolerated_no_execute_taints_except_for_static_pods() {
    let taint = |effect: &str| Taint {
        key: "k".into(),
        value: Some("v".into()),
        effect: effect.into(),
        time_added: None,
    };
    let of = |source: PodSource, tolerations: serde_json::Value| {
        pod(source, "p", json!({"containers": [], "tolerations": tolerations}))
    };
    let rejection_reason = |effect: &str, pod: &Pod| {
        let mut node = TestNode::new();
        node.taints = vec![taint(effect)];
        node.admit(pod).err().map(|(reason, _)| reason)
    };
    let plain = of(PodSource::Api, json!([]));
    assert_eq!(rejection_reason("NoExecute", &plain).as_deref(), Some("TaintToleration"));
    assert_eq!(rejection_reason("NoSchedule", &plain), None);
    assert_eq!(rejection_reason("NoExecute", &of(PodSource::File, json!([]))), None);
    for (toleration, tolerated) in [
        (json!({"operator": "Exists"}), true),
        (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), true),
        (json!({"key": "k", "value": "v"}), true),
        (json!({"key": "k", "value": "other"}), false),
        (json!({"key": "other", "operator": "Exists"}), false),
        (json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}), false),
    ] {
        let pod = of(PodSource::Api, json!([toleration]));
        assert_eq!(rejection_reason("NoExecute", &pod).is_none(), tolerated, "{toleration}");
    }
}

#[test]
fn running_pods_are_not_admitted_again() {
    let mut api = Pod::clone(&pod(PodSource::Api, "p", json!({"containers": [{"name": "a"}]})));
    let running = observed(vec![], vec![container("c", "a", 0, ContainerState::Running)]);
    let exited = observed(vec![], vec![container("c", "a", 0, ContainerState::Exited)]);
    assert_eq!(classify_arrival(&api, None), PodArrival::New);
    assert_eq!(classify_arrival(&api, Some(&exited)), PodArrival::New);
    assert_eq!(classify_arrival(&api, Some(&running)), PodArrival::Running);
    // An agent that has just started has listed the containers but not yet observed them.
    for (runs, expected) in [(true, PodArrival::Running), (false, PodArrival::New)] {
        let mut listed = observed(vec![], vec![]);
        listed.observation = model::Observation::Listed { runs };
        assert_eq!(classify_arrival(&api, Some(&listed)), expected);
    }
    api.status.phase = Some("Failed".into());
    assert_eq!(classify_arrival(&api, Some(&exited)), PodArrival::Finished);
    assert_eq!(classify_arrival(&api, Some(&running)), PodArrival::Running);
    api.status.phase = None;
    api.metadata.deletion_timestamp = Some(model::Timestamp::ZERO.to_api_time());
    assert_eq!(classify_arrival(&api, None), PodArrival::Finished);
}

#[test]
fn rejection_labels_are_bounded() {
    for (reason, label) in [
        ("OutOfcpu", "OutOfcpu"),
        ("OutOfpods", "OutOfpods"),
        ("OutOfexample.com/gpu", "OutOfExtendedResources"),
        ("NodeShutdown", "NodeShutdown"),
        ("VolumeAttachmentLimitExceeded", "VolumeAttachmentLimitExceeded"),
        // Upstream has no label for these.
        ("NodeAffinity", "Other"),
        ("TaintToleration", "Other"),
        ("Whatever", "Other"),
    ] {
        assert_eq!(rejection_label(reason), label, "{reason}");
    }
}

#[test]
fn node_under_pressure_admits_only_exempt_pods() {
    let mut node = TestNode::new();
    let greedy = json!([{"name": "a", "image": "i", "resources": {"requests": {"memory": "1Mi"}}}]);
    let tolerant = json!([{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]);
    let plain = api("plain", json!({}));
    let with_requests = api("requests", json!({"containers": greedy}));
    let with_toleration = api("tolerates", json!({"tolerations": tolerant}));
    let critical = api("critical", json!({"priority": 2_000_000_000}));
    let rejection_reason =
        |names: &str| Err(("Evicted".to_owned(), format!("The node had condition: [{names}]. ")));
    node.pressure = Pressure { memory: true, ..Pressure::default() };
    assert_eq!(node.admit(&plain), rejection_reason("MemoryPressure"));
    for pod in [&with_requests, &with_toleration, &critical] {
        assert_eq!(node.admit(pod), Ok(vec![]), "{}", pod.name());
    }
    node.pressure.disk = true;
    for pod in [&plain, &with_requests, &with_toleration] {
        assert_eq!(node.admit(pod), rejection_reason("MemoryPressure DiskPressure"), "{}", pod.name());
    }
    assert_eq!(node.admit(&critical), Ok(vec![]));
}

#[test]
fn rejects_all_pods_during_shutdown() {
    let mut node = TestNode::new();
    node.shutdown = Shutdown::Imminent;
    let message = "Pod was rejected as the node is shutting down.".to_owned();
    for pod in [api("plain", json!({})), api("critical", json!({"priority": 2_000_000_000}))] {
        assert_eq!(node.admit(&pod), Err(("NodeShutdown".to_owned(), message.clone())));
    }
}

#[test]
fn numeric_tolerations_compare_the_value_of_the_taint() {
    let is_admitted = |operator: &str, value: &str, of_taint: &str, gate: bool| {
        let mut node = TestNode::new();
        node.settings.gates.numeric_tolerations = gate;
        node.taints = vec![Taint {
            key: "sla".into(),
            value: Some(of_taint.into()),
            effect: "NoExecute".into(),
            time_added: None,
        }];
        let toleration = json!({"key": "sla", "operator": operator, "value": value, "effect": "NoExecute"});
        node.admit(&pod(PodSource::Api, "p", json!({"containers": [], "tolerations": [toleration]}))).is_ok()
    };
    for (operator, value, of_taint, expected) in [
        ("Gt", "950", "999", true),
        ("Gt", "950", "950", false),
        ("Gt", "-5", "-4", true),
        ("Lt", "950", "949", true),
        ("Lt", "950", "950", false),
        ("Lt", "950", "0949", false),
        ("Lt", "950", "high", false),
        ("Lt", "+950", "1", false),
        ("Lt", "-0", "-1", false),
        ("Gt", "99999999999999999999", "1", false),
        ("Le", "1", "1", false),
    ] {
        assert_eq!(is_admitted(operator, value, of_taint, true), expected, "{operator} {value} {of_taint}");
        assert!(!is_admitted(operator, value, of_taint, false), "{operator} without the gate");
    }
}
