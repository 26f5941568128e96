//! Environment variables of containers, the same on both agents.

use anyhow::{Result, ensure};
use scenarios::{Agent, NODE, Node, container, pod, scenarios, with};
use serde_json::{Value, json};

use crate::support::{lines, wait_waiting};

scenarios!(
    variables_can_reference_each_other,
    variables_from_fields_and_resources,
    resource_references_default_to_node_allocatable,
    variables_can_come_from_a_file,
    invalid_variable_file_keeps_container_waiting
);

fn with_env(name: &str, env: &Value) -> Value {
    pod(
        name,
        [with(
            container("main", "env -- print $(V_A) -- print $$(V_A) -- sleep forever"),
            "/env",
            env.clone(),
        )],
    )
}

async fn variables_can_reference_each_other(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let env = json!([
        {"name": "V_EARLY", "value": "$(V_A)"},
        {"name": "V_A", "value": "one"},
        {"name": "V_B", "value": "$(V_A)-$$(V_A)-$(V_NONE)-$(V_A"},
        {"name": "V_A", "value": "two:$(V_A)"},
        {"name": "V_EMPTY", "value": ""},
    ]);
    node.write("web.json", &with_env("web", &env))?;
    node.wait_running("web").await?;
    let found = lines(&node, "web", "main", "V_").await?;
    ensure!(
        found == ["V_A=two:one", "V_B=one-$(V_A)-$(V_NONE)-$(V_A", "V_EARLY=$(V_A)", "V_EMPTY="],
        "{found:?}"
    );
    let log = node.log("web", "main").await?;
    ensure!(log.ends_with("two:one\n$(V_A)\n"), "{log}");
    Ok(())
}

async fn variables_from_fields_and_resources(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let resource = |name: &str, resource: &str, divisor: &str| json!({"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}});
    let env = json!([
        field("V_NAME", "metadata.name"),
        field("V_NAMESPACE", "metadata.namespace"),
        field("V_NODE", "spec.nodeName"),
        field("V_LABEL", "metadata.labels['tier']"),
        field("V_NOTE", "metadata.annotations['note']"),
        field("V_ZIP", "status.podIP"),
        field("V_ZIPS", "status.podIPs"),
        field("V_ZHOST", "status.hostIP"),
        resource("V_CPU", "limits.cpu", "1"),
        resource("V_CPU_MILLI", "limits.cpu", "1m"),
        resource("V_MEMORY", "requests.memory", "1Mi"),
        resource("V_NONE", "requests.ephemeral-storage", "1"),
    ]);
    let web = with_env("web", &env);
    let web = with(
        web,
        "/spec/containers/0/resources",
        json!({"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"memory": "33Mi"}}),
    );
    let web = with(web, "/metadata/labels", json!({"tier": "front"}));
    let web = with(web, "/metadata/annotations", json!({"note": "hi there"}));
    node.write("web.json", &web)?;
    let pod = node.wait_running("web").await?;
    let mut found = lines(&node, "web", "main", "V_").await?;
    let hosts = found.extract_if(.., |line| line.starts_with("V_ZHOST=")).collect::<Vec<_>>();
    ensure!(hosts.iter().all(|line| line.len() > "V_ZHOST=".len()) && hosts.len() == 1, "{hosts:?}");
    let expected = [
        "V_CPU=2".to_owned(),
        "V_CPU_MILLI=1500".to_owned(),
        "V_LABEL=front".to_owned(),
        "V_MEMORY=33".to_owned(),
        format!("V_NAME=web-{NODE}"),
        "V_NAMESPACE=default".to_owned(),
        format!("V_NODE={NODE}"),
        "V_NONE=0".to_owned(),
        "V_NOTE=hi there".to_owned(),
        format!("V_ZIP={}", pod.ip),
        format!("V_ZIPS={}", pod.ip),
    ];
    ensure!(found == expected, "{found:?}");
    Ok(())
}

/// The node's capacity is the same for both agents, so the files are compared with each other.
async fn resource_references_default_to_node_allocatable(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let resource = |name: &str, resource: &str, divisor: &str| json!({"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}});
    let env = json!([
        resource("V_CPU", "limits.cpu", "1"),
        resource("V_MEMORY", "limits.memory", "1Mi"),
        resource("V_REQUEST", "requests.cpu", "1"),
    ]);
    node.write("plain.json", &with_env("plain", &env))?;
    let limited =
        with(with_env("limited", &env), "/spec/resources", json!({"limits": {"memory": "64Mi", "cpu": "1"}}));
    node.write("limited.json", &limited)?;
    node.wait_running("plain").await?;
    node.wait_running("limited").await?;
    let plain = lines(&node, "plain", "main", "V_").await?;
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let total: u64 = memory.split_whitespace().nth(1).unwrap_or_default().parse()?;
    let shown: u64 =
        plain.iter().find_map(|line| line.strip_prefix("V_MEMORY=")).unwrap_or_default().parse()?;
    ensure!(shown <= total.div_ceil(1024) && shown + 200 > total / 1024, "{shown} MiB of {total} KiB");
    let cpus = std::thread::available_parallelism()?.get();
    ensure!(
        plain.contains(&format!("V_CPU={cpus}")) && plain.contains(&"V_REQUEST=0".to_owned()),
        "{plain:?}"
    );
    let limited = lines(&node, "limited", "main", "V_").await?;
    ensure!(limited == ["V_CPU=1", "V_MEMORY=64", "V_REQUEST=0"], "{limited:?}");
    Ok(())
}

fn from_file(name: &str, line: &str, optional: bool) -> Value {
    let mount = json!([{"name": "shared", "mountPath": "/shared"}]);
    let mut init = container("init", "");
    if let Some(init) = init.as_object_mut() {
        init.insert("args".to_owned(), json!(["write", "/shared/env", line]));
        init.insert("volumeMounts".to_owned(), mount);
    }
    let reference = |key: &str, optional: bool| json!({"fileKeyRef": {"volumeName": "shared", "path": "env", "key": key, "optional": optional}});
    let env = json!([
        {"name": "V_A", "valueFrom": reference("A", optional)},
        {"name": "V_NONE", "valueFrom": reference("NONE", true)},
        {"name": "V_BOTH", "value": "<$(V_A)>"},
    ]);
    let manifest = with(with_env(name, &env), "/spec/initContainers", json!([init]));
    with(manifest, "/spec/volumes", json!([{"name": "shared", "emptyDir": {}}]))
}

async fn variables_can_come_from_a_file(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &from_file("web", "# first\n A='one # $(x)' # why\nB='two'", false))?;
    node.wait_running("web").await?;
    let found = lines(&node, "web", "main", "V_").await?;
    ensure!(found == ["V_A=one # $(x)", "V_BOTH=<one # $(x)>"], "{found:?}");
    Ok(())
}

async fn invalid_variable_file_keeps_container_waiting(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("bad.json", &from_file("bad", "A=unquoted", true))?;
    node.write("none.json", &from_file("none", "B='two'", false))?;
    wait_waiting(&node, "bad", "CreateContainerConfigError", "couldn't parse env file").await?;
    let missing = "environment variable key \"A\" not found in file";
    wait_waiting(&node, "none", "CreateContainerConfigError", missing).await
}
