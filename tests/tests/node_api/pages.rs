//! The pages of the node's API.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, NodeClient, podward_only, scenarios, sleeper};
use serde_json::{Value, json};
use testkit::http;

scenarios!(
    pages_have_expected_formats,
    configz_output_is_valid_configuration,
    read_only_port_serves_few_paths,
    debugging_handlers_can_be_disabled
);
podward_only!(requests_are_counted_in_metrics);

async fn client(node: &Node) -> Result<NodeClient> {
    NodeClient::anonymous(node.agent.ports().api)?.answering().await
}

async fn pages_have_expected_formats(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &sleeper("web"))?;
    let running = node.wait_running("web").await?;
    let client = client(&node).await?;
    let exactly = [
        ("GET", "/healthz", "", 200, "ok"),
        ("POST", "/healthz", "", 200, "ok"),
        ("GET", "/healthz?exclude=log&exclude=none", "", 200, "ok"),
        ("GET", "/healthz/log", "", 200, "ok"),
        ("GET", "/healthz/device-plugin", "", 200, "ok"),
        ("GET", "/healthz/none", "", 404, "404 page not found\n"),
        (
            "GET",
            "/healthz?verbose&exclude=log",
            "",
            200,
            "[+]ping ok\n[+]log excluded: ok\n[+]syncloop ok\n[+]device-plugin ok\nhealthz check passed\n",
        ),
        (
            "GET",
            "/healthz?verbose&exclude=none&exclude=an",
            "",
            200,
            "[+]ping ok\n[+]log ok\n[+]syncloop ok\n[+]device-plugin ok\nwarn: some health checks cannot be excluded: no matches for \"an\",\"none\"\nhealthz check passed\n",
        ),
        ("POST", "/pods", "", 405, "405: Method Not Allowed"),
        ("GET", "/debug/flags/v", "", 406, "unsupported http method\n"),
        ("PUT", "/debug/flags/v", "4", 200, "successfully set klog.logging.verbosity to 4\n"),
        ("GET", "/debug/pprof/none", "", 404, "Unknown profile\n"),
        ("DELETE", "/metrics/slis", "", 200, "metrics reset\n"),
        ("POST", "/checkpoint/default/none/main", "", 404, "pod does not exist"),
        ("GET", "/checkpoint/default/web-node-a/main", "", 405, "405: Method Not Allowed"),
        ("POST", "/checkpoint/default/web-node-a/none", "", 404, "container none does not exist"),
        ("GET", "/none", "", 404, "404 page not found\n"),
    ];
    for (method, path, body, status, text) in exactly {
        let answer = client.ask(method, path, &[], body).await?;
        ensure!((answer.status, answer.body.as_str()) == (status, text), "{method} {path}: {answer:?}");
    }
    for path in ["/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/heap?debug=1"] {
        let answer = client.get(path).await?;
        ensure!(answer.status == 200 && answer.body.contains("rofile"), "{path}: {answer:?}");
    }
    ensure!(client.ask("PUT", "/debug/flags/v", &[], "x").await?.status == 400, "x is a level");
    let frozen = client.ask("POST", "/checkpoint/default/web-node-a/main", &[], "").await?;
    let prefix = "checkpointing of default/web-node-a/main failed (";
    ensure!(frozen.status == 200 || frozen.body.starts_with(prefix), "{frozen:?}");

    let pods = client.get("/runningpods/").await?.json()?;
    let only = &pods["items"][0];
    ensure!(only["metadata"]["uid"] == running.uid.as_str(), "{pods}");
    ensure!(only["spec"]["containers"][0]["name"] == "main" && only["status"] == json!({}), "{pods}");

    let document = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
    let answer = client.ask("GET", "/statusz", &[("Accept", document)], "").await?;
    let status = answer.json()?;
    ensure!(status["kind"] == "Statusz" && status["binaryVersion"] == "1.36.4", "{status}");
    ensure!(status["uptimeSeconds"].is_u64() && status["paths"].is_array(), "{status}");
    let flags = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
    let flags = client.ask("GET", "/flagz", &[("Accept", flags)], "").await?.json()?;
    ensure!(flags["flags"]["hostname-override"] == "node-a", "{flags}");
    ensure!(flags["flags"]["max-pods"] == "110", "{flags}");
    let old = "application/yaml;v=v1alpha1;g=config.k8s.io;as=Flagz";
    let old = client.ask("GET", "/flagz", &[("Accept", old)], "").await?;
    ensure!(old.status == 200 && old.body.contains("\nkind: Flagz\n"), "{old:?}");
    let media = old.header("content-type").context("a media type")?;
    ensure!(media.starts_with("application/yaml"), "{media}");
    let warning = "299 - \"This version of the flagz endpoint is deprecated. Please use a newer version.\"";
    ensure!(old.header("warning").as_deref() == Some(warning), "{old:?}");
    for path in ["/statusz", "/flagz"] {
        ensure!(
            client.ask("GET", path, &[("Accept", "application/json")], "").await?.status == 406,
            "{path}"
        );
        let text = client.get(path).await?;
        ensure!(
            text.status == 200 && text.body.starts_with(&format!("\nkubelet {}\n", &path[1..])),
            "{text:?}"
        );
    }
    for path in ["/healthz", "/healthz/log"] {
        client.get(path).await?;
    }
    // A single check is not counted.
    let slis = client.get("/metrics/slis").await?.body;
    ensure!(slis.contains("kubernetes_healthcheck{name=\"syncloop\",type=\"healthz\"} 1\n"), "{slis}");
    ensure!(slis.contains("{name=\"log\",status=\"success\",type=\"healthz\"} 1\n"), "{slis}");
    Ok(())
}

/// All fields of upstream's `/configz` for this node, whether or not podward uses them.
const FIELDS: &[&str] = &[
    "address",
    "apiVersion",
    "authentication",
    "authorization",
    "cgroupDriver",
    "cgroupRoot",
    "cgroupsPerQOS",
    "clusterDNS",
    "clusterDomain",
    "configMapAndSecretChangeDetectionStrategy",
    "containerLogMaxFiles",
    "containerLogMaxSize",
    "containerLogMaxWorkers",
    "containerLogMonitorInterval",
    "containerRuntimeEndpoint",
    "contentType",
    "cpuCFSQuota",
    "cpuCFSQuotaPeriod",
    "cpuManagerPolicy",
    "cpuManagerReconcilePeriod",
    "crashLoopBackOff",
    "enableControllerAttachDetach",
    "enableDebugFlagsHandler",
    "enableDebuggingHandlers",
    "enableProfilingHandler",
    "enableServer",
    "enableSystemLogHandler",
    "enableSystemLogQuery",
    "eventBurst",
    "eventRecordQPS",
    "evictionHard",
    "evictionPressureTransitionPeriod",
    "failCgroupV1",
    "failSwapOn",
    "fileCheckFrequency",
    "hairpinMode",
    "healthzBindAddress",
    "healthzPort",
    "httpCheckFrequency",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "imageMaximumGCAge",
    "imageMinimumGCAge",
    "imagePullCredentialsVerificationPolicy",
    "iptablesDropBit",
    "iptablesMasqueradeBit",
    "kind",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "localStorageCapacityIsolation",
    "logging",
    "makeIPTablesUtilChains",
    "maxOpenFiles",
    "maxPods",
    "memoryManagerPolicy",
    "memoryReservationPolicy",
    "memorySwap",
    "memoryThrottlingFactor",
    "mergeDefaultEvictionSettings",
    "nodeLeaseDurationSeconds",
    "nodeStatusMaxImages",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "oomScoreAdj",
    "podLogsDir",
    "podPidsLimit",
    "port",
    "readOnlyPort",
    "registerNode",
    "registryBurst",
    "registryPullQPS",
    "resolvConf",
    "runtimeRequestTimeout",
    "seccompDefault",
    "serializeImagePulls",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "staticPodPath",
    "streamingConnectionIdleTimeout",
    "syncFrequency",
    "tlsCertFile",
    "tlsPrivateKeyFile",
    "topologyManagerPolicy",
    "topologyManagerScope",
    "volumePluginDir",
    "volumeStatsAggPeriod",
];

/// Test suites do this: read the configuration, change it, write it back, restart the agent.
async fn configz_output_is_valid_configuration(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    let first = client(&node).await?.get("/configz").await?.json()?;
    let config = first.get("kubeletconfig").context("no kubeletconfig")?;
    let names: BTreeSet<&str> =
        config.as_object().into_iter().flat_map(|fields| fields.keys().map(String::as_str)).collect();
    let missing: Vec<_> = FIELDS.iter().filter(|name| !names.contains(**name)).collect();
    ensure!(missing.is_empty(), "not in /configz: {missing:?}\n{config}");
    // Upstream omits an empty list, which means its default when it is written back.
    let more: Vec<_> =
        (names.iter()).filter(|name| !FIELDS.contains(name) && **name != "enforceNodeAllocatable").collect();
    ensure!(more.is_empty(), "in /configz beyond upstream: {more:?}\n{config}");
    let values = [
        ("/syncFrequency", json!("1m0s")),
        ("/memoryThrottlingFactor", json!(0.9)),
        ("/podPidsLimit", json!(-1)),
        ("/logging/flushFrequency", json!("5s")),
        ("/crashLoopBackOff/maxContainerRestartPeriod", json!("5m0s")),
        ("/authentication/webhook/cacheTTL", json!("2m0s")),
        ("/kubeAPIQPS", json!(50)),
    ];
    for (pointer, expected) in values {
        let found = config.pointer(pointer).unwrap_or(&Value::Null);
        ensure!(*found == expected, "{pointer} is {found}, not {expected}");
    }

    let mut changed = config.clone();
    changed["maxPods"] = json!(77);
    node.agent.term().await?;
    std::fs::write(node.agent.config_file(), changed.to_string())?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    let mut second = client(&node).await?.get("/configz").await?.json()?;
    if let (Agent::Upstream, Some(shown)) = (agent, second["kubeletconfig"].as_object_mut()) {
        // The omitted empty list means its default now.
        shown.remove("enforceNodeAllocatable");
    }
    ensure!(second["kubeletconfig"] == changed, "what was written is not what is shown: {second}");
    Ok(())
}

async fn read_only_port_serves_few_paths(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let port = node.agent.ports().read_only;
    for path in ["/healthz", "/healthz/syncloop", "/pods", "/metrics", "/metrics/probes", "/metrics/slis"] {
        let answer = http::get(port, path).await?;
        ensure!(answer.status == 200, "{path} answers {}", answer.status);
    }
    for path in ["/configz", "/statusz", "/flagz", "/debug/flags/v", "/checkpoint/a/b/c", "/none"] {
        let answer = http::get(port, path).await?;
        ensure!(answer.status == 404, "{path} answers {}", answer.status);
    }
    for path in ["/runningpods/", "/debug/pprof/", "/debug/pprof/profile", "/logs/"] {
        let answer = http::get(port, path).await?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!((answer.status, text.as_str()) == (405, "Debug endpoints are disabled.\n"), "{path}: {text}");
    }
    Ok(())
}

async fn debugging_handlers_can_be_disabled(agent: Agent) -> Result<()> {
    let overlay = json!({"enableDebuggingHandlers": false});
    let node = Node::start_with(agent, &AgentOptions { overlay, ..AgentOptions::default() }).await?;
    let client = client(&node).await?;
    for path in ["/runningpods/", "/debug/pprof/cmdline", "/logs/", "/logs/messages", "/exec/a/b/c"] {
        let answer = client.get(path).await?;
        let text = "Debug endpoints are disabled.\n";
        ensure!((answer.status, answer.body.as_str()) == (405, text), "{path}: {answer:?}");
    }
    for path in ["/configz", "/statusz", "/flagz", "/debug/flags/v"] {
        let answer = client.get(path).await?;
        ensure!(answer.status == 404, "{path}: {answer:?}");
    }
    let answer = client.ask("POST", "/checkpoint/default/web-node-a/main", &[], "").await?;
    ensure!(answer.status == 404, "/checkpoint: {answer:?}");
    ensure!(client.get("/pods").await?.status == 200, "/pods is no debugging");
    drop(node);
    let gates = json!({"ComponentStatusz": false, "ComponentFlagz": false});
    let overlay = json!({
        "enableProfilingHandler": false, "enableDebugFlagsHandler": false, "enableSystemLogHandler": false,
        "featureGates": gates,
    });
    let node = Node::start_with(agent, &AgentOptions { overlay, ..AgentOptions::default() }).await?;
    let client = self::client(&node).await?;
    let cases = [
        ("GET", "/debug/pprof/cmdline", "profiling endpoint is disabled.\n"),
        ("PUT", "/debug/flags/v", "flags endpoint is disabled.\n"),
        ("GET", "/logs/", "logs endpoint is disabled.\n"),
    ];
    for (method, path, text) in cases {
        let answer = client.ask(method, path, &[], "2").await?;
        ensure!((answer.status, answer.body.as_str()) == (405, text), "{path}: {answer:?}");
    }
    ensure!(client.get("/runningpods/").await?.status == 200, "/runningpods is no profiling");
    ensure!(client.get("/configz").await?.status == 200, "/configz has no gate");
    for path in ["/statusz", "/flagz"] {
        let answer = client.get(path).await?;
        ensure!(answer.status == 404, "{path}: {answer:?}");
    }
    Ok(())
}

async fn requests_are_counted_in_metrics(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let client = client(&node).await?;
    for path in ["/pods", "/pods", "/who/knows/what", "/who/else"] {
        client.get(path).await?;
    }
    let metrics = client.get("/metrics").await?.body;
    let count = |path: &str| {
        let lines = metrics.lines().filter(|line| line.starts_with("kubelet_http_requests_total{"));
        let own = |label: &str, value: &str| format!("{label}=\"{value}\"");
        let mut found = lines.filter(|line| {
            let labels = [own("path", path), own("method", "GET"), own("server_type", "readwrite")];
            labels.iter().all(|label| line.contains(label))
        });
        found.next().and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
    };
    ensure!(count("pods").as_deref() == Some("2"), "{metrics}");
    ensure!(count("other").as_deref() == Some("2"), "{metrics}");
    ensure!(metrics.contains("kubelet_http_inflight_requests{"), "{metrics}");
    ensure!(metrics.contains("kubelet_http_requests_duration_seconds_bucket{"), "{metrics}");
    Ok(())
}
