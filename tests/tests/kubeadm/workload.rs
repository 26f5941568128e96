//! A Deployment on both nodes: its pods reach each other, and follow drain and uncordon.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::images;
use testkit::machine::Machine;
use testkit::poll::within;

use crate::cluster::{Cluster, TIMEOUT};

const REPLICAS: usize = 4;
const SELECTOR: &str = "app=web";

/// Creates the Deployment, and waits until each node runs half of its pods.
pub(crate) async fn deploy(cluster: &Cluster) -> Result<()> {
    cluster.first.apply(&deployment()).await?;
    wait_spread(cluster).await.map(drop)
}

/// The API server reaches every pod, every pod reaches one of the other node, and the logs of both nodes can be read.
pub(crate) async fn check_network(cluster: &Cluster) -> Result<()> {
    let pods = ready_pods(cluster).await?;
    for pod in &pods {
        let path = format!("/api/v1/namespaces/default/pods/{}:8080/proxy/", pod.name);
        let answer = cluster.first.kubectl(&["get", "--raw", &path]).await?;
        ensure!(answer.trim() == pod.name, "{} answers {answer}", pod.name);
        let other = pods.iter().find(|other| other.node != pod.node).context("all pods are on one node")?;
        let request = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 10 {} 8080", other.address);
        let answer = cluster.first.kubectl(&["exec", &pod.name, "--", "sh", "-c", &request]).await?;
        ensure!(answer.ends_with(&format!("{}\n", other.name)), "{} answers {answer}", other.name);
        let log = cluster.first.kubectl(&["logs", &pod.name]).await?;
        ensure!(log.contains("serving"), "log of {}: {log}", pod.name);
    }
    Ok(())
}

/// Drains the second node, which leaves all pods on the first, and fills it again after uncordon.
pub(crate) async fn drain_and_uncordon(cluster: &Cluster) -> Result<()> {
    let name = cluster.second.name();
    cluster.first.kubectl(&["drain", name, "--ignore-daemonsets", "--timeout=900s"]).await?;
    within("all pods on the first node", TIMEOUT, async || {
        let pods = ready_pods(cluster).await?;
        ensure!(pods.len() == REPLICAS, "{} pods are ready", pods.len());
        ensure!(pods.iter().all(|pod| pod.node == cluster.first.name()), "{pods:?}");
        Ok(())
    })
    .await?;
    let left = cluster.second.run("ctr", &["--namespace", "k8s.io", "tasks", "list", "--quiet"]).await?;
    ensure!(left.trim().is_empty(), "containers run on the drained node: {left}");
    cluster.first.kubectl(&["uncordon", name]).await?;
    cluster.first.kubectl(&["rollout", "restart", "deployment/web"]).await?;
    wait_spread(cluster).await.map(drop)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WebPod {
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) uid: String,
    pub(crate) restarts: i64,
    address: String,
}

/// Ready pods of the Deployment that are not being deleted, by name.
pub(crate) async fn ready_pods(cluster: &Cluster) -> Result<Vec<WebPod>> {
    let list = cluster.first.get(&["pods", "--selector", SELECTOR]).await?;
    let items = list["items"].as_array().context("a list without items")?;
    let live = items.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let ready = live.filter(|pod| scenarios::condition(pod, "Ready") == "True");
    let mut pods: Vec<WebPod> = ready.map(web_pod).collect();
    pods.sort();
    Ok(pods)
}

fn web_pod(pod: &Value) -> WebPod {
    let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    WebPod {
        name: text("/metadata/name"),
        node: text("/spec/nodeName"),
        uid: text("/metadata/uid"),
        restarts: pod
            .pointer("/status/containerStatuses/0/restartCount")
            .and_then(Value::as_i64)
            .unwrap_or(0),
        address: text("/status/podIP"),
    }
}

async fn wait_spread(cluster: &Cluster) -> Result<Vec<WebPod>> {
    within("pods on both nodes", TIMEOUT, async || {
        let pods = ready_pods(cluster).await?;
        let on = |machine: &Machine| pods.iter().filter(|pod| pod.node == machine.name()).count();
        let counts = (on(&cluster.first), on(&cluster.second));
        ensure!(pods.len() == REPLICAS && counts == (REPLICAS / 2, REPLICAS / 2), "{pods:?}");
        Ok(pods)
    })
    .await
}

fn deployment() -> Value {
    let labels = json!({"app": "web"});
    let serve = "hostname >/tmp/index.html; echo serving; exec httpd -f -p 8080 -h /tmp";
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            // Without surplus pods, a restart ends with as many pods on each node as before.
            "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": REPLICAS}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "topologySpreadConstraints": [{
                        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": labels},
                        // A cordoned node does not count, and neither do pods of the previous template.
                        "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["pod-template-hash"],
                    }],
                    "containers": [{
                        "name": "web", "image": images::BUSYBOX, "command": ["sh", "-c", serve],
                        "readinessProbe": {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1},
                        "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}},
                    }],
                },
            },
        },
    })
}
