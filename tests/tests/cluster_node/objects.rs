//! ConfigMaps, Secrets, tokens and services in pods.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::images::BUSYBOX;

scenarios!(
    pod_waits_for_objects_and_reads_them,
    object_changes_update_projected_files,
    projected_token_is_accepted_by_the_cluster,
    pod_has_service_environment_variables,
    deleted_pods_leave_no_watches_and_warnings
);

fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
}

/// A pod with the ConfigMap `settings` and the Secret `keys` as environment and files.
fn reader(name: &str) -> Value {
    let script = "env | grep ^GOT_ | sort; cat /settings/colour /keys/word; echo; sleep 100000";
    let main = json!({
        "name": "main", "image": BUSYBOX, "command": ["/bin/sh", "-c", script],
        "env": [
            {"name": "GOT_COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
            {"name": "GOT_WORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "word"}}},
        ],
        "envFrom": [{"prefix": "GOT_ALL_", "configMapRef": {"name": "settings"}}],
        "volumeMounts": [{"name": "settings", "mountPath": "/settings"}, {"name": "keys", "mountPath": "/keys"}],
    });
    let volumes = json!([
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
    ]);
    with(pod(name, [main]), "/spec/volumes", volumes)
}

async fn pod_waits_for_objects_and_reads_them(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    // The pod is created first and waits for the objects.
    node.apply(&reader("web")).await?;
    node.apply(&config_map("settings", &json!({"colour": "red"}))).await?;
    node.apply(&secret("keys", &json!({"word": "open"}))).await?;
    node.wait_running("web").await?;
    node.wait("the pod has read everything", async || {
        let log = node.log("web", "main").await?;
        ensure!(log == "GOT_ALL_colour=red\nGOT_COLOUR=red\nGOT_WORD=open\nredopen\n", "{log:?}");
        Ok(())
    })
    .await?;
    node.restart_agent_unseen().await?;
    node.end()
}

async fn object_changes_update_projected_files(agent: Agent) -> Result<()> {
    // The upstream kubelet updates volumes only when it syncs the pod.
    let options = AgentOptions { overlay: json!({"syncFrequency": "5s"}), ..AgentOptions::default() };
    let mut node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    node.apply(&config_map("settings", &json!({"colour": "red"}))).await?;
    node.apply(&secret("keys", &json!({"word": "open"}))).await?;
    node.apply(&reader("web")).await?;
    let before = node.wait_running("web").await?;
    node.apply(&config_map("settings", &json!({"colour": "blue", "size": "big"}))).await?;
    node.apply(&secret("keys", &json!({"word": "shut"}))).await?;
    let says = async |plugin: &str, file: &str, text: &str| {
        let (volume, name) = file.split_once('/').context("volume and file")?;
        let path = node.volume(&before.uid, plugin, volume).join(name);
        node.wait(&format!("{file} says {text}"), async || {
            let found = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            ensure!(found == text, "{found:?}");
            Ok(())
        })
        .await
    };
    says("configmap", "settings/colour", "blue").await?;
    says("configmap", "settings/size", "big").await?;
    says("secret", "keys/word", "shut").await?;
    let after = node.pod("web").await?;
    ensure!(after.container("main") == before.container("main"), "{after:?}");
    node.restart_agent_unseen().await?;
    node.end()
}

async fn projected_token_is_accepted_by_the_cluster(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let audience = json!([{"name": "token", "projected": {"sources": [
        {"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 600}},
    ]}}]);
    let mut main = container("main", "sleep forever");
    main["volumeMounts"] = json!([{"name": "token", "mountPath": "/token"}]);
    node.apply(&with(pod("web", [main]), "/spec/volumes", audience)).await?;
    let web = node.wait_running("web").await?;
    let object = node.get(&["pod", "web"]).await?;
    let volumes = object["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let own = volumes
        .iter()
        .filter_map(|one| one["name"].as_str())
        .find(|name| name.starts_with("kube-api-access"));
    let folder = node.volume(&web.uid, "projected", own.context("no volume of the service account")?);
    let user = format!("system:serviceaccount:{}:default", node.namespace);
    let review = review(&node, &folder.join("token"), &json!([])).await?;
    ensure!(
        review["status"]["authenticated"] == true && review["status"]["user"]["username"] == user,
        "{review}"
    );
    let extra = &review["status"]["user"]["extra"]["authentication.kubernetes.io/pod-uid"][0];
    ensure!(*extra == web.uid.as_str(), "the token is bound to {extra}");
    let authority = std::fs::read_to_string(folder.join("ca.crt")).context("read ca.crt")?;
    ensure!(authority == std::fs::read_to_string(node.plane.authority_file())?, "another authority");
    ensure!(std::fs::read_to_string(folder.join("namespace"))? == node.namespace, "another namespace");
    let vault = node.volume(&web.uid, "projected", "token").join("vault");
    let narrow = self::review(&node, &vault, &json!(["vault"])).await?;
    ensure!(narrow["status"]["authenticated"] == true, "{narrow}");
    let wrong = self::review(&node, &vault, &json!([])).await?;
    ensure!(wrong["status"]["authenticated"] != true, "a token for others was accepted");
    node.restart_agent_unseen().await?;
    node.end()
}

async fn review(node: &ClusterNode, token: &Path, audiences: &Value) -> Result<Value> {
    let token = std::fs::read_to_string(token).with_context(|| format!("read {}", token.display()))?;
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences},
    });
    let answer = node.kubectl_with_input(&["create", "-o", "json", "-f", "-"], &review.to_string()).await?;
    serde_json::from_str(&answer).context("read a TokenReview")
}

async fn pod_has_service_environment_variables(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "data-base"},
        "spec": {"selector": {"app": "db"}, "ports": [{"name": "sql", "port": 5432}]},
    });
    node.apply(&service).await?;
    let address = node.get(&["service", "data-base"]).await?["spec"]["clusterIP"].clone();
    let address = address.as_str().context("no cluster address")?;
    let expected = [
        format!("DATA_BASE_SERVICE_HOST={address}"),
        "DATA_BASE_SERVICE_PORT=5432".to_owned(),
        "DATA_BASE_SERVICE_PORT_SQL=5432".to_owned(),
        format!("DATA_BASE_PORT=tcp://{address}:5432"),
        "KUBERNETES_SERVICE_HOST=10.96.0.1".to_owned(),
        "KUBERNETES_SERVICE_PORT=443".to_owned(),
    ];
    // The agent receives the service asynchronously: a pod that was created too early is recreated.
    node.wait("a pod has the service variables", async || {
        node.kubectl(&["delete", "pod", "web", "--ignore-not-found", "--grace-period=1"]).await?;
        node.apply(&pod("web", [container("main", "env -- sleep forever")])).await?;
        node.wait_running("web").await?;
        let log = node.wait("it has written", async || {
            let log = node.log("web", "main").await?;
            ensure!(log.contains("HOSTNAME="), "{log}");
            Ok(log)
        });
        let log = log.await?;
        for line in &expected {
            ensure!(log.lines().any(|found| found == line), "no {line} in {log}");
        }
        Ok(())
    })
    .await?;
    node.apply(&with(
        pod("bare", [container("main", "env -- sleep forever")]),
        "/spec/enableServiceLinks",
        json!(false),
    ))
    .await?;
    node.wait_running("bare").await?;
    let log = node.log("bare", "main").await?;
    ensure!(log.contains("KUBERNETES_SERVICE_HOST=") && !log.contains("DATA_BASE"), "{log}");
    node.end()
}

/// Pods that are deleted gracefully, by force, and before they start: the API server refuses their objects from then on.
async fn deleted_pods_leave_no_watches_and_warnings(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let names: Vec<String> = (0..6).map(|number| format!("reader-{number}")).collect();
    node.apply(&config_map("settings", &json!({"colour": "red"}))).await?;
    node.apply(&secret("keys", &json!({"word": "open"}))).await?;
    for (number, name) in names.iter().enumerate() {
        node.apply(&reader(name)).await?;
        if number < 2 {
            node.wait_running(name).await?;
        }
        let force: &[&str] = if number % 2 == 0 { &[] } else { &["--force", "--grace-period=0"] };
        node.kubectl(&[&["delete", "pod", name, "--wait=false"], force].concat()).await?;
    }
    for name in &names {
        node.wait_absent(&["pod", name]).await?;
        node.wait("the containers are gone", async || {
            let left = node.cri().containers_of(name).await?;
            ensure!(left.is_empty(), "{} containers of {name}", left.len());
            Ok(())
        })
        .await?;
    }
    if agent == Agent::Podward {
        let refused = || -> Result<usize> {
            let all = node.requests()?;
            let objects = all.iter().filter(|one| ["configmaps", "secrets"].contains(&one.resource.as_str()));
            Ok(objects.filter(|one| one.code == 403).count())
        };
        // The upstream kubelet, too, starts watches for pods that are deleted meanwhile.
        node.wait("the watches of deleted pods end", async || {
            let before = refused()?;
            tokio::time::sleep(Duration::from_secs(15)).await;
            ensure!(refused()? == before, "the API server is still asked for their objects");
            Ok(())
        })
        .await?;
        let log = node.agent.log_tail(usize::MAX);
        let warning = log.lines().find(|line| line.contains(" WARN ") && line.contains("403"));
        ensure!(warning.is_none(), "{warning:?}");
    }
    // The API server may have refused objects of pods that were deleted before their first sync.
    Ok(())
}
