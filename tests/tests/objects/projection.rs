//! ConfigMaps and Secrets as files; podward only, as upstream does not support them without an API server.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, container, pod, podward_only, scenarios, with};
use serde_json::{Value, json};
use testkit::poll::eventually;

use crate::support::{config_map, lines, secret, volume, wait_file, wait_waiting};

scenarios!(downward_api_volume_has_expected_files, label_change_updates_downward_api_volume);

podward_only!(
    objects_are_projected_as_files_and_environment,
    object_change_updates_files_without_restart,
    pod_starts_when_its_object_is_created,
    removed_and_invalid_objects_keep_projected_files,
    agent_killed_during_projection_leaves_consistent_files
);

#[expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]
fn with_files(name: &str, arguments: &str, source: Value) -> Value {
    let main = with(
        container("main", arguments),
        "/volumeMounts",
        json!([{"name": "files", "mountPath": "/files"}]),
    );
    let mut volume = json!({"name": "files"});
    if let (Some(volume), Some(source)) = (volume.as_object_mut(), source.as_object()) {
        volume.extend(source.clone());
    }
    with(pod(name, [main]), "/spec/volumes", json!([volume]))
}

async fn objects_are_projected_as_files_and_environment(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let mut web = with_files(
        "web",
        "cat /files/a -- cat /files/deep/password -- cat /files/name -- env -- sleep forever",
        json!({"projected": {"defaultMode": 0o440, "sources": [
            {"configMap": {"name": "settings", "items": [{"key": "a", "path": "a"}]}},
            {"secret": {"name": "keys", "items": [{"key": "password", "path": "deep/password", "mode": 0o400}]}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"configMap": {"name": "nowhere", "optional": true}},
        ]}}),
    );
    let main = web.pointer_mut("/spec/containers/0").and_then(Value::as_object_mut);
    main.into_iter().for_each(|main| {
        main.insert("envFrom".to_owned(), json!([{"prefix": "V_", "configMapRef": {"name": "settings"}}]));
        main.insert(
            "env".to_owned(),
            json!([
                {"name": "V_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "password"}}},
                {"name": "V_BOTH", "value": "$(V_a)+$(V_PASSWORD)"},
                {"name": "V_NONE", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "no", "optional": true}}},
            ]),
        );
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        config_map("settings", &json!({"a": "one\n"})), secret("keys", &json!({"password": "hunter2\n"})), web,
    ]});
    node.write("all.json", &list)?;
    node.wait_running("web").await?;
    let log = node.log("web", "main").await?;
    ensure!(log.starts_with("one\nhunter2\nweb-"), "{log}");
    let variables = lines(&node, "web", "main", "V_").await?;
    ensure!(variables == ["V_BOTH=one", "V_PASSWORD=hunter2", "V_a=one"], "{variables:?}");
    let files = volume(&node, "web", "projected", "files").await?;
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(files.join(name)).map(|found| found.permissions().mode() & 0o777)
    };
    ensure!((mode("a")?, mode("deep/password")?) == (0o440, 0o400));
    node.remove("all.json")?;
    node.wait_gone("web").await
}

async fn object_change_updates_files_without_restart(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("map.json", &config_map("settings", &json!({"a": "one", "b": "x"})))?;
    node.write("web.json", &with_files("web", "sleep forever", json!({"configMap": {"name": "settings"}})))?;
    let before = node.wait_running("web").await?;
    let files = volume(&node, "web", "configmap", "files").await?;
    wait_file(files.join("a"), "one").await?;
    let start = Instant::now();
    node.write("map.json", &config_map("settings", &json!({"a": "two"})))?;
    wait_file(files.join("a"), "two").await?;
    println!("projected after {:?}", start.elapsed());
    ensure!(!files.join("b").exists(), "a key that went is still there");
    let after = node.wait_running("web").await?;
    ensure!(before.container("main").id == after.container("main").id, "the container was restarted");
    Ok(())
}

async fn pod_starts_when_its_object_is_created(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write(
        "files.json",
        &with_files("files", "cat /files/a -- sleep forever", json!({"configMap": {"name": "late"}})),
    )?;
    let bulk = json!([{"secretRef": {"name": "late"}}]);
    let env = pod("env", [with(container("main", "env -- sleep forever"), "/envFrom", bulk)]);
    node.write("env.json", &env)?;
    wait_waiting(&node, "env", "CreateContainerConfigError", "secret \"late\" not found").await?;
    wait_waiting(&node, "files", "ContainerCreating", "").await?;
    let both = [config_map("late", &json!({"a": "here\n"})), secret("late", &json!({"LATE": "here"}))];
    node.write("late.json", &json!({"apiVersion": "v1", "kind": "List", "items": both}))?;
    let start = Instant::now();
    node.wait_running("files").await?;
    node.wait_running("env").await?;
    println!("both run after {:?}", start.elapsed());
    ensure!(node.log("files", "main").await? == "here\n");
    ensure!(lines(&node, "env", "main", "LATE").await? == ["LATE=here"]);
    Ok(())
}

async fn removed_and_invalid_objects_keep_projected_files(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    node.write("map.json", &config_map("settings", &json!({"a": "one\n"})))?;
    // The container exits each time a file requests it, and finds its volume unchanged.
    let arguments = "cat /files/a -- exit 1 --after 4";
    node.write("web.json", &with_files("web", arguments, json!({"configMap": {"name": "settings"}})))?;
    node.wait_running("web").await?;
    let files = volume(&node, "web", "configmap", "files").await?;
    node.write_text(
        "map.json",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: 7}\n",
    )?;
    node.restart_agent().await?;
    node.remove("map.json")?;
    node.wait_pod("web", "was restarted", |pod| pod.container("main").restarts >= 1 && pod.all_running())
        .await?;
    wait_file(files.join("a"), "one\n").await?;
    ensure!(node.log("web", "main").await? == "one\n", "the volume is not what it was");
    node.remove("web.json")?;
    node.wait_gone("web").await
}

async fn agent_killed_during_projection_leaves_consistent_files(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    let text = |version: usize| version.to_string().repeat(200_000);
    let map = |version: usize| config_map("settings", &json!({"a": text(version), "b": text(version)}));
    node.write("map.json", &map(0))?;
    node.write("web.json", &with_files("web", "sleep forever", json!({"configMap": {"name": "settings"}})))?;
    let before = node.wait_running("web").await?;
    let files = volume(&node, "web", "configmap", "files").await?;
    for version in 1..6 {
        node.write("map.json", &map(version))?;
        let wait = std::time::Duration::from_millis(u64::try_from(version)? * 25);
        tokio::time::sleep(wait).await;
        node.agent.kill9()?;
        let (a, b) = (std::fs::read_to_string(files.join("a"))?, std::fs::read_to_string(files.join("b"))?);
        ensure!(a == b && (a == text(version) || a == text(version - 1)), "half a file in round {version}");
        node.agent.start()?;
        node.agent.wait_ready().await?;
        wait_file(files.join("a"), &text(version)).await?;
    }
    let left = std::fs::read_dir(&files)?.count();
    ensure!(left == 4, "{left} entries besides ..data, its folder and two links");
    ensure!(node.wait_running("web").await?.container("main").id == before.container("main").id);
    Ok(())
}

fn downward(labels: &Value) -> Value {
    let item = |path: &str, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
    let resource = |path: &str, resource: &str, divisor: &str| {
        json!({"path": path, "mode": 0o400, "resourceFieldRef": {
            "containerName": "main", "resource": resource, "divisor": divisor,
        }})
    };
    let web = with_files(
        "web",
        "cat /files/labels -- print . -- cat /files/deep/name -- print . -- cat /files/cpu -- print . -- cat /files/memory -- print . -- sleep forever",
        json!({"downwardAPI": {"items": [
            item("labels", "metadata.labels"), item("deep/name", "metadata.name"),
            resource("cpu", "limits.cpu", "1m"), resource("memory", "limits.memory", "1Mi"),
        ]}}),
    );
    let web = with(web, "/spec/containers/0/resources", json!({"limits": {"cpu": "150m", "memory": "64Mi"}}));
    let web = with(web, "/metadata/uid", json!("5a1f7f5e-7a5c-4f3e-9d1c-0123456789ab"));
    with(web, "/metadata/labels", labels.clone())
}

async fn downward_api_volume_has_expected_files(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &downward(&json!({"b": "2", "a": "1"})))?;
    node.wait_running("web").await?;
    let name = format!("web-{}", scenarios::NODE);
    eventually("the files are reported", Duration::from_secs(10), async || {
        let log = node.log("web", "main").await?;
        ensure!(log == format!("a=\"1\"\nb=\"2\".\n{name}.\n150.\n64.\n"), "{log:?}");
        Ok(())
    })
    .await
}

async fn label_change_updates_downward_api_volume(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &downward(&json!({"a": "1"})))?;
    let before = node.wait_running("web").await?;
    node.write("web.json", &downward(&json!({"a": "2"})))?;
    let files = volume(&node, "web", "downward-api", "files").await?;
    wait_file(files.join("labels"), "a=\"2\"").await?;
    ensure!(node.wait_running("web").await?.container("main").id == before.container("main").id);
    Ok(())
}
