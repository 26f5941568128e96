//! The environment of a container and its logs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, container, pod, scenarios, with};
use serde_json::json;
use testkit::poll::eventually;

scenarios!(
    sets_environment_and_working_directory,
    sets_hosts_file_and_host_name,
    writes_resolv_conf,
    creates_log_files_and_links,
);

async fn sets_environment_and_working_directory(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = pod(
        "web",
        [container("main", "env -- pwd -- print $(GREETING)! -- print $$(GREETING) -- sleep forever")],
    );
    let env = json!([
        {"name": "NAME", "value": "world"},
        {"name": "GREETING", "value": "hello-$(NAME)-$(MISSING)"},
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]);
    let manifest = with(manifest, "/spec/containers/0/env", env);
    node.write("web.json", &with(manifest, "/spec/containers/0/workingDir", json!("/tmp")))?;
    let pod = node.wait_running("web").await?;
    let log = eventually("output", Duration::from_secs(10), async || {
        let log = node.log("web", "main").await?;
        ensure!(log.lines().any(|line| line == "$(GREETING)"), "not all written: {log}");
        Ok(log)
    })
    .await?;
    let address = format!("POD_IP={}", pod.ip);
    for line in [
        "NAME=world",
        "GREETING=hello-world-$(MISSING)",
        "POD_NAME=web-node-a",
        "POD_NAMESPACE=default",
        &address,
        "NODE_NAME=node-a",
        "HOSTNAME=web-node-a",
        "IMAGE_VERSION=1",
        "PATH=/",
        "/tmp",
        "hello-world-$(MISSING)!",
    ] {
        ensure!(log.lines().any(|other| other == line), "{line:?} is missing in\n{log}");
    }
    Ok(())
}

async fn sets_hosts_file_and_host_name(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let plain = pod("plain", [container("main", "hostname -- cat /etc/hosts -- sleep forever")]);
    let named = pod("named", [container("main", "hostname -- cat /etc/hosts -- sleep forever")]);
    let named = with(named, "/spec/hostname", json!("box"));
    let named = with(named, "/spec/subdomain", json!("sub"));
    let alias = json!([{"ip": "192.0.2.7", "hostnames": ["seven", "seven.test"]}]);
    node.write("plain.json", &plain)?;
    node.write("named.json", &with(named, "/spec/hostAliases", alias))?;
    let head = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
                fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";
    let ip = node.wait_running("plain").await?.ip;
    expect_log(&node, "plain", &format!("plain-node-a\n{head}{ip}\tplain-node-a\n")).await?;
    let ip = node.wait_running("named").await?.ip;
    let tail = "\n# Entries added by HostAliases.\n192.0.2.7\tseven\tseven.test\n";
    let domain = "box.sub.default.svc.cluster.local";
    expect_log(&node, "named", &format!("box\n{head}{ip}\t{domain}\tbox\n{tail}")).await
}

async fn writes_resolv_conf(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let cluster = pod("cluster", [container("main", "cat /etc/resolv.conf -- sleep forever")]);
    let machine = pod("machine", [container("main", "cat /etc/resolv.conf -- sleep forever")]);
    let own = pod("own", [container("main", "cat /etc/resolv.conf -- sleep forever")]);
    let own = with(own, "/spec/dnsPolicy", json!("None"));
    let config = json!({"nameservers": ["192.0.2.1"], "searches": ["a.test"], "options": [{"name": "ndots", "value": "2"}]});
    node.write("cluster.json", &cluster)?;
    node.write("machine.json", &with(machine, "/spec/dnsPolicy", json!("Default")))?;
    node.write("own.json", &with(own, "/spec/dnsConfig", config))?;
    let domains = "default.svc.cluster.local svc.cluster.local cluster.local podward.test";
    expect_log(&node, "cluster", &format!("search {domains}\nnameserver 192.0.2.10\noptions ndots:5\n"))
        .await?;
    expect_log(&node, "machine", "search podward.test\nnameserver 192.0.2.53\n").await?;
    expect_log(&node, "own", "search a.test\nnameserver 192.0.2.1\noptions ndots:2\n").await
}

async fn creates_log_files_and_links(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let arguments = "print out -- warn err -- exit 1 --after 0.5";
    node.write("web.json", &pod("web", [container("main", arguments)]))?;
    node.wait_pod("web", "was restarted", |pod| pod.container("main").restarts >= 1).await?;
    let uid = node.pod("web").await?.uid;
    let folder = node.agent.pod_logs().join(format!("default_web-node-a_{uid}")).join("main");
    // All conditions are checked together: the next attempt may start at any moment.
    eventually("log and link of the last container that ended", Duration::from_secs(60), async || {
        let all = node.cri().containers_of("web-node-a").await?;
        let ended = all.iter().rev().find(|view| view.attempt > 0 && view.finished_at > 0);
        let ended = ended.context("no second container has ended")?;
        let path = folder.join(format!("{}.log", ended.attempt));
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let ends: Vec<_> =
            text.lines().filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest).collect();
        ensure!(ends.contains(&"stdout F out") && ends.contains(&"stderr F err"), "{text}");
        let link = format!("/var/log/containers/web-node-a_default_main-{}.log", ended.id);
        let target = std::fs::read_link(&link).with_context(|| format!("read the link {link}"))?;
        ensure!(target == path, "{link} points to {}", target.display());
        // One dead container is kept per name; the log of the first was removed with it.
        ensure!(!folder.join("0.log").exists(), "0.log is still there");
        Ok(())
    })
    .await?;
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    Ok(())
}

async fn expect_log(node: &Node, name: &str, text: &str) -> Result<()> {
    eventually(&format!("log of {name}"), Duration::from_secs(20), async || {
        let log = node.log(name, "main").await?;
        ensure!(log == text, "expected\n{text}\nfound\n{log}");
        Ok(())
    })
    .await
}
