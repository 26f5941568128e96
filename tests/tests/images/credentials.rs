//! Registries that require a password.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, podward_only, scenarios, sleeper, with};
use serde_json::{Value, json};
use testkit::registry::{Registry, RegistryOptions};

scenarios!(pulls_with_node_credentials, pulls_with_a_credential_provider);

podward_only!(pulls_with_a_pull_secret);

/// `user:password`.
const RIGHT: &str = "dXNlcjpwYXNzd29yZA==";
/// `user:wrong`.
const WRONG: &str = "dXNlcjp3cm9uZw==";

fn locked() -> RegistryOptions {
    RegistryOptions { password: Some(RIGHT.to_owned()), ..RegistryOptions::default() }
}

fn user_of(name: &str, image: &str) -> Value {
    with(sleeper(name), "/spec/containers/0/image", json!(image))
}

async fn pulls_with_node_credentials(agent: Agent) -> Result<()> {
    let (first, second) = (Registry::start(locked()).await?, Registry::start(locked()).await?);
    let mut node = Node::prepare(agent, &AgentOptions::default()).await?;
    let auths = json!({"auths": {
        (first.host()): {"auth": RIGHT},
        // The more specific entry is tried first, then the other one.
        (first.image("both")): {"auth": WRONG},
        (second.host()): {"username": "user", "password": "wrong"},
    }});
    fs::write(node.agent.root().join("config.json"), auths.to_string()).context("write config.json")?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.write("open.json", &user_of("open", &first.image("app:1")))?;
    node.write("both.json", &user_of("both", &first.image("both/app:1")))?;
    node.write("shut.json", &user_of("shut", &second.image("app:1")))?;
    node.wait_running("open").await?;
    node.wait_running("both").await?;
    let shut = node
        .wait_pod("shut", "is refused", |pod| {
            ["ErrImagePull", "ImagePullBackOff"].contains(&pod.container("main").reason.as_str())
        })
        .await?;
    ensure!(shut.phase == "Pending", "{shut:?}");
    ensure!(second.lookups("app:1") == 0, "the wrong password opened the registry");
    let pod = serde_json::to_value(node.api_pod("shut").await?)?;
    let message = pod.pointer("/status/containerStatuses/0/state/waiting/message");
    let message = message.and_then(Value::as_str).unwrap_or_default();
    ensure!(message.contains(&second.image("app:1")), "{message}");
    ensure!(!node.agent.log_tail(10_000).contains("password\""), "a password is in the log");
    Ok(())
}

async fn pulls_with_a_pull_secret(agent: Agent) -> Result<()> {
    let registry = Registry::start(locked()).await?;
    let node = Node::start(agent).await?;
    let pod = user_of("opened", &registry.image("app:1"));
    let pod = with(pod, "/spec/imagePullSecrets", json!([{"name": "lost"}, {"name": "opener"}]));
    node.write("opened.json", &pod)?;
    node.wait_pod("opened", "is refused", |pod| {
        ["ErrImagePull", "ImagePullBackOff"].contains(&pod.container("main").reason.as_str())
    })
    .await?;
    let auths = json!({"auths": {(registry.host()): {"auth": RIGHT}}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "opener"}, "stringData": {".dockerconfigjson": auths.to_string()},
    });
    node.write("opener.json", &secret)?;
    node.wait_running("opened").await?;
    let log = node.agent.log_tail(10_000);
    ensure!(
        log.contains("Unable to retrieve some image pull secrets (lost"),
        "the missing secret is not named"
    );
    ensure!(!log.contains(RIGHT), "a password is in the log");
    Ok(())
}

async fn pulls_with_a_credential_provider(agent: Agent) -> Result<()> {
    let registry = Registry::start(locked()).await?;
    let mut node = Node::prepare(agent, &AgentOptions::default()).await?;
    let folder = node.runtime.instance().path("providers");
    fs::create_dir_all(&folder).context("create the folder of providers")?;
    let (program, asked) = (folder.join("opener"), folder.join("asked"));
    let script = format!(
        r#"#!/bin/sh
cat >> {asked}
printf '|%s|%s\n' "$1" "$NAME" >> {asked}
cat <<END
{{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
 "cacheKeyType": "Registry", "cacheDuration": "1h",
 "auth": {{"{host}": {{"username": "user", "password": "password"}}}}}}
END
"#,
        asked = asked.display(),
        host = registry.host()
    );
    fs::write(&program, script).context("write the provider")?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).context("make it executable")?;
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig",
        "providers": [{
            "name": "opener", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [registry.host()], "defaultCacheDuration": "1m",
            "args": ["now; please"], "env": [{"name": "NAME", "value": "value"}],
        }],
    });
    let file = folder.join("config.json");
    fs::write(&file, config.to_string()).context("write the configuration")?;
    let options = AgentOptions {
        arguments: vec![
            format!("--image-credential-provider-config={}", file.display()),
            format!("--image-credential-provider-bin-dir={}", folder.display()),
        ],
        ..AgentOptions::default()
    };
    node.configure(agent, &options)?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.write("a.json", &user_of("a", &registry.image("team/a:1")))?;
    node.wait_running("a").await?;
    node.write("b.json", &user_of("b", &registry.image("team/b:1")))?;
    node.wait_running("b").await?;
    let text = fs::read_to_string(&asked).context("read the provider's input")?;
    let (request, words) = text.rsplit_once("\n|").or(text.split_once('|')).context("one question")?;
    ensure!(words.trim() == "now; please|value", "{text}");
    let request: Value = serde_json::from_str(request.trim()).with_context(|| text.clone())?;
    ensure!(request["kind"] == "CredentialProviderRequest", "{text}");
    ensure!(request["image"] == registry.image("team/a"), "the answer for the registry was kept: {text}");
    Ok(())
}
