//! Every path, client and method, with a real API server that authenticates tokens and authorizes requests.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, NodeClient, podward_only, scenarios, sleeper};
use serde_json::{Value, json};

scenarios!(
    requests_require_permission,
    accepts_client_certificates,
    rejects_anonymous_clients_if_configured,
    streams_can_use_upstream_permission_rule,
    pods_page_lists_all_sources
);
podward_only!(read_permission_does_not_allow_exec, documented_defaults_pass_kube_bench);

/// Paths with a method that is served, and the node subresources that grant access.
const PATHS: &[(&str, &str, &[&str])] = &[
    ("GET", "/healthz", &["healthz", "proxy"]),
    ("GET", "/healthz/ping", &["healthz", "proxy"]),
    ("GET", "/healthz/syncloop", &["healthz", "proxy"]),
    ("GET", "/pods", &["pods", "proxy"]),
    ("GET", "/runningpods/", &["pods", "proxy"]),
    ("GET", "/configz", &["configz", "proxy"]),
    ("GET", "/flagz", &["configz"]),
    ("GET", "/statusz", &["statusz"]),
    ("GET", "/metrics", &["metrics"]),
    ("GET", "/metrics/probes", &["metrics"]),
    ("GET", "/metrics/slis", &["metrics"]),
    ("DELETE", "/metrics/slis", &["metrics"]),
    ("POST", "/checkpoint/none/none/none", &["checkpoint"]),
    ("GET", "/debug/pprof/cmdline", &["proxy"]),
    ("PUT", "/debug/flags/v", &["proxy"]),
    ("GET", "/containerLogs/none/none/none", &["proxy"]),
    ("POST", "/exec/none/none/none", &["proxy"]),
    ("POST", "/attach/none/none/none", &["proxy"]),
    ("POST", "/portForward/none/none", &["proxy"]),
    ("POST", "/run/none/none/none", &["proxy"]),
];

/// Upstream reports an unknown path to any client.
const UNKNOWN_PATH: (&str, &str, &[&str]) = ("GET", "/no/such/path", &["proxy"]);

/// Node subresources that can be granted.
const SUBRESOURCES: &[&str] =
    &["healthz", "pods", "configz", "statusz", "metrics", "checkpoint", "proxy", "log"];

async fn start(agent: Agent, overlay: Value, arguments: &[&str]) -> Result<ClusterNode> {
    let plane = scenarios::control_plane().await?;
    let mut merged = json!({
        "authentication": {
            "x509": {"clientCAFile": plane.authority_file()},
            "webhook": {"enabled": true},
            "anonymous": {"enabled": false},
        },
        "authorization": {"mode": "Webhook"},
    });
    if let (Some(merged), Value::Object(more)) = (merged.as_object_mut(), overlay) {
        merged.extend(more);
    }
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let options = AgentOptions { overlay: merged, arguments, ..AgentOptions::default() };
    let node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    NodeClient::anonymous(node.agent.ports().api)?.answering().await?;
    Ok(node)
}

/// Creates a service account with all permissions for one node subresource; returns its token.
async fn account(node: &ClusterNode, name: &str, part: Option<&str>, verbs: &str) -> Result<String> {
    node.kubectl(&["create", "serviceaccount", name]).await?;
    if let Some(part) = part {
        let role = format!("{}-{name}", node.namespace);
        let resource = format!("--resource=nodes/{part}");
        node.kubectl(&["create", "clusterrole", &role, &format!("--verb={verbs}"), &resource]).await?;
        let subject = format!("--serviceaccount={}:{name}", node.namespace);
        node.kubectl(&["create", "clusterrolebinding", &role, &format!("--clusterrole={role}"), &subject])
            .await?;
    }
    Ok(node.kubectl(&["create", "token", name]).await?.trim().to_owned())
}

async fn requests_require_permission(agent: Agent) -> Result<()> {
    let node = start(agent, json!({}), &[]).await?;
    let port = node.agent.ports().api;
    let mut holders = BTreeMap::new();
    for part in SUBRESOURCES {
        let token = account(&node, &format!("has-{part}"), Some(part), "*").await?;
        holders.insert(*part, NodeClient::with_token(port, &token)?);
    }
    let stranger = NodeClient::with_token(port, &account(&node, "has-nothing", None, "").await?)?;
    let (anonymous, liar) = (NodeClient::anonymous(port)?, NodeClient::with_token(port, "made-up")?);
    let unknown = Some(&UNKNOWN_PATH).filter(|_| agent == Agent::Podward);
    for (method, path, parts) in PATHS.iter().chain(unknown) {
        let body = if *method == "PUT" { "2" } else { "" };
        for (who, client) in [("nobody", &anonymous), ("a liar", &liar)] {
            let answer = client.ask(method, path, &[], body).await?;
            ensure!(
                answer.status == 401 && answer.body == "Unauthorized",
                "{method} {path} by {who}: {answer:?}"
            );
        }
        let verb = match *method {
            "GET" => "get",
            "POST" => "create",
            "PUT" => "update",
            _ => "delete",
        };
        let user = format!("system:serviceaccount:{}:has-nothing", node.namespace);
        let expected = format!(
            "Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{}])\n",
            parts.join(" ")
        );
        let refused = stranger.ask(method, path, &[], body).await?;
        ensure!(refused.status == 403 && refused.body == expected, "{method} {path}: {refused:?}");
        for (part, client) in &holders {
            let answer = client.ask(method, path, &[], body).await?;
            let passed = !matches!(answer.status, 401 | 403);
            ensure!(passed == parts.contains(part), "{method} {path} with nodes/{part}: {answer:?}");
        }
    }
    // The same paths with other methods map to other verbs.
    let reader = NodeClient::with_token(port, &account(&node, "reads", Some("pods"), "get").await?)?;
    ensure!(reader.get("/pods").await?.status == 200, "a reader does not read");
    let posted = reader.ask("POST", "/pods", &[], "").await?;
    ensure!(posted.status == 403 && posted.body.contains("verb=create"), "{posted:?}");
    let head = reader.ask("HEAD", "/pods", &[], "").await?;
    ensure!(head.status == 403, "a method without a verb is allowed: {head:?}");
    node.end()
}

async fn accepts_client_certificates(agent: Agent) -> Result<()> {
    let node = start(agent, json!({}), &[]).await?;
    let port = node.agent.ports().api;
    let admin = NodeClient::with_kubeconfig(port, &node.plane.admin_kubeconfig())?;
    let pods = admin.get("/pods").await?;
    ensure!(pods.status == 200 && pods.json()?["kind"] == "PodList", "{pods:?}");
    let jane = NodeClient::with_kubeconfig(port, &node.plane.user_kubeconfig("jane", Some("readers"))?)?;
    let refused = jane.get("/metrics").await?;
    ensure!(refused.status == 403 && refused.body.contains("user=jane, verb=get"), "{refused:?}");
    // The node has no permission for its own API.
    let own = NodeClient::with_kubeconfig(port, &node.plane.node_kubeconfig(&node.name)?)?;
    ensure!(own.get("/pods").await?.status == 403, "a node may ask itself");
    // The Node object contains the port.
    let object = node.node().await?;
    let named = object.pointer("/status/daemonEndpoints/kubeletEndpoint/Port").and_then(Value::as_u64);
    ensure!(named == Some(u64::from(port)), "the Node object has port {named:?}, not {port}");
    node.end()
}

async fn rejects_anonymous_clients_if_configured(agent: Agent) -> Result<()> {
    let authentication = json!({"anonymous": {"enabled": true}, "webhook": {"enabled": true}});
    let node = start(agent, json!({"authentication": authentication}), &[]).await?;
    let port = node.agent.ports().api;
    let refused = NodeClient::anonymous(port)?.get("/pods").await?;
    let expected =
        "Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
    ensure!(refused.status == 403 && refused.body == expected, "{refused:?}");
    let liar = NodeClient::with_token(port, "made-up")?.get("/pods").await?;
    ensure!(liar.status == 401, "an invalid token counts as anonymous: {liar:?}");
    node.end()
}

const WEB_SOCKET: [(&str, &str); 5] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"),
];
const RUN: &str = "/exec/n/p/c?command=id&output=1";

async fn read_permission_does_not_allow_exec(agent: Agent) -> Result<()> {
    let node = start(agent, json!({}), &[]).await?;
    let token = account(&node, "reader", Some("proxy"), "get").await?;
    let reader = NodeClient::with_token(node.agent.ports().api, &token)?;
    for path in [RUN, "/attach/n/p/c?output=1", "/portForward/n/p"] {
        let answer = reader.ask("GET", path, &WEB_SOCKET, "").await?;
        ensure!(answer.status == 403 && answer.body.contains("verb=create"), "{path}: {answer:?}");
    }
    ensure!(reader.get("/containerLogs/n/p/c").await?.status != 403, "a reader may not read logs");
    node.end()
}

async fn streams_can_use_upstream_permission_rule(agent: Agent) -> Result<()> {
    let own: &[&str] = if agent == Agent::Podward { &["--podward-streaming-get"] } else { &[] };
    let node = start(agent, json!({}), own).await?;
    let token = account(&node, "reader", Some("proxy"), "get").await?;
    let reader = NodeClient::with_token(node.agent.ports().api, &token)?;
    let answer = reader.ask("GET", RUN, &WEB_SOCKET, "").await?;
    ensure!(answer.status == 404, "{answer:?}");
    node.end()
}

async fn pods_page_lists_all_sources(agent: Agent) -> Result<()> {
    let node = start(agent, json!({}), &[]).await?;
    let manifest = node.agent.manifests().join("still.json");
    let mut still = sleeper("still");
    still["metadata"]["namespace"] = json!(node.namespace);
    std::fs::write(&manifest, still.to_string()).context("write a manifest")?;
    node.apply(&sleeper("bound")).await?;
    node.wait_running("bound").await?;
    let admin = NodeClient::with_kubeconfig(node.agent.ports().api, &node.plane.admin_kubeconfig())?;
    let names = [("bound".to_owned(), "api"), (format!("still-{}", node.name), "file")];
    node.wait("both pods run in /pods", async || {
        let list = admin.get("/pods").await?.json()?;
        let pods = list["items"].as_array().context("no items")?;
        ensure!(pods.len() == names.len(), "{} pods: {list}", pods.len());
        for (name, source) in &names {
            let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name.as_str());
            let pod = pod.with_context(|| format!("no {name} in {list}"))?;
            let state = &pod["status"]["containerStatuses"][0]["state"];
            ensure!(pod["status"]["phase"] == "Running" && state["running"].is_object(), "{pod}");
            let annotation = pod["metadata"]["annotations"]["kubernetes.io/config.source"].as_str();
            ensure!(annotation == Some(source), "{name} comes from {annotation:?}");
        }
        Ok(())
    })
    .await?;
    std::fs::remove_file(&manifest).context("remove a manifest")?;
    node.end()
}

type Holds = fn(&Value) -> bool;

/// The kubelet checks of kube-bench, with the configuration in the README.
async fn documented_defaults_pass_kube_bench(agent: Agent) -> Result<()> {
    let plane = scenarios::control_plane().await?;
    let documented = json!({
        "authentication": {"x509": {"clientCAFile": plane.authority_file()}},
        "authorization": null,
        "readOnlyPort": 0,
        "makeIPTablesUtilChains": null,
        "rotateCertificates": true,
        "seccompDefault": true,
        "podPidsLimit": 4096,
        "tlsCipherSuites": [
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        ],
    });
    let options = AgentOptions { overlay: documented, ..AgentOptions::default() };
    let mut node = ClusterNode::prepare(agent, Joining::WithCertificate, &options).await?;
    node.agent.start()?;
    node.wait_schedulable().await?;
    let admin = NodeClient::with_kubeconfig(node.agent.ports().api, &plane.admin_kubeconfig())?;
    let configz = admin.get("/configz").await?.json()?;
    let config = configz.get("kubeletconfig").context("no kubeletconfig")?;
    let rows: [(&str, &str, Holds); 12] = [
        ("4.2.1", "/authentication/anonymous/enabled", |value| *value == false),
        ("4.2.2", "/authorization/mode", |value| *value == "Webhook"),
        ("4.2.3", "/authentication/x509/clientCAFile", |value| value.is_string()),
        ("4.2.4", "/readOnlyPort", |value| value.is_null() || *value == 0),
        ("4.2.5", "/streamingConnectionIdleTimeout", |value| *value != "0s"),
        ("4.2.6", "/makeIPTablesUtilChains", |value| *value == true),
        ("4.2.8", "/eventRecordQPS", |value| value.as_i64().is_some_and(|qps| qps >= 0)),
        ("4.2.9", "/tlsCertFile", |value| value.is_string()),
        ("4.2.9", "/tlsPrivateKeyFile", |value| value.is_string()),
        ("4.2.10", "/rotateCertificates", |value| *value == true),
        ("4.2.13", "/podPidsLimit", |value| value.as_i64().is_some_and(|limit| limit > 0)),
        ("4.2.14", "/seccompDefault", |value| *value == true),
    ];
    for (row, pointer, holds) in rows {
        let value = config.pointer(pointer).unwrap_or(&Value::Null);
        ensure!(holds(value), "{row}: {pointer} is {value}");
    }
    ensure!(config.pointer("/featureGates/RotateKubeletServerCertificate").is_none(), "4.2.11");
    let suites = config.pointer("/tlsCipherSuites").and_then(Value::as_array).context("4.2.12")?;
    ensure!(suites.iter().all(|suite| suite.as_str().is_some_and(|name| name.contains("_GCM_"))), "4.2.12");
    // 4.1.9: files written by the agent, above all keys, are accessible to their owner only.
    let mode = |path: &str| -> Result<u32> {
        use std::os::unix::fs::PermissionsExt;
        let path = config.pointer(path).and_then(Value::as_str).context("no path")?;
        Ok(std::fs::metadata(path).with_context(|| path.to_owned())?.permissions().mode() & 0o777)
    };
    ensure!(mode("/tlsPrivateKeyFile")? == 0o600, "the key may be read by others");
    ensure!(mode("/tlsCertFile")? & 0o022 == 0, "the certificate may be written by others");
    node.end()
}
