//! Image pulls with credentials of a service account.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, scenarios, sleeper, with};
use serde_json::{Value, json};
use testkit::registry::{Registry, RegistryOptions};

scenarios!(credential_provider_receives_service_account_token);

const AUDIENCE: &str = "registry.test";
/// Annotation of accounts that may pull.
const OPT_IN: &str = "registry.test/tenant";

/// A credential provider that records its input and returns the registry's password.
fn script(asked: &std::path::Path, host: &str) -> String {
    format!(
        r#"#!/bin/sh
cat >> {asked}
cat <<END
{{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
 "cacheKeyType": "Registry", "cacheDuration": "1h",
 "auth": {{"{host}": {{"username": "user", "password": "password"}}}}}}
END
"#,
        asked = asked.display(),
    )
}

async fn credential_provider_receives_service_account_token(agent: Agent) -> Result<()> {
    let locked =
        RegistryOptions { password: Some("dXNlcjpwYXNzd29yZA==".to_owned()), ..RegistryOptions::default() };
    let registry = Registry::start(locked).await?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let (program, asked) = (folder.path().join("opener"), folder.path().join("asked"));
    fs::write(&program, script(&asked, &registry.host())).context("write the provider")?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).context("make it executable")?;
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig",
        "providers": [{
            "name": "opener", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [registry.host()], "defaultCacheDuration": "1m",
            "tokenAttributes": {
                "serviceAccountTokenAudience": AUDIENCE, "cacheType": "ServiceAccount",
                "requireServiceAccount": true, "requiredServiceAccountAnnotationKeys": [OPT_IN],
            },
        }],
    });
    let file = folder.path().join("config.json");
    fs::write(&file, config.to_string()).context("write the configuration")?;
    let options = AgentOptions {
        arguments: vec![
            format!("--image-credential-provider-config={}", file.display()),
            format!("--image-credential-provider-bin-dir={}", folder.path().display()),
        ],
        ..AgentOptions::default()
    };
    let mut node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    allow_audience(&node).await?;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "puller", "annotations": {OPT_IN: "seven", "other": "x"}},
    });
    node.apply(&account).await?;
    let user = |name: &str, account: &str| {
        let pod = with(sleeper(name), "/spec/containers/0/image", json!(registry.image("team/app:1")));
        with(pod, "/spec/serviceAccountName", json!(account))
    };
    // The default account has not opted in: the provider is not called, and the pull is unauthorized.
    node.apply(&user("stranger", "default")).await?;
    node.wait_pod("stranger", "is refused", |pod| {
        ["ErrImagePull", "ImagePullBackOff"].contains(&pod.container("main").reason.as_str())
    })
    .await?;
    ensure!(!asked.exists(), "the provider was called for an account that has not opted in");
    node.apply(&user("web", "puller")).await?;
    node.wait_running("web").await?;
    let text = fs::read_to_string(&asked).context("read the provider's input")?;
    let request: Value = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
    ensure!(request["image"] == registry.image("team/app"), "{text}");
    ensure!(request["serviceAccountAnnotations"] == json!({OPT_IN: "seven"}), "{text}");
    let token = request["serviceAccountToken"].as_str().context("no token")?;
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    });
    let answer = node.kubectl_with_input(&["create", "-o", "json", "-f", "-"], &review.to_string()).await?;
    let answer: Value = serde_json::from_str(&answer)?;
    let user = format!("system:serviceaccount:{}:puller", node.namespace);
    ensure!(answer["status"]["user"]["username"] == user, "{answer}");
    ensure!(!node.agent.log_tail(10_000).contains(token), "a token is in the log");
    node.kubectl(&["delete", "pod", "stranger"]).await?;
    node.restart_agent_unseen().await?;
    node.end()
}

/// Nodes may request tokens for an audience that no volume uses only if RBAC allows it.
async fn allow_audience(node: &ClusterNode) -> Result<()> {
    let name = format!("audience-{}", node.name);
    node.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
        "rules": [{
            "apiGroups": [""], "resources": [AUDIENCE], "verbs": ["request-serviceaccounts-token-audience"],
        }],
    }))
    .await?;
    node.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    }))
    .await
}
