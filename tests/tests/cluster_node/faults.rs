//! Bad answers of the API server: each is met while a pod is made, changed and deleted, and none is seen in the end.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, PodView, scenarios, sleeper, with};
use serde_json::{Value, json};
use testkit::control_plane::{Fault, FaultRule, Presented};
use testkit::cri_view::ContainerView;
use testkit::poll::{eventually, throughout};

scenarios!(
    refusals_are_survived,
    lost_places_are_found_again,
    broken_answers_are_survived,
    wrong_certificates_are_survived,
    times_that_cannot_be_are_survived,
);

/// How often a fault hits in each step.
const TIMES: usize = 3;

fn refuse(code: u16, retry_after: Option<u32>) -> Fault {
    Fault::Refuse { code, retry_after }
}

fn rule(method: &'static str, uri_part: &'static str, fault: Fault) -> FaultRule {
    FaultRule { uri_part, method, times: TIMES, fault }
}

/// Watches are begun anew and everything that nodes do with pods is hit.
fn everywhere(fault: &Fault) -> Vec<FaultRule> {
    [("GET", "/pods?"), ("PATCH", "/status"), ("DELETE", "/pods/"), ("POST", "/events"), ("PUT", "/leases/")]
        .into_iter()
        .map(|(method, uri_part)| rule(method, uri_part, fault.clone()))
        .collect()
}

async fn refusals_are_survived(agent: Agent) -> Result<()> {
    let bench = Bench::start(agent).await?;
    bench.step("429 with Retry-After", &everywhere(&refuse(429, Some(1)))).await?;
    bench.step("429 without", &everywhere(&refuse(429, None))).await?;
    bench.step("500", &everywhere(&refuse(500, None))).await?;
    bench.step("503", &everywhere(&refuse(503, None))).await?;
    bench.end()
}

async fn lost_places_are_found_again(agent: Agent) -> Result<()> {
    let bench = Bench::start(agent).await?;
    bench.step("410 to a watch", &[rule("GET", "watch=true", refuse(410, None))]).await?;
    bench.step("410 in a watch", &[rule("GET", "watch=true", Fault::Expired)]).await?;
    if agent == Agent::Podward {
        // The upstream kubelet has its lists streamed and gets no pages.
        let pages = [
            FaultRule { times: 1, ..rule("GET", "watch=true", refuse(410, None)) },
            FaultRule { times: 1, ..rule("GET", "continue=", refuse(410, None)) },
            FaultRule { times: 1000, ..rule("GET", "limit=500", Fault::SmallPages) },
        ];
        bench.step("410 between two pages", &pages).await?;
    }
    bench.end()
}

async fn broken_answers_are_survived(agent: Agent) -> Result<()> {
    let bench = Bench::start(agent).await?;
    bench.step("half a watch event", &[rule("GET", "watch=true", Fault::Cut(700))]).await?;
    bench.step("half an answer", &everywhere(&Fault::Cut(40))).await?;
    // The upstream kubelet takes any 200 to a delete for done, and never asks again.
    let believes = |rule: &FaultRule| agent == Agent::Upstream && rule.method == "DELETE";
    let garbage: Vec<_> = everywhere(&Fault::Garbage).into_iter().filter(|rule| !believes(rule)).collect();
    bench.step("no JSON", &garbage).await?;
    bench.step("slow bodies", &everywhere(&Fault::Slow(Duration::from_millis(700)))).await?;
    bench.step("a reset before", &everywhere(&Fault::ResetBefore)).await?;
    bench.step("a reset after", &everywhere(&Fault::ResetAfter)).await?;
    bench.end()
}

async fn wrong_certificates_are_survived(agent: Agent) -> Result<()> {
    let bench = Bench::start(agent).await?;
    bench.step_with_certificate(Presented::UnknownAuthority).await?;
    bench.end()
}

async fn times_that_cannot_be_are_survived(agent: Agent) -> Result<()> {
    let bench = Bench::start(agent).await?;
    for certificate in [Presented::NotYetValid, Presented::Expired] {
        bench.step_with_certificate(certificate).await?;
    }
    // A lease from a clock that was ahead does not keep the node from renewing it.
    let node = &bench.node;
    let ahead = json!({"spec": {"renewTime": "2090-01-01T00:00:00.000000Z"}}).to_string();
    let lease = ["lease", node.name.as_str(), "--namespace", "kube-node-lease"];
    node.plane.kubectl(&[&["patch"], &lease[..], &["--type=merge", "--patch", &ahead]].concat()).await?;
    node.wait("the lease is of today again", async || {
        let found = node.plane.get(&lease).await?;
        let time = found["spec"]["renewTime"].as_str().unwrap_or_default().to_owned();
        ensure!(!time.is_empty() && !time.starts_with("2090"), "{time}");
        Ok(())
    })
    .await?;
    bench.end()
}

/// A node behind a door, with a pod that nothing may touch.
struct Bench {
    node: ClusterNode,
    steady: Vec<ContainerView>,
}

impl Bench {
    async fn start(agent: Agent) -> Result<Self> {
        let options = AgentOptions::default();
        let node = ClusterNode::start_with(agent, Joining::ThroughDoor, &options).await?;
        node.apply(&sleeper("steady")).await?;
        node.wait_running("steady").await?;
        let steady = node.running("steady").await?;
        Ok(Self { node, steady })
    }

    /// A pod is made, changed and deleted, and each time the faults are met.
    async fn step(&self, what: &str, rules: &[FaultRule]) -> Result<()> {
        let door = self.node.door()?;
        let begin = async || {
            for rule in rules {
                door.inject(rule.clone());
            }
            door.hang_up();
            Ok(())
        };
        let finish = async || {
            door.heal();
            let hits = door.take_hits();
            ensure!(!hits.is_empty(), "the fault was never met");
            Ok(())
        };
        let steps = Steps { node: &self.node, begin, asked: async || Ok(()), finish };
        steps.run().await.with_context(|| what.to_owned())?;
        self.check().await.with_context(|| format!("after {what}"))
    }

    /// The same while the API server seems to be another, for some seconds each time.
    async fn step_with_certificate(&self, certificate: Presented) -> Result<()> {
        let door = self.node.door()?;
        let begin = async || {
            let before = door.refused_handshakes();
            door.present(certificate);
            eventually("the certificate is refused", Duration::from_secs(60), async || {
                ensure!(door.refused_handshakes() > before, "no handshake was broken off");
                Ok(())
            })
            .await
        };
        // Nothing that runs is touched meanwhile; then the right server is back.
        let asked = async || {
            throughout("the bystander runs on", Duration::from_secs(4), async || self.untouched().await)
                .await?;
            door.present(Presented::Right);
            Ok(())
        };
        let steps = Steps { node: &self.node, begin, asked, finish: async || Ok(()) };
        steps.run().await.with_context(|| format!("{certificate:?}"))?;
        self.check().await.with_context(|| format!("after {certificate:?}"))
    }

    /// Nothing was restarted, and nothing was written twice.
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

/// A pod's life with something around each step of it.
struct Steps<'a, B, A, F> {
    node: &'a ClusterNode,
    /// Before the API server is asked for a change.
    begin: B,
    /// When it was.
    asked: A,
    /// When the node has followed.
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
        self.node.apply(&with(web, "/metadata/labels", json!({"mood": "new"}))).await?;
        (self.asked)().await?;
        self.node.wait_running("web").await?;
        self.node.kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).await?;
        (self.finish)().await
    }

    async fn change(&self) -> Result<()> {
        let node = self.node;
        let before: PodView = node.pod("web").await?;
        let containers = node.running("web").await?;
        (self.begin)().await?;
        node.kubectl(&["label", "pod", "web", "--overwrite", "mood=changed"]).await?;
        (self.asked)().await?;
        let file = node.volume(&before.uid, "downward-api", "about").join("labels");
        eventually("the change has reached the pod", Duration::from_secs(90), async || {
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
        (self.asked)().await?;
        node.wait_absent(&["pod", "web"]).await?;
        ensure!(node.running("web").await?.is_empty(), "the object went before its containers");
        (self.finish)().await?;
        throughout("it stays away", Duration::from_secs(1), async || {
            ensure!(node.running("web").await?.is_empty(), "pod {uid} came back");
            Ok(())
        })
        .await
    }
}
