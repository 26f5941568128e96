//! Manifest sources and changes of manifests.

use std::os::unix::fs::symlink;
use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{
    Agent, AgentOptions, ManifestServer, Node, container, pod, podward_only, scenarios, sleeper, with,
};
use serde_json::{Value, json};
use testkit::poll::{eventually, throughout};

scenarios!(
    invalid_manifest_does_not_affect_valid_ones,
    http_source_applies_new_pod_lists,
    file_and_http_sources_work_together,
    retargeted_symlink_updates_the_pod,
    swapped_data_folder_updates_the_pods,
    relist_finds_changes_without_events,
    reads_yaml_manifests,
    reads_a_single_manifest_file,
    manifest_folder_can_appear_later,
);

podward_only!(
    ignores_hidden_and_temporary_files,
    reads_several_documents_from_one_file,
    last_valid_manifest_keeps_running,
);

fn overlay(value: Value) -> AgentOptions {
    AgentOptions { overlay: value, ..AgentOptions::default() }
}

async fn invalid_manifest_does_not_affect_valid_ones(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write_text("bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: [\n")?;
    node.write_text("worse.json", "{}")?;
    let nameless = with(sleeper("x"), "/metadata", json!({}));
    node.write("nameless.json", &nameless)?;
    node.write("good.json", &sleeper("good"))?;
    node.write("fine.json", &sleeper("fine"))?;
    node.wait_running("good").await?;
    node.wait_running("fine").await?;
    ensure!(node.agent.pods().await?.len() == 2, "an invalid file created a pod");
    node.write("bad.yaml", &sleeper("mended"))?;
    node.wait_running("mended").await?;
    Ok(())
}

async fn http_source_applies_new_pod_lists(agent: Agent) -> Result<()> {
    let server = ManifestServer::start().await?;
    server.serve(&sleeper("alone"));
    let options =
        overlay(json!({"staticPodURL": server.url(), "httpCheckFrequency": "1s", "staticPodPath": null}));
    let node = Node::start_with(agent, &options).await?;
    let alone = node.wait_running("alone").await?;
    server.serve(&list(&["alone", "one", "two"]));
    node.wait_running("one").await?;
    node.wait_running("two").await?;
    ensure!(node.pod("alone").await?.container("main").restarts == alone.container("main").restarts);
    server.serve(&list(&["two", "three"]));
    node.wait_gone("one").await?;
    node.wait_running("three").await?;
    let two = node.only_running("two").await?;
    server.fail();
    throughout("pods stay while the server fails", Duration::from_secs(4), async || {
        ensure!(node.only_running("two").await?.id == two.id, "the pod was restarted");
        Ok(())
    })
    .await?;
    server.serve_text("");
    node.wait_gone("two").await?;
    node.wait_gone("three").await
}

async fn file_and_http_sources_work_together(agent: Agent) -> Result<()> {
    let server = ManifestServer::start().await?;
    server.serve(&list(&["remote"]));
    let options = overlay(json!({"staticPodURL": server.url(), "httpCheckFrequency": "1s"}));
    let node = Node::start_with(agent, &options).await?;
    node.write("local.json", &sleeper("local"))?;
    node.wait_running("remote").await?;
    node.wait_running("local").await?;
    let remote = node.only_running("remote").await?;
    node.remove("local.json")?;
    node.wait_gone("local").await?;
    ensure!(node.only_running("remote").await?.id == remote.id);
    let source = |pod: &k8s_openapi::api::core::v1::Pod| {
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        annotations.get("kubernetes.io/config.source").cloned()
    };
    ensure!(source(&node.api_pod("remote").await?).as_deref() == Some("http"));
    Ok(())
}

async fn retargeted_symlink_updates_the_pod(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let store = node.runtime.instance().path("store");
    std::fs::create_dir_all(&store)?;
    std::fs::write(store.join("v1.json"), sleeper("first").to_string())?;
    std::fs::write(store.join("v2.json"), sleeper("second").to_string())?;
    let hidden = node.manifest(".link");
    symlink(store.join("v1.json"), &hidden)?;
    std::fs::rename(&hidden, node.manifest("web.json"))?;
    node.wait_running("first").await?;
    symlink(store.join("v2.json"), &hidden)?;
    std::fs::rename(&hidden, node.manifest("web.json"))?;
    node.wait_gone("first").await?;
    node.wait_running("second").await?;
    Ok(())
}

async fn swapped_data_folder_updates_the_pods(agent: Agent) -> Result<()> {
    // Upstream sees a `..data` swap only at its next relist.
    let node = Node::start_with(agent, &overlay(json!({"fileCheckFrequency": "2s"}))).await?;
    let swap = |version: &str, names: &[&str]| -> Result<()> {
        let folder = node.manifest(&format!("..{version}"));
        std::fs::create_dir(&folder)?;
        for (file, name) in ["a.json", "b.json"].iter().zip(names) {
            std::fs::write(folder.join(file), sleeper(name).to_string())?;
        }
        symlink(format!("..{version}"), node.manifest("..data_tmp"))?;
        Ok(std::fs::rename(node.manifest("..data_tmp"), node.manifest("..data"))?)
    };
    swap("1", &["one", "same"])?;
    symlink("..data/a.json", node.manifest("a.json"))?;
    symlink("..data/b.json", node.manifest("b.json"))?;
    node.wait_running("one").await?;
    node.wait_running("same").await?;
    let same = node.only_running("same").await?;
    swap("2", &["two", "same"])?;
    std::fs::remove_dir_all(node.manifest("..1"))?;
    node.wait_gone("one").await?;
    node.wait_running("two").await?;
    ensure!(node.only_running("same").await?.id == same.id, "an unchanged pod was restarted");
    ensure!(node.agent.pods().await?.len() == 2);
    Ok(())
}

async fn relist_finds_changes_without_events(agent: Agent) -> Result<()> {
    // The target of the link is outside the watched folder.
    let node = Node::start_with(agent, &overlay(json!({"fileCheckFrequency": "2s"}))).await?;
    let store = node.runtime.instance().path("store");
    std::fs::create_dir_all(&store)?;
    std::fs::write(store.join("web.json"), sleeper("first").to_string())?;
    symlink(store.join("web.json"), node.manifest("web.json"))?;
    node.wait_running("first").await?;
    std::fs::write(store.join("web.json"), sleeper("second").to_string())?;
    node.wait_gone("first").await?;
    node.wait_running("second").await?;
    Ok(())
}

async fn reads_yaml_manifests(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write_text(
        "web.yaml",
        "# a comment\napiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: apps\n  labels: {tier: front}\n\
         spec:\n  containers:\n  - name: main\n    image: podward.test/demo:1\n    args: [sleep, forever]\n",
    )?;
    node.wait_running("web").await?;
    let metadata = node.api_pod("web").await?.metadata;
    ensure!(metadata.namespace.as_deref() == Some("apps"), "{metadata:?}");
    Ok(())
}

async fn reads_a_single_manifest_file(agent: Agent) -> Result<()> {
    let mut node = Node::prepare(agent, &AgentOptions::default()).await?;
    let file = node.manifest("only.json");
    node.write("only.json", &sleeper("web"))?;
    node.write("other.json", &sleeper("other"))?;
    node.configure(agent, &overlay(json!({"staticPodPath": file, "fileCheckFrequency": "2s"})))?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.wait_running("web").await?;
    ensure!(node.pod("other").await.is_err(), "a file beside the configured one was read");
    node.write("only.json", &sleeper("next"))?;
    node.wait_gone("web").await?;
    node.wait_running("next").await?;
    Ok(())
}

async fn manifest_folder_can_appear_later(agent: Agent) -> Result<()> {
    let mut node = Node::prepare(agent, &AgentOptions::default()).await?;
    let folder = node.runtime.instance().path("later");
    node.configure(agent, &overlay(json!({"staticPodPath": folder, "fileCheckFrequency": "2s"})))?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("web.json"), sleeper("web").to_string())?;
    node.wait_running("web").await?;
    std::fs::remove_file(folder.join("web.json"))?;
    node.wait_gone("web").await
}

async fn ignores_hidden_and_temporary_files(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let text = sleeper("wrong").to_string();
    for name in [".web.json", "web.json~", "web.json.bak", "web.json.swp", "web.json.tmp", "web.json.orig"] {
        std::fs::write(node.manifest(name), &text)?;
    }
    node.write("web.json", &sleeper("right"))?;
    node.wait_running("right").await?;
    ensure!(node.pod("wrong").await.is_err(), "a leftover became a pod");
    Ok(())
}

async fn reads_several_documents_from_one_file(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let text = format!("---\n{}\n---\n# nothing\n---\n{}\n", sleeper("one"), list(&["two", "three"]));
    node.write_text("all.yaml", &text)?;
    for name in ["one", "two", "three"] {
        node.wait_running(name).await?;
    }
    Ok(())
}

async fn last_valid_manifest_keeps_running(agent: Agent) -> Result<()> {
    let node = Node::start_with(agent, &overlay(json!({"fileCheckFrequency": "1s"}))).await?;
    node.write("web.json", &pod("web", [container("main", "sleep forever")]))?;
    node.wait_running("web").await?;
    let before = node.only_running("web").await?;
    node.write_text("web.json", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\"")?;
    node.agent.wait_log("web.json", Duration::from_secs(10)).await?;
    throughout("last good version runs", Duration::from_secs(5), async || {
        ensure!(node.only_running("web").await?.id == before.id, "the pod was restarted");
        ensure!(node.pod("web").await?.all_running());
        Ok(())
    })
    .await?;
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    eventually("gone", Duration::from_secs(5), async || {
        ensure!(node.agent.pods().await?.is_empty());
        Ok(())
    })
    .await
}

fn list(names: &[&str]) -> Value {
    let items: Vec<Value> = names.iter().map(|name| sleeper(name)).collect();
    json!({"apiVersion": "v1", "kind": "PodList", "items": items})
}
