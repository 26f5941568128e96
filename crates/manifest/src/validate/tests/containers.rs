use serde_json::json;

use super::{accepts, rejects, with_container, with_spec};

const CONTAINER: &str = "spec.containers[0]";

#[track_caller]
fn rejects_container(patch: &serde_json::Value, expected: &str) {
    rejects(&with_container(patch), &format!("{CONTAINER}.{expected}"));
}

#[test]
fn validates_container_names_and_images() {
    rejects_container(&json!({ "name": "" }), "name: Required value");
    rejects_container(&json!({ "name": "Web" }), "name: Invalid value: \"Web\": a lowercase RFC 1123 label");
    rejects_container(&json!({ "image": null }), "image: Required value");
    rejects_container(
        &json!({ "image": " a" }),
        "image: Invalid value: \" a\": must not have leading or trailing",
    );
    rejects_container(
        &json!({ "imagePullPolicy": "Often" }),
        "imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
    );
    rejects_container(
        &json!({ "terminationMessagePolicy": "x" }),
        "terminationMessagePolicy: Unsupported value",
    );
    rejects(&with_spec(&json!({ "containers": [] })), "spec.containers: Required value");
    let twice = json!([{ "name": "a", "image": "i" }, { "name": "a", "image": "i" }]);
    rejects(&with_spec(&json!({ "containers": twice })), "spec.containers[1].name: Duplicate value: \"a\"");
    let init = json!({ "initContainers": [{ "name": "web", "image": "i" }] });
    rejects(&with_spec(&init), "spec.initContainers[0].name: Duplicate value: \"web\"");
}

#[test]
fn validates_container_ports() {
    let port = |patch: serde_json::Value| {
        let mut port = json!({ "containerPort": 80 });
        super::merge(&mut port, &patch);
        json!({ "ports": [port] })
    };
    accepts(&with_container(&port(json!({ "name": "http", "hostPort": 8080, "protocol": "UDP" }))));
    rejects_container(&port(json!({ "containerPort": 0 })), "ports[0].containerPort: Required value");
    rejects_container(
        &port(json!({ "containerPort": 70000 })),
        "ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535",
    );
    rejects_container(&port(json!({ "hostPort": -1 })), "ports[0].hostPort: Invalid value: -1");
    rejects_container(&port(json!({ "name": "HTTP" })), "ports[0].name: Invalid value: \"HTTP\"");
    rejects_container(
        &port(json!({ "protocol": "HTTP" })),
        "ports[0].protocol: Unsupported value: \"HTTP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
    );
    let ports = |list: serde_json::Value| json!({ "ports": list });
    rejects_container(
        &ports(json!([{ "containerPort": 1, "name": "a" }, { "containerPort": 2, "name": "a" }])),
        "ports[1].name: Duplicate value: \"a\"",
    );
    rejects_container(
        &ports(json!([{ "containerPort": 1, "hostPort": 9 }, { "containerPort": 2, "hostPort": 9 }])),
        "ports[1].hostPort: Duplicate value: \"TCP//9\"",
    );
    let mut pod = with_container(&port(json!({ "hostPort": 81 })));
    super::merge(&mut pod, &json!({ "spec": { "hostNetwork": true } }));
    rejects(&pod, "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort`");
}

#[test]
fn validates_environment_variables() {
    let env = |variable: serde_json::Value| json!({ "env": [variable] });
    let from = |source: serde_json::Value| env(json!({ "name": "A", "valueFrom": source }));
    accepts(&with_container(&env(json!({ "name": "a.b-c", "value": "x" }))));
    accepts(&with_container(&from(json!({ "fieldRef": { "fieldPath": "metadata.labels['app']" } }))));
    accepts(&with_container(&from(json!({ "fieldRef": { "fieldPath": "status.podIPs" } }))));
    accepts(&with_container(&from(
        json!({ "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1m" } }),
    )));
    rejects_container(&env(json!({ "value": "x" })), "env[0].name: Required value");
    rejects_container(&env(json!({ "name": "a=b" })), "env[0].name: Invalid value: \"a=b\"");
    rejects_container(&from(json!({})), "env[0].valueFrom: Invalid value: \"\": must specify one of");
    let both =
        json!({ "name": "A", "value": "x", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } });
    rejects_container(&env(both), "env[0].valueFrom: Invalid value: \"\": may not be specified when `value`");
    let two = json!({ "fieldRef": { "fieldPath": "metadata.name" }, "resourceFieldRef": { "resource": "limits.cpu" } });
    rejects_container(&from(two), "env[0].valueFrom: Invalid value: \"\": may not have more than one field");
    let at = "env[0].valueFrom";
    for (source, expected) in [
        (
            json!({ "fieldRef": { "fieldPath": "spec.x" } }),
            "fieldRef.fieldPath: Unsupported value: \"spec.x\"",
        ),
        (json!({ "fieldRef": { "fieldPath": "metadata.labels" } }), "fieldRef.fieldPath: Unsupported value"),
        (
            json!({ "fieldRef": { "fieldPath": "spec.x['a']" } }),
            "fieldRef.fieldPath: Invalid value: \"spec.x\": does not support subscript",
        ),
        (json!({ "fieldRef": { "fieldPath": "" } }), "fieldRef.fieldPath: Required value"),
        (
            json!({ "fieldRef": { "apiVersion": "v2", "fieldPath": "metadata.name" } }),
            "fieldRef.fieldPath: Invalid value",
        ),
        (
            json!({ "resourceFieldRef": { "resource": "limits.gpu" } }),
            "resourceFieldRef.resource: Unsupported value",
        ),
        (
            json!({ "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1Ki" } }),
            "resourceFieldRef.divisor: Invalid value: \"1Ki\"",
        ),
        (json!({ "configMapKeyRef": { "name": "c", "key": ".." } }), "configMapKeyRef.key: Invalid value"),
        (json!({ "secretKeyRef": { "name": "s" } }), "secretKeyRef.key: Required value"),
        (
            json!({ "fileKeyRef": { "volumeName": "v", "path": "p", "key": "K" } }),
            "fileKeyRef.volumeName: Not found: \"v\"",
        ),
    ] {
        rejects_container(&from(source), &format!("{at}.{expected}"));
    }
    rejects_container(&json!({ "envFrom": [{}] }), "envFrom[0]: Invalid value: \"\": must specify one of");
    rejects_container(
        &json!({ "envFrom": [{ "secretRef": {} }] }),
        "envFrom[0].secretRef.name: Required value",
    );
}

#[test]
fn validates_volume_mounts() {
    let mount = |patch: serde_json::Value| {
        let mut mount = json!({ "name": "v", "mountPath": "/v" });
        super::merge(&mut mount, &patch);
        let mut pod = with_container(&json!({ "volumeMounts": [mount] }));
        super::merge(&mut pod, &json!({ "spec": { "volumes": [{ "name": "v" }] } }));
        pod
    };
    accepts(&mount(json!({ "subPath": "a/b", "readOnly": true, "recursiveReadOnly": "Enabled" })));
    for (patch, expected) in [
        (json!({ "name": "w" }), "name: Not found: \"w\""),
        (json!({ "name": "" }), "name: Required value"),
        (json!({ "mountPath": "" }), "mountPath: Required value"),
        (json!({ "subPath": "/a" }), "subPath: Invalid value: \"/a\": must be a relative path"),
        (json!({ "subPath": "a/../b" }), "subPath: Invalid value: \"a/../b\": must not contain '..'"),
        (json!({ "subPathExpr": ".." }), "subPathExpr: Invalid value"),
        (
            json!({ "subPath": "a", "subPathExpr": "b" }),
            "subPathExpr: Invalid value: \"b\": subPathExpr and subPath",
        ),
        (json!({ "mountPropagation": "x" }), "mountPropagation: Unsupported value"),
        (json!({ "mountPropagation": "Bidirectional" }), "mountPropagation: Forbidden: Bidirectional"),
        (
            json!({ "recursiveReadOnly": "Enabled" }),
            "recursiveReadOnly: Forbidden: may only be specified when readOnly",
        ),
        (json!({ "recursiveReadOnly": "x" }), "recursiveReadOnly: Unsupported value"),
        (
            json!({ "readOnly": true, "recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer" }),
            "recursiveReadOnly: Forbidden",
        ),
    ] {
        rejects(&mount(patch), &format!("{CONTAINER}.volumeMounts[0].{expected}"));
    }
    let volume = json!({ "spec": { "volumes": [{ "name": "v" }] } });
    let mut twice = with_container(
        &json!({ "volumeMounts": [{ "name": "v", "mountPath": "/a" }, { "name": "v", "mountPath": "/a" }] }),
    );
    super::merge(&mut twice, &volume);
    rejects(&twice, &format!("{CONTAINER}.volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique"));
    let mut device = with_container(&json!({ "volumeDevices": [{ "name": "v", "devicePath": "/dev/v" }] }));
    super::merge(&mut device, &volume);
    rejects(
        &device,
        &format!("{CONTAINER}.volumeDevices[0].name: Invalid value: \"v\": block mode requires"),
    );
}

#[test]
fn validates_probes_and_hooks() {
    let probe = |kind: &str, patch: serde_json::Value| {
        let mut probe = json!({ "tcpSocket": { "port": 80 } });
        super::merge(&mut probe, &patch);
        json!({ kind: probe })
    };
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        accepts(&with_container(&probe(kind, json!({ "initialDelaySeconds": 5 }))));
        for (patch, expected) in [
            (json!({ "tcpSocket": null }), ": Required value: must specify a handler type"),
            (
                json!({ "exec": { "command": ["x"] } }),
                ".tcpSocket: Forbidden: may not specify more than 1 handler type",
            ),
            (json!({ "tcpSocket": null, "exec": {} }), ".exec.command: Required value"),
            (json!({ "tcpSocket": { "port": 0 } }), ".tcpSocket.port: Invalid value: 0"),
            (json!({ "tcpSocket": { "port": "UP" } }), ".tcpSocket.port: Invalid value: \"UP\""),
            (json!({ "tcpSocket": null, "grpc": { "port": 0 } }), ".grpc.port: Invalid value: 0"),
            (
                json!({ "tcpSocket": null, "httpGet": { "port": 1, "scheme": "FTP" } }),
                ".httpGet.scheme: Unsupported value",
            ),
            (
                json!({ "tcpSocket": null, "httpGet": { "port": 1, "httpHeaders": [{ "name": "a b" }] } }),
                ".httpGet.httpHeaders[0].name: Invalid",
            ),
            (
                json!({ "timeoutSeconds": -1 }),
                ".timeoutSeconds: Invalid value: -1: must be greater than or equal to 0",
            ),
            (json!({ "failureThreshold": -1 }), ".failureThreshold: Invalid value: -1"),
        ] {
            rejects_container(&probe(kind, patch), &format!("{kind}{expected}"));
        }
    }
    rejects_container(
        &probe("livenessProbe", json!({ "successThreshold": 2 })),
        "livenessProbe.successThreshold: Invalid value: 2: must be 1",
    );
    rejects_container(
        &probe("startupProbe", json!({ "successThreshold": 2 })),
        "startupProbe.successThreshold: Invalid value: 2: must be 1",
    );
    accepts(&with_container(&probe("readinessProbe", json!({ "successThreshold": 2 }))));
    rejects_container(
        &probe("readinessProbe", json!({ "terminationGracePeriodSeconds": 5 })),
        "readinessProbe.terminationGracePeriodSeconds: Invalid value: 5",
    );
    rejects_container(
        &probe("livenessProbe", json!({ "terminationGracePeriodSeconds": 0 })),
        "livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
    );
    let hook = |handler: serde_json::Value| json!({ "lifecycle": { "preStop": handler } });
    accepts(&with_container(&hook(json!({ "sleep": { "seconds": 30 } }))));
    rejects_container(&hook(json!({})), "lifecycle.preStop: Required value: must specify a handler type");
    rejects_container(
        &hook(json!({ "sleep": { "seconds": 31 } })),
        "lifecycle.preStop.sleep: Invalid value: 31",
    );
    let signal = json!({ "lifecycle": { "stopSignal": "SIGTERM" } });
    rejects_container(&signal, "lifecycle.stopSignal: Forbidden");
    let mut linux = with_container(&signal);
    super::merge(&mut linux, &json!({ "spec": { "os": { "name": "linux" } } }));
    accepts(&linux);
}

#[test]
fn validates_container_resources() {
    let resources = |limits: serde_json::Value, requests: serde_json::Value| json!({ "resources": { "limits": limits, "requests": requests } });
    accepts(&with_container(&resources(
        json!({ "cpu": 1, "example.com/gpu": 1 }),
        json!({ "cpu": "500m", "ephemeral-storage": "1Gi" }),
    )));
    for (limits, requests, expected) in [
        (
            json!({ "cpu": "1" }),
            json!({ "cpu": "2" }),
            "requests[cpu]: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            json!({ "cpu": "-1" }),
            json!({ "cpu": "-1" }),
            "limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            json!({ "gpu": 1 }),
            json!({}),
            "limits[gpu]: Invalid value: \"gpu\": must be a standard resource for containers",
        ),
        (
            json!({ "example.com/gpu": 2 }),
            json!({ "example.com/gpu": 1 }),
            "requests[example.com/gpu]: Invalid value: \"1\": must be equal to",
        ),
        (
            json!({ "example.com/gpu": 1.5 }),
            json!({}),
            "limits[example.com/gpu]: Invalid value: \"1500m\": must be an integer",
        ),
        (json!({}), json!({ "example.com/gpu": 1 }), "limits: Required value"),
        (json!({ "hugepages-2Mi": "2Mi" }), json!({}), ": Forbidden: HugePages require cpu or memory"),
        (
            json!({ "hugepages-2Mi": "3Mi", "cpu": 1 }),
            json!({}),
            "limits[hugepages-2Mi]: Invalid value: \"3Mi\": must be a whole multiple",
        ),
        (json!({ "cpu": "many" }), json!({}), "limits[cpu]: Invalid value: \"many\": quantities are"),
    ] {
        let pod = with_container(&resources(limits, requests));
        let found = super::problems(&pod);
        let prefix = format!("{CONTAINER}.resources.{expected}").replace(".:", ":");
        assert!(found.iter().any(|problem| problem.starts_with(&prefix)), "{prefix}: {found:#?}");
    }
    rejects_container(
        &json!({ "resources": { "claims": [{ "name": "c" }] } }),
        "resources.claims[0].name: Not found: \"c\"",
    );
}

#[test]
fn validates_restart_and_resize_policies() {
    let rule = json!({ "action": "Restart", "exitCodes": { "operator": "In", "values": [42] } });
    accepts(&with_container(&json!({ "restartPolicy": "Never", "restartPolicyRules": [rule] })));
    for (patch, expected) in [
        (json!({ "restartPolicy": "x" }), "restartPolicy: Unsupported value"),
        (json!({ "restartPolicyRules": [rule] }), "restartPolicy: Required value"),
        (
            json!({ "restartPolicy": "Never", "restartPolicyRules": [{ "action": "Restart" }] }),
            "restartPolicyRules[0].exitCodes: Required",
        ),
        (
            json!({ "restartPolicy": "Never", "restartPolicyRules": [{ "action": "x", "exitCodes": { "operator": "In" } }] }),
            "restartPolicyRules[0].action: Unsupp",
        ),
        (
            json!({ "restartPolicy": "Never", "restartPolicyRules": [{ "action": "Restart", "exitCodes": { "operator": "x" } }] }),
            "restartPolicyRules[0].exitCodes.operator: Unsupp",
        ),
        (
            json!({ "restartPolicy": "Never", "restartPolicyRules": vec![rule.clone(); 21] }),
            "restartPolicyRules: Too many: 21",
        ),
        (
            json!({ "resizePolicy": [{ "resourceName": "gpu", "restartPolicy": "NotRequired" }] }),
            "resizePolicy[0].resourceName: Unsupp",
        ),
        (
            json!({ "resizePolicy": [{ "resourceName": "cpu", "restartPolicy": "x" }] }),
            "resizePolicy[0].restartPolicy: Unsupp",
        ),
    ] {
        rejects_container(&patch, expected);
    }
}

#[test]
fn validates_init_containers() {
    let init = |patch: serde_json::Value| {
        let mut container = json!({ "name": "init", "image": "i" });
        super::merge(&mut container, &patch);
        with_spec(&json!({ "initContainers": [container] }))
    };
    let probe = json!({ "livenessProbe": { "tcpSocket": { "port": 1 } } });
    let mut sidecar = probe.clone();
    super::merge(&mut sidecar, &json!({ "restartPolicy": "Always" }));
    accepts(&init(sidecar));
    rejects(
        &init(probe),
        "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers",
    );
    rejects(&init(json!({ "lifecycle": {} })), "spec.initContainers[0].lifecycle: Forbidden");
    rejects(
        &init(json!({ "resizePolicy": [{ "resourceName": "cpu", "restartPolicy": "RestartContainer" }] })),
        "spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value",
    );
}

#[test]
fn validates_container_security_context() {
    let security = |patch: serde_json::Value| json!({ "securityContext": patch });
    accepts(&with_container(&security(
        json!({ "runAsUser": 0, "privileged": true, "capabilities": { "add": ["NET_ADMIN"] } }),
    )));
    for (patch, expected) in [
        (json!({ "runAsUser": -1 }), "runAsUser: Invalid value: -1: must be between 0 and 2147483647"),
        (json!({ "procMount": "x" }), "procMount: Unsupported value"),
        (
            json!({ "procMount": "Unmasked" }),
            "procMount: Invalid value: \"Unmasked\": `hostUsers` must be false",
        ),
        (
            json!({ "privileged": true, "allowPrivilegeEscalation": false }),
            "allowPrivilegeEscalation: Invalid value: false: cannot set",
        ),
        (
            json!({ "capabilities": { "add": ["CAP_SYS_ADMIN"] }, "allowPrivilegeEscalation": false }),
            "allowPrivilegeEscalation: Invalid",
        ),
        (json!({ "seccompProfile": { "type": "x" } }), "seccompProfile.type: Unsupported value"),
        (json!({ "seccompProfile": {} }), "seccompProfile.type: Required value"),
        (
            json!({ "seccompProfile": { "type": "Localhost" } }),
            "seccompProfile.localhostProfile: Required value",
        ),
        (
            json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": "../x" } }),
            "seccompProfile.localhostProfile: Invalid value",
        ),
        (
            json!({ "seccompProfile": { "type": "Unconfined", "localhostProfile": "x" } }),
            "seccompProfile.localhostProfile: Invalid value",
        ),
        (
            json!({ "appArmorProfile": { "type": "Localhost", "localhostProfile": " x" } }),
            "appArmorProfile.localhostProfile: Invalid value",
        ),
        (
            json!({ "windowsOptions": { "runAsUserName": "a\\b\\c" } }),
            "windowsOptions.runAsUserName: Invalid value",
        ),
    ] {
        rejects_container(&security(patch), &format!("securityContext.{expected}"));
    }
}
