//! Faults of the API server during creation, change and deletion of a pod; none has a lasting effect.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, PodView, scenarios, sleeper, with};
use serde_json::{Value, json};
use testkit::control_plane::{Fault, FaultRule, ServerCertificate};
use testkit::cri_view::ContainerView;
use testkit::poll::{eventually, throughout};

scenarios!(
    recovers_from_rejected_requests,
    recovers_from_expired_watches,
    recovers_from_broken_responses,
    recovers_from_wrong_server_certificates,
    recovers_from_invalid_times,
);

/// Number of hits of a fault in each step.
const TIMES: usize = 3;

fn refuse(code: u16, retry_after: Option<u32>) -> Fault {
    Fault::Refuse { code, retry_after }
}

fn rule(method: &'static str, uri_part: &'static str, fault: Fault) -> FaultRule {
    FaultRule { uri_part, method, times: TIMES, fault }
}

/// Restarts watches and hits all requests that nodes make about pods.
fn everywhere(fault: &Fault) -> Vec<FaultRule> {
    [("GET", "/pods?"), ("PATCH", "/status"), ("DELETE", "/pods/"), ("POST", "/events"), ("PUT", "/leases/")]
        .into_iter()
        .map(|(method, uri_part)| rule(method, uri_part, fault.clone()))
        .collect()
}

async fn recovers_from_rejected_requests(agent: Agent) -> Result<()> {
    let test = FaultTest::start(agent).await?;
    test.step("429 with Retry-After", &everywhere(&refuse(429, Some(1)))).await?;
    test.step("429 without", &everywhere(&refuse(429, None))).await?;
    test.step("500", &everywhere(&refuse(500, None))).await?;
    test.step("503", &everywhere(&refuse(503, None))).await?;
    test.end()
}

async fn recovers_from_expired_watches(agent: Agent) -> Result<()> {
    let test = FaultTest::start(agent).await?;
    test.step("410 to a watch", &[rule("GET", "watch=true", refuse(410, None))]).await?;
    test.step("410 in a watch", &[rule("GET", "watch=true", Fault::Expired)]).await?;
    if agent == Agent::Podward {
        // The upstream kubelet uses streaming lists, which have no pages.
        let pages = [
            FaultRule { times: 1, ..rule("GET", "watch=true", refuse(410, None)) },
            FaultRule { times: 1, ..rule("GET", "continue=", refuse(410, None)) },
            FaultRule { times: 1000, ..rule("GET", "limit=500", Fault::SmallPages) },
        ];
        test.step("410 between two pages", &pages).await?;
    }
    test.end()
}

async fn recovers_from_broken_responses(agent: Agent) -> Result<()> {
    let test = FaultTest::start(agent).await?;
    test.step("half a watch event", &[rule("GET", "watch=true", Fault::Cut(700))]).await?;
    test.step("half an answer", &everywhere(&Fault::Cut(40))).await?;
    // The upstream kubelet accepts any 200 response to a delete and never retries.
    let believes = |rule: &FaultRule| agent == Agent::Upstream && rule.method == "DELETE";
    let garbage: Vec<_> = everywhere(&Fault::Garbage).into_iter().filter(|rule| !believes(rule)).collect();
    test.step("no JSON", &garbage).await?;
    test.step("slow bodies", &everywhere(&Fault::Slow(Duration::from_millis(700)))).await?;
    test.step("a reset before", &everywhere(&Fault::ResetBefore)).await?;
    test.step("a reset after", &everywhere(&Fault::ResetAfter)).await?;
    test.end()
}

async fn recovers_from_wrong_server_certificates(agent: Agent) -> Result<()> {
    let test = FaultTest::start(agent).await?;
    test.step_with_certificate(ServerCertificate::UnknownAuthority).await?;
    test.end()
}

async fn recovers_from_invalid_times(agent: Agent) -> Result<()> {
    let test = FaultTest::start(agent).await?;
    for certificate in [ServerCertificate::NotYetValid, ServerCertificate::Expired] {
        test.step_with_certificate(certificate).await?;
    }
    // A lease timestamp from a clock that was ahead does not prevent its renewal.
    let node = &test.node;
    let ahead = json!({"spec": {"renewTime": "2090-01-01T00:00:00.000000Z"}}).to_string();
    let lease = ["lease", node.name.as_str(), "--namespace", "kube-node-lease"];
    node.plane.kubectl(&[&["patch"], &lease[..], &["--type=merge", "--patch", &ahead]].concat()).await?;
    node.wait("the lease has the current time again", async || {
        let found = node.plane.get(&lease).await?;
        let time = found["spec"]["renewTime"].as_str().unwrap_or_default().to_owned();
        ensure!(!time.is_empty() && !time.starts_with("2090"), "{time}");
        Ok(())
    })
    .await?;
    test.end()
}

/// A node behind a fault proxy, with a pod that must not be disturbed.
struct FaultTest {
    node: ClusterNode,
    steady: Vec<ContainerView>,
}

impl FaultTest {
    async fn start(agent: Agent) -> Result<Self> {
        let options = AgentOptions::default();
        let node = ClusterNode::start_with(agent, Joining::ThroughFaultProxy, &options).await?;
        node.apply(&sleeper("steady")).await?;
        node.wait_running("steady").await?;
        let steady = node.running("steady").await?;
        Ok(Self { node, steady })
    }

    /// Creates, changes and deletes a pod while the faults are active.
    async fn step(&self, what: &str, rules: &[FaultRule]) -> Result<()> {
        let proxy = self.node.proxy()?;
        let begin = async || {
            for rule in rules {
                proxy.inject(rule.clone());
            }
            proxy.reset_connections();
            Ok(())
        };
        let finish = async || {
            proxy.heal();
            let hits = proxy.take_hits();
            ensure!(!hits.is_empty(), "the fault was never hit");
            Ok(())
        };
        let steps = Steps { node: &self.node, begin, after_request: async || Ok(()), finish };
        steps.run().await.with_context(|| what.to_owned())?;
        self.check().await.with_context(|| format!("after {what}"))
    }

    /// Like [`Self::step`], while the proxy presents this certificate for some seconds in each step.
    async fn step_with_certificate(&self, certificate: ServerCertificate) -> Result<()> {
        let proxy = self.node.proxy()?;
        let begin = async || {
            let before = proxy.refused_handshakes();
            proxy.present(certificate);
            eventually("the certificate is rejected", Duration::from_secs(60), async || {
                ensure!(proxy.refused_handshakes() > before, "no handshake was aborted");
                Ok(())
            })
            .await
        };
        // Running pods are not affected meanwhile; then the right certificate is back.
        let after_request = async || {
            throughout("the other pod keeps running", Duration::from_secs(4), async || {
                self.untouched().await
            })
            .await?;
            proxy.present(ServerCertificate::Valid);
            Ok(())
        };
        let steps = Steps { node: &self.node, begin, after_request, finish: async || Ok(()) };
        steps.run().await.with_context(|| format!("{certificate:?}"))?;
        self.check().await.with_context(|| format!("after {certificate:?}"))
    }

    /// Checks that nothing was restarted or written twice.
    async fn check(&self) -> Result<()> {
        self.untouched().await?;
        let writes = self.node.status_writes()?;
        let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
        for write in &writes {
            let before = last.insert(&write.name, &write.body);
            ensure!(before != Some(&write.body), "written twice: {} {}", write.name, write.body);
        }
        Ok(())
    }

    async fn untouched(&self) -> Result<()> {
        ensure!(self.node.running("steady").await? == self.steady, "a bystander was touched");
        Ok(())
    }

    fn end(self) -> Result<()> {
        self.node.end()
    }
}

/// The life cycle of a pod with callbacks around each step.
struct Steps<'a, B, A, F> {
    node: &'a ClusterNode,
    /// Runs before a change is requested.
    begin: B,
    after_request: A,
    /// Runs when the node has applied the change.
    finish: F,
}

impl<B, A, F> Steps<'_, B, A, F>
where
    B: AsyncFn() -> Result<()>,
    A: AsyncFn() -> Result<()>,
    F: AsyncFn() -> Result<()>,
{
    async fn run(&self) -> Result<()> {
        self.make().await.context("while a pod was made")?;
        self.change().await.context("while a pod was changed")?;
        self.delete().await.context("while a pod was deleted")
    }

    async fn make(&self) -> Result<()> {
        let items = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]);
        let volumes = json!([{"name": "about", "downwardAPI": {"items": items}}]);
        let web = with(sleeper("web"), "/spec/volumes", volumes);
        let mounts = json!([{"name": "about", "mountPath": "/about"}]);
        let web = with(web, "/spec/containers/0/volumeMounts", mounts);
        (self.begin)().await?;
        self.node.apply(&with(web, "/metadata/labels", json!({"version": "new"}))).await?;
        (self.after_request)().await?;
        self.node.wait_running("web").await?;
        self.node.kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).await?;
        (self.finish)().await
    }

    async fn change(&self) -> Result<()> {
        let node = self.node;
        let before: PodView = node.pod("web").await?;
        let containers = node.running("web").await?;
        (self.begin)().await?;
        node.kubectl(&["label", "pod", "web", "--overwrite", "version=changed"]).await?;
        (self.after_request)().await?;
        let file = node.volume(&before.uid, "downward-api", "about").join("labels");
        eventually("the pod has the change", Duration::from_secs(90), async || {
            let text = fs::read_to_string(&file).context("read the file")?;
            ensure!(text.contains("changed"), "{text}");
            Ok(())
        })
        .await?;
        ensure!(node.running("web").await? == containers, "it was restarted");
        (self.finish)().await
    }

    async fn delete(&self) -> Result<()> {
        let node = self.node;
        let uid = node.pod("web").await?.uid;
        (self.begin)().await?;
        node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
        (self.after_request)().await?;
        node.wait_absent(&["pod", "web"]).await?;
        ensure!(node.running("web").await?.is_empty(), "the object went before its containers");
        (self.finish)().await?;
        throughout("it stays removed", Duration::from_secs(1), async || {
            ensure!(node.running("web").await?.is_empty(), "pod {uid} came back");
            Ok(())
        })
        .await
    }
}
