use serde_json::{Value, json};

use super::{accepts, merge, problems, rejects, valid_pod, with_spec};

#[track_caller]
fn rejects_spec(patch: &Value, expected: &str) {
    rejects(&with_spec(patch), &format!("spec.{expected}"));
}

#[test]
fn validates_pod_metadata() {
    let with = |patch: Value| {
        let mut pod = valid_pod();
        merge(&mut pod, &json!({ "metadata": patch }));
        pod
    };
    accepts(&with(
        json!({ "labels": { "app.kubernetes.io/name": "x" }, "annotations": { "A.B/c": "any text" } }),
    ));
    for (patch, expected) in [
        (json!({ "name": "Web" }), "name: Invalid value: \"Web\""),
        (json!({ "name": "a".repeat(254) }), "name: Invalid value"),
        (json!({ "namespace": "a.b" }), "namespace: Invalid value: \"a.b\""),
        (json!({ "namespace": null }), "namespace: Required value"),
        (json!({ "labels": { "a b": "x" } }), "labels[a b]: Invalid value: \"a b\""),
        (json!({ "labels": { "a": "x y" } }), "labels[a]: Invalid value: \"x y\""),
        (json!({ "annotations": { "/a": "x" } }), "annotations[/a]: Invalid value: \"/a\""),
        (
            json!({ "annotations": { "a": "x".repeat(256 * 1024) } }),
            "annotations: Too long: may not be more than 262144 bytes",
        ),
        (
            json!({ "annotations": { "controller.kubernetes.io/pod-deletion-cost": "x" } }),
            "annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"x\": must be a 32bit integer",
        ),
        (
            json!({ "annotations": { "container.apparmor.security.beta.kubernetes.io/x": "unconfined" } }),
            "annotations[container.apparmor.security.beta.kubernetes.io/x]: Invalid value: \"x\": container not found",
        ),
        (
            json!({ "annotations": { "seccomp.security.alpha.kubernetes.io/pod": "x" } }),
            "annotations[seccomp.security.alpha.kubernetes.io/pod]: Invalid value: \"x\": must be a valid seccomp profile",
        ),
        (json!({ "finalizers": ["x"] }), "finalizers[0]: Invalid value: \"x\""),
        (
            json!({ "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n" }] }),
            "ownerReferences[0].uid: Invalid value",
        ),
    ] {
        rejects(&with(patch), &format!("metadata.{expected}"));
    }
}

#[test]
fn validates_single_spec_fields() {
    accepts(&with_spec(
        &json!({ "activeDeadlineSeconds": 1, "restartPolicy": "OnFailure", "priorityClassName": "system-node-critical" }),
    ));
    for (patch, expected) in [
        (
            json!({ "restartPolicy": "Sometimes" }),
            "restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
        (
            json!({ "activeDeadlineSeconds": 0 }),
            "activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647",
        ),
        (json!({ "priorityClassName": "A" }), "priorityClassName: Invalid value"),
        (json!({ "runtimeClassName": "A" }), "runtimeClassName: Invalid value"),
        (json!({ "serviceAccountName": "A" }), "serviceAccountName: Invalid value"),
        (json!({ "nodeName": "A" }), "nodeName: Invalid value"),
        (json!({ "preemptionPolicy": "x" }), "preemptionPolicy: Unsupported value"),
        (
            json!({ "ephemeralContainers": [{ "name": "e", "image": "i" }] }),
            "ephemeralContainers: Forbidden: cannot be set on create",
        ),
        (
            json!({ "readinessGates": [{ "conditionType": "a b" }] }),
            "readinessGates[0].conditionType: Invalid value",
        ),
        (json!({ "schedulingGates": [{ "name": "a" }] }), "schedulingGates: Forbidden"),
        (json!({ "overhead": { "gpu": 1 } }), "overhead.limits[gpu]: Invalid value"),
        (
            json!({ "os": { "name": "beos" } }),
            "os.name: Unsupported value: \"beos\": supported values: \"linux\", \"windows\"",
        ),
        (json!({ "os": {} }), "os.name: Required value"),
    ] {
        rejects_spec(&patch, expected);
    }
}

#[test]
fn validates_dns_and_host_names() {
    accepts(&with_spec(&json!({
        "dnsPolicy": "None", "hostname": "a", "subdomain": "b",
        "dnsConfig": { "nameservers": ["10.0.0.10"], "searches": [".", "a_b.c."], "options": [{ "name": "ndots", "value": "2" }] },
        "hostAliases": [{ "ip": "127.0.0.1", "hostnames": ["foo.local"] }],
    })));
    let nameservers: Vec<_> = (1..=4).map(|number| format!("10.0.0.{number}")).collect();
    for (patch, expected) in [
        (json!({ "dnsPolicy": "x" }), "dnsPolicy: Unsupported value"),
        (json!({ "dnsPolicy": "None" }), "dnsConfig: Required value"),
        (json!({ "dnsPolicy": "None", "dnsConfig": {} }), "dnsConfig.nameservers: Required value"),
        (
            json!({ "dnsConfig": { "nameservers": ["x"] } }),
            "dnsConfig.nameservers[0]: Invalid value: \"x\": must be a valid IP",
        ),
        (
            json!({ "dnsConfig": { "nameservers": nameservers } }),
            "dnsConfig.nameservers: Invalid value: 4: must not have more than 3",
        ),
        (json!({ "dnsConfig": { "searches": ["a..b"] } }), "dnsConfig.searches[0]: Invalid value"),
        (json!({ "dnsConfig": { "searches": vec!["a"; 33] } }), "dnsConfig.searches: Invalid value: 33"),
        (
            json!({ "dnsConfig": { "options": [{ "value": "x" }] } }),
            "dnsConfig.options[0].name: Required value",
        ),
        (json!({ "hostAliases": [{ "ip": "x" }] }), "hostAliases[0].ip: Invalid value"),
        (
            json!({ "hostAliases": [{ "ip": "::1", "hostnames": ["A"] }] }),
            "hostAliases[0].hostnames[0]: Invalid value",
        ),
        (json!({ "hostname": "a.b" }), "hostname: Invalid value"),
        (json!({ "subdomain": "A" }), "subdomain: Invalid value"),
        (json!({ "hostnameOverride": "a", "setHostnameAsFQDN": true }), "hostnameOverride: Forbidden"),
        (json!({ "hostnameOverride": "a", "hostNetwork": true }), "hostnameOverride: Forbidden"),
    ] {
        rejects_spec(&patch, expected);
    }
}

#[test]
fn validates_pod_security_context() {
    accepts(&with_spec(
        &json!({ "securityContext": { "fsGroup": 0, "sysctls": [{ "name": "net.core.somaxconn", "value": "1" }] } }),
    ));
    accepts(&with_spec(&json!({ "hostUsers": false })));
    let sysctl = |name: &str| json!({ "sysctls": [{ "name": name, "value": "1" }] });
    for (patch, expected) in [
        (json!({ "fsGroup": -1 }), "fsGroup: Invalid value: -1"),
        (json!({ "supplementalGroups": [1, -1] }), "supplementalGroups[1]: Invalid value: -1"),
        (json!({ "fsGroupChangePolicy": "x" }), "fsGroupChangePolicy: Unsupported value"),
        (json!({ "supplementalGroupsPolicy": "x" }), "supplementalGroupsPolicy: Unsupported value"),
        (json!({ "seLinuxChangePolicy": "MountOption" }), "seLinuxChangePolicy: Unsupported value"),
        (sysctl("A"), "sysctls[0].name: Invalid value: \"A\""),
        (sysctl(""), "sysctls[0].name: Required value"),
        (json!({ "sysctls": [{ "name": "a" }, { "name": "a" }] }), "sysctls[1].name: Duplicate value: \"a\""),
        (json!({ "appArmorProfile": {} }), "appArmorProfile.type: Required value"),
        (
            json!({ "windowsOptions": { "gmsaCredentialSpec": "" } }),
            "windowsOptions.gmsaCredentialSpec: Invalid value",
        ),
    ] {
        rejects_spec(&json!({ "securityContext": patch }), &format!("securityContext.{expected}"));
    }
    rejects_spec(
        &json!({ "hostNetwork": true, "securityContext": sysctl("net/ipv4/ip_forward") }),
        "securityContext.sysctls[0].name: Invalid value",
    );
    rejects_spec(
        &json!({ "hostIPC": true, "securityContext": sysctl("kernel.shmmax") }),
        "securityContext.sysctls[0].name: Invalid value",
    );
    rejects_spec(
        &json!({ "hostPID": true, "shareProcessNamespace": true }),
        "shareProcessNamespace: Invalid value: true",
    );
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        rejects_spec(
            &json!({ "hostUsers": false, field: true }),
            &format!("{field}: Forbidden: when `hostUsers` is false"),
        );
    }
}

#[test]
fn validates_operating_system_fields() {
    let linux = json!({ "os": { "name": "linux" }, "securityContext": { "windowsOptions": {} } });
    rejects_spec(&linux, "securityContext.windowsOptions: Forbidden");
    rejects_spec(
        &json!({ "os": { "name": "windows" }, "hostPID": true }),
        "hostPID: Forbidden: cannot be set for a windows pod",
    );
    rejects_spec(
        &json!({ "os": { "name": "windows" }, "securityContext": { "runAsUser": 1 } }),
        "securityContext.runAsUser: Forbidden",
    );
    rejects_spec(
        &json!({ "os": { "name": "windows" }, "resources": { "limits": { "cpu": 1 } } }),
        "resources: Forbidden",
    );
    rejects_spec(
        &json!({ "securityContext": { "windowsOptions": { "hostProcess": true } } }),
        "hostNetwork: Invalid value: false",
    );
}

#[test]
fn validates_pod_level_resources() {
    let container = json!([{ "name": "web", "image": "i", "resources": { "limits": { "cpu": 2 } } }]);
    accepts(&with_spec(&json!({ "containers": container, "resources": { "limits": { "cpu": 2 } } })));
    rejects_spec(
        &json!({ "containers": container, "resources": { "requests": { "cpu": 1 } } }),
        "resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2",
    );
    let found =
        problems(&with_spec(&json!({ "containers": container, "resources": { "limits": { "cpu": 1 } } })));
    assert!(
        found.iter().any(|problem| problem.starts_with(
            "spec.containers[0].resources.limits[cpu]: Invalid value: \"2\": must be less than"
        )),
        "{found:?}"
    );
    let found = problems(&with_spec(&json!({ "resources": { "limits": { "ephemeral-storage": 1 } } })));
    assert!(found[0].starts_with("spec.resources.limits[ephemeral-storage]: Unsupported value"), "{found:?}");
}

#[test]
fn validates_scheduling_fields() {
    accepts(&with_spec(
        &json!({ "tolerations": [{ "operator": "Exists" }, { "key": "a", "value": "b", "effect": "NoSchedule" }] }),
    ));
    for (toleration, expected) in [
        (json!({}), "operator: Invalid value: \"\": operator must be Exists when `key` is empty"),
        (json!({ "key": "a b" }), "key: Invalid value"),
        (json!({ "key": "a", "operator": "Lt", "value": "1" }), "operator: Unsupported value: \"Lt\""),
        (json!({ "key": "a", "operator": "Exists", "value": "x" }), "value: Invalid value"),
        (json!({ "key": "a", "effect": "x" }), "effect: Unsupported value"),
        (
            json!({ "key": "a", "effect": "NoSchedule", "tolerationSeconds": 1 }),
            "effect: Invalid value: \"NoSchedule\"",
        ),
    ] {
        rejects_spec(&json!({ "tolerations": [toleration] }), &format!("tolerations[0].{expected}"));
    }
    let spread = |patch: Value| {
        let mut constraint =
            json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" });
        merge(&mut constraint, &patch);
        json!({ "topologySpreadConstraints": [constraint] })
    };
    accepts(&with_spec(&spread(json!({ "minDomains": 1 }))));
    for (patch, expected) in [
        (json!({ "maxSkew": 0 }), "maxSkew: Invalid value: 0: must be greater than 0"),
        (json!({ "topologyKey": "" }), "topologyKey: Required value"),
        (json!({ "whenUnsatisfiable": "x" }), "whenUnsatisfiable: Unsupported value"),
        (json!({ "minDomains": 1, "whenUnsatisfiable": "ScheduleAnyway" }), "minDomains: Invalid value: 1"),
        (json!({ "nodeTaintsPolicy": "x" }), "nodeTaintsPolicy: Unsupported value"),
        (json!({ "matchLabelKeys": ["a"] }), "matchLabelKeys: Forbidden"),
        (
            json!({ "labelSelector": { "matchLabels": { "a": "x y" } } }),
            "labelSelector.matchLabels[a]: Invalid value",
        ),
    ] {
        rejects_spec(&spread(patch), &format!("topologySpreadConstraints[0].{expected}"));
    }
    rejects_spec(&json!({ "nodeSelector": { "a": "x y" } }), "nodeSelector[a]: Invalid value");
}

#[test]
fn validates_affinity() {
    let node = |term: Value| {
        let selector = json!({ "nodeSelectorTerms": [{ "matchExpressions": [term] }] });
        json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": selector } } })
    };
    let at = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]";
    accepts(&with_spec(&node(json!({ "key": "a", "operator": "In", "values": ["b"] }))));
    for (term, expected) in [
        (json!({ "key": "a", "operator": "In" }), "values: Required value"),
        (json!({ "key": "a", "operator": "Exists", "values": ["b"] }), "values: Forbidden"),
        (json!({ "key": "a", "operator": "Gt" }), "values: Required value"),
        (json!({ "key": "a", "operator": "x" }), "operator: Invalid value"),
        (json!({ "key": "a b", "operator": "Exists" }), "key: Invalid value"),
        (json!({ "key": "a", "operator": "In", "values": ["x y"] }), "values[0]: Invalid value"),
    ] {
        rejects_spec(&node(term), &format!("{at}.{expected}"));
    }
    let pods = |term: Value| json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } });
    let at = "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    accepts(&with_spec(&pods(
        json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "a": "b" } } }),
    )));
    rejects_spec(&pods(json!({})), &format!("{at}.topologyKey: Required value"));
    rejects_spec(
        &pods(json!({ "topologyKey": "a", "namespaces": ["A"] })),
        &format!("{at}.namespaces[0]: Invalid value"),
    );
    let weighted = json!({ "affinity": { "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 0, "podAffinityTerm": { "topologyKey": "a" } }] } } });
    rejects_spec(
        &weighted,
        "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0",
    );
}

#[test]
fn disabled_gates_relax_validation() {
    use crate::{ManifestRules, ValidationGates, defaults, validate};
    let relaxed = ValidationGates {
        strict_ip_addresses: false,
        forbid_host_network_with_user_namespace: false,
        allow_merged_spread_keys: false,
        check_deletion_cost: false,
        allow_numeric_tolerations: true,
        forbid_selinux_mount_option: false,
    };
    let violation_paths = |pod: &serde_json::Value, validation_gates| {
        let mut pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod.clone()).unwrap();
        defaults::apply(&mut pod);
        let violations =
            validate::check_pod(&pod, ManifestRules { validation_gates, ..ManifestRules::default() });
        violations.into_iter().map(|(path, _)| path.to_string()).collect::<Vec<_>>()
    };
    let mut with_invalid_cost = valid_pod();
    with_invalid_cost["metadata"]["annotations"] =
        json!({ "controller.kubernetes.io/pod-deletion-cost": "much" });
    let alias = |ip: &str| with_spec(&json!({ "hostAliases": [{ "ip": ip }] }));
    for pod in [
        with_invalid_cost,
        alias("010.002.000.04"),
        alias("::ffff:1.2.3.4"),
        with_spec(&json!({ "dnsPolicy": "None", "dnsConfig": { "nameservers": ["10.0.0.010"] } })),
        with_spec(&json!({ "hostUsers": false, "hostNetwork": true })),
        with_spec(&json!({ "tolerations": [{ "key": "sla", "operator": "Gt", "value": "-5" }] })),
        with_spec(&json!({ "securityContext": { "seLinuxChangePolicy": "MountOption" } })),
    ] {
        assert_eq!(violation_paths(&pod, ValidationGates::DEFAULT).len(), 1, "{pod}");
        assert_eq!(violation_paths(&pod, relaxed), Vec::<String>::new(), "{pod}");
    }
    for value in ["", "007", "+1", "1.5", "high", "99999999999999999999"] {
        let pod = with_spec(&json!({ "tolerations": [{ "key": "a", "operator": "Lt", "value": value }] }));
        assert_eq!(violation_paths(&pod, relaxed), ["spec.tolerations[0].value"]);
    }
    for pod in [alias("10.0.0.256"), alias("10.0.0"), alias("10..0.1"), alias("x")] {
        assert_eq!(violation_paths(&pod, relaxed).len(), 1, "{pod}");
    }
    // Without the gate, the API server does not add the keys to the selector, so they must not occur there.
    let spread = with_spec(&json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"],
        "labelSelector": { "matchLabels": { "app": "web" } } }] }));
    assert_eq!(violation_paths(&spread, ValidationGates::DEFAULT), Vec::<String>::new());
    assert_eq!(violation_paths(&spread, relaxed), ["spec.topologySpreadConstraints[0].matchLabelKeys[0]"]);
}
