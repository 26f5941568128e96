//! Checks that both agents send the same requests to the runtime for the same manifest, field by field.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, container, pod, with};
use serde_json::{Map, Value, json};
use testkit::poll::eventually;

#[test]
fn podward_sends_the_same_metadata_as_upstream() {
    if Agent::Podward.selected() && Agent::Upstream.selected() {
        // Podward takes part, so its number of attempts applies.
        let name = "metadata::podward_sends_the_same_metadata_as_upstream";
        scenarios::run(Agent::Podward, name, |_| compare(Agent::Upstream, Agent::Podward));
    }
}

/// Checks the test itself: differences between two runs of one agent must be normalised.
#[test]
fn upstream_metadata_is_reproducible() {
    let name = "metadata::upstream_metadata_is_reproducible";
    scenarios::run(Agent::Upstream, name, |_| compare(Agent::Upstream, Agent::Upstream));
}

#[test]
fn upstream_sends_known_metadata() {
    scenarios::run(Agent::Upstream, "metadata::upstream_sends_known_metadata", known_values);
}

#[test]
fn podward_sends_known_metadata() {
    scenarios::run(Agent::Podward, "metadata::podward_sends_known_metadata", known_values);
}

/// The manifests by file name.
fn manifests(node: &Node) -> Vec<(&'static str, Value)> {
    let rich = pod(
        "rich",
        [
            json!({
                "name": "main", "image": testkit::images::DEMO, "args": ["sleep", "forever"], "workingDir": "/tmp",
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                ],
                "ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 53, "protocol": "UDP"}],
                "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}},
                "securityContext": {
                    "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "runAsUser": 0,
                    "capabilities": {"add": ["NET_ADMIN"], "drop": ["MKNOD"]},
                },
                "volumeMounts": [
                    {"name": "disk", "mountPath": "/disk"},
                    {"name": "host", "mountPath": "/host", "readOnly": true},
                    {"name": "disk", "mountPath": "/part", "subPath": "deep/part"},
                    {"name": "disk", "mountPath": "/own", "subPathExpr": "own-$(A)", "mountPropagation": "HostToContainer"},
                ],
                "lifecycle": {"preStop": {"exec": {"command": ["/demo", "print", "bye"]}}},
                "terminationMessagePath": "/tmp/message", "terminationMessagePolicy": "FallbackToLogsOnError",
            }),
            json!({"name": "side", "image": testkit::images::DEMO_2, "command": ["/demo"], "args": ["sleep", "forever"], "tty": true, "stdin": true}),
        ],
    );
    let rich = with(rich, "/metadata/labels", json!({"app": "rich", "tier": "back"}));
    let rich = with(rich, "/metadata/annotations", json!({"note": "kept"}));
    let volumes = json!([
        {"name": "disk", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": node.runtime.instance().folder(), "type": ""}},
    ]);
    let rich = with(rich, "/spec/volumes", volumes);
    let context = json!({"fsGroup": 1234, "supplementalGroups": [7], "seccompProfile": {"type": "RuntimeDefault"},
        "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]});
    let rich = with(rich, "/spec/securityContext", context);
    let host = pod("host", [container("main", "sleep forever")]);
    let host = with(host, "/spec/hostNetwork", json!(true));
    let host = with(host, "/spec/dnsPolicy", json!("ClusterFirstWithHostNet"));
    let guaranteed = pod(
        "guaranteed",
        [with(
            container("main", "sleep forever"),
            "/resources",
            json!({"limits": {"cpu": "100m", "memory": "32Mi"}}),
        )],
    );
    let named =
        with(pod("named", [container("main", "sleep forever")]), "/metadata/namespace", json!("apps"));
    let named = with(named, "/metadata/uid", json!("99999999-0000-0000-0000-000000000000"));
    let named = with(named, "/spec/shareProcessNamespace", json!(true));
    vec![
        ("rich.json", rich),
        ("host.json", host),
        ("guaranteed.json", guaranteed),
        ("named.json", with(named, "/spec/hostname", json!("other"))),
        ("plain.json", pod("plain", [container("main", "sleep forever")])),
    ]
}

async fn compare(first: Agent, second: Agent) -> Result<()> {
    let mut node = Node::prepare(first, &AgentOptions::default()).await?;
    let left = record(&mut node, first).await?;
    let right = record(&mut node, second).await?;
    if first != second {
        let folder = testkit::images::workspace().join("target");
        std::fs::write(folder.join("metadata-upstream.json"), serde_json::to_string_pretty(&left)?)?;
        std::fs::write(folder.join("metadata-podward.json"), serde_json::to_string_pretty(&right)?)?;
    }
    let mut differences = BTreeMap::new();
    let places = |side: &Value| -> Vec<String> {
        let pods = side.as_object().into_iter().flatten();
        let objects = |(pod, objects): (&String, &Value)| -> Vec<String> {
            objects.as_object().into_iter().flatten().map(|(name, _)| format!("/{pod}/{name}")).collect()
        };
        pods.flat_map(objects).collect()
    };
    let all: std::collections::BTreeSet<String> = places(&left).into_iter().chain(places(&right)).collect();
    ensure!(all.len() > manifests(&node).len(), "nothing was recorded: {all:?}");
    for place in all {
        let side = |side: &Value| side.pointer(&place).cloned().unwrap_or(Value::Null);
        let mut found = Vec::new();
        diff("", &side(&left), &side(&right), &mut found);
        found.into_iter().for_each(|line| {
            differences.entry(line).or_insert_with(Vec::new).push(place.clone());
        });
    }
    let lines: Vec<_> =
        differences.iter().map(|(line, places)| format!("{line}\n    in {places:?}")).collect();
    ensure!(lines.is_empty(), "{} and {} differ:\n{}", first.name(), second.name(), lines.join("\n"));
    Ok(())
}

/// Runs the manifests with one agent and returns its requests to the runtime, then clears the node.
async fn record(node: &mut Node, agent: Agent) -> Result<Value> {
    node.agent.become_kind(agent)?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    let manifests = manifests(node);
    for (file, manifest) in &manifests {
        node.write(file, manifest)?;
    }
    let mut found = Map::new();
    for (_, manifest) in &manifests {
        let name = manifest.pointer("/metadata/name").and_then(Value::as_str).context("a name")?;
        node.wait_running(name).await?;
        let full = format!("{name}-node-a");
        let cri = node.cri();
        let mut pod = Map::new();
        for sandbox in cri.sandboxes_of(&full).await? {
            let mut config = cri.sandbox_info(&sandbox.id).await?["config"].take();
            normalise(&mut config, &[]);
            pod.insert("sandbox".to_owned(), config);
        }
        for view in cri.containers_of(&full).await? {
            let mut config = cri.container_info(&view.id).await?["config"].take();
            normalise(&mut config, &[&node.pod(name).await?.ip]);
            pod.insert(view.name, config);
        }
        found.insert(name.to_owned(), Value::Object(pod));
    }
    for (file, manifest) in &manifests {
        node.remove(file)?;
        node.wait_gone(manifest.pointer("/metadata/name").and_then(Value::as_str).context("a name")?).await?;
    }
    let root = node.agent.root().join("pods");
    eventually("the pod folders are removed", std::time::Duration::from_secs(60), async || {
        let left = std::fs::read_dir(&root)?.count();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await?;
    node.agent.term().await?;
    // Old sandboxes and logs would count as earlier attempts of the next agent's pods.
    node.cri().remove_all().await?;
    std::fs::remove_dir_all(node.agent.pod_logs())?;
    std::fs::create_dir_all(node.agent.pod_logs())?;
    Ok(Value::Object(found))
}

/// Removes values that differ between two runs of one agent: times, pod IPs, random file names.
fn normalise(value: &mut Value, addresses: &[&str]) {
    match value {
        Value::Object(fields) => {
            if let Some(seen) = fields.get_mut("kubernetes.io/config.seen") {
                *seen = json!("TIME");
            }
            // Environment and mounts are sets; their order is not defined.
            for name in ["envs", "mounts"] {
                if let Some(items) = fields.get_mut(name).and_then(Value::as_array_mut) {
                    items.sort_by_key(ToString::to_string);
                }
            }
            fields.values_mut().for_each(|field| normalise(field, addresses));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, addresses)),
        Value::String(text) => {
            if addresses.contains(&text.as_str()) && !text.is_empty() {
                "POD-IP".clone_into(text);
            } else if let Some((folder, _)) =
                text.rsplit_once('/').filter(|(folder, _)| folder.contains("/containers/"))
            {
                // The termination log of each container has a random name.
                *text = format!("{folder}/RANDOM");
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn diff(path: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let names: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let none = &Value::Null;
                let (left, right) = (left.get(name).unwrap_or(none), right.get(name).unwrap_or(none));
                diff(&format!("{path}/{name}"), left, right, found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                diff(&format!("{path}/{index}"), left, right, found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => found.push(format!("{path}: first {left}, second {right}")),
    }
}

async fn known_values(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write(
        "plain.json",
        &with(pod("plain", [container("main", "sleep forever")]), "/metadata/labels", json!({"app": "x"})),
    )?;
    let pod = node.wait_running("plain").await?;
    let sandbox = node.cri().sandboxes_of("plain-node-a").await?.pop().context("a sandbox")?;
    let labels: Vec<_> = sandbox.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let uid = &pod.uid;
    let expected = [
        "app=x".to_owned(),
        "io.kubernetes.pod.name=plain-node-a".to_owned(),
        "io.kubernetes.pod.namespace=default".to_owned(),
        format!("io.kubernetes.pod.uid={uid}"),
    ];
    ensure!(labels == expected, "{labels:?}");
    ensure!(sandbox.annotations.get("kubernetes.io/config.source").is_some_and(|source| source == "file"));
    ensure!(sandbox.annotations.get("kubernetes.io/config.hash") == Some(uid));
    let main = node.only_running("plain").await?;
    let annotation =
        |name: &str| main.annotations.get(&format!("io.kubernetes.{name}")).cloned().unwrap_or_default();
    ensure!(annotation("container.restartCount") == "0", "{:?}", main.annotations);
    ensure!(annotation("container.terminationMessagePath") == "/dev/termination-log");
    ensure!(annotation("container.terminationMessagePolicy") == "File");
    ensure!(annotation("pod.terminationGracePeriod") == "3");
    ensure!(annotation("container.hash") == "3cfe6b5e", "hash {}", annotation("container.hash"));
    ensure!(main.log_path.ends_with(&format!("default_plain-node-a_{uid}/main/0.log")), "{}", main.log_path);
    Ok(())
}
