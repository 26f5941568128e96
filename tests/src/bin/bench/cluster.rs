//! The measurements of a node in a real cluster. All times but the runtime's are the API server's own, from its audit
//! log: both agents are looked at with the same eyes, and looking costs them nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, PodView, sleeper, with};
use serde_json::{Value, json};
use testkit::control_plane::AuditedRequest;

use crate::table::Figure;

/// Pods that are deleted, and made, at once.
const CROWD: usize = 100;
/// Nanoseconds since 1970 by name of a pod.
type Times = BTreeMap<String, i128>;

/// The write by which a pod is first shown to run, in nanoseconds since 1970.
struct Shown {
    /// The agent has done its part.
    arrived: i128,
    /// Everybody can see it.
    visible: i128,
}

/// Runs everything on a node of its own, which is gone afterwards.
pub(crate) async fn all(agent: Agent, quick: bool) -> Result<Vec<Figure>> {
    let overlay = json!({"maxPods": 3 * CROWD});
    let options = AgentOptions { verbosity: 0, overlay, ..AgentOptions::default() };
    let node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    let mut figures = single_pods(&node, if quick { 5 } else { 21 }).await?;
    figures.extend(crowds(&node).await?);
    Ok(figures)
}

async fn single_pods(node: &ClusterNode, repeats: usize) -> Result<Vec<Figure>> {
    let (mut delays, mut own_delays) = (Vec::new(), Vec::new());
    let mut names = Vec::new();
    for number in 0..repeats {
        let name = format!("single-{number}");
        // The agents' own rhythms must not meet ours.
        tokio::time::sleep(Duration::from_millis(500 + 137 * (number as u64 % 7))).await;
        node.apply(&sleeper(&name)).await?;
        node.wait_running(&name).await?;
        names.push(name);
    }
    // Events may come later.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let shown = running_shown(node)?;
    for name in &names {
        let [container] = &node.running(name).await?[..] else { anyhow::bail!("not one container") };
        let shown = shown.get(name).with_context(|| format!("{name} was never shown"))?;
        delays.push(shown.visible - i128::from(container.started_at));
        own_delays.push(shown.arrived - i128::from(container.started_at));
    }
    let writes: Vec<AuditedRequest> =
        node.requests()?.into_iter().filter(|one| is_write_of(one, node)).collect();
    let per_pod = |count: usize| count as f64 / names.len() as f64;
    let of = |resource: &str| per_pod(writes.iter().filter(|write| write.resource == resource).count());
    Ok(vec![
        milliseconds("container started to Running in the API (p50)", percentile(&mut delays, 50)?),
        milliseconds("container started to Running in the API (p95)", percentile(&mut delays, 95)?),
        milliseconds(
            "the agent's part of it, until the API server has the write (p50)",
            percentile(&mut own_delays, 50)?,
        ),
        milliseconds(
            "the agent's part of it, until the API server has the write (p95)",
            percentile(&mut own_delays, 95)?,
        ),
        count("writes of status per pod start", of("pods")),
        count("events per pod start", of("events")),
        count("tokens per pod start", of("serviceaccounts")),
        count("API writes per pod start, all of these", per_pod(writes.len())),
    ])
}

/// A crowd is made; then it is deleted while another is made.
async fn crowds(node: &ClusterNode) -> Result<Vec<Figure>> {
    make(node, "first").await?;
    wait_for(node, "first").await?;
    let path = format!("/api/v1/namespaces/{}/pods?labelSelector=crowd%3Dfirst", node.namespace);
    let asked = Timestamp::now().as_nanosecond();
    node.kubectl(&["delete", "--raw", &path]).await?;
    make(node, "second").await?;
    wait_for(node, "second").await?;
    node.wait("the first crowd is gone", async || {
        let left = node.kubectl(&["get", "pods", "-o", "name", "--selector", "crowd=first"]).await?;
        ensure!(left.trim().is_empty(), "{} left", left.lines().count());
        Ok(())
    })
    .await?;
    let (bound, shown) = (bound(node)?, running_shown(node)?);
    let mut started = Vec::new();
    for (name, shown) in shown.iter().filter(|(name, _)| name.starts_with("second")) {
        started.push(shown.visible - bound.get(name).with_context(|| format!("{name} was never bound"))?);
    }
    let mut gone: Vec<i128> = deleted(node)?
        .into_iter()
        .filter_map(|(name, time)| name.starts_with("first").then_some(time - asked))
        .collect();
    ensure!(started.len() == CROWD && gone.len() == CROWD, "{} and {}", started.len(), gone.len());
    let mut figures = Vec::new();
    for (name, percent) in [
        ("100 made while 100 go: bound to Running (p50)", 50),
        ("100 made while 100 go: bound to Running (p95)", 95),
        ("100 made while 100 go: bound to Running (max)", 100),
    ] {
        figures.push(milliseconds(name, percentile(&mut started, percent)?));
    }
    for (name, percent) in [
        ("100 deleted while 100 come: asked to gone (p50)", 50),
        ("100 deleted while 100 come: asked to gone (p95)", 95),
        ("100 deleted while 100 come: asked to gone (max)", 100),
    ] {
        figures.push(milliseconds(name, percentile(&mut gone, percent)?));
    }
    Ok(figures)
}

async fn make(node: &ClusterNode, crowd: &str) -> Result<()> {
    let pods: Vec<Value> = (0..CROWD)
        .map(|number| {
            with(sleeper(&format!("{crowd}-{number}")), "/metadata/labels", json!({"crowd": crowd}))
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
    node.kubectl_with_input(&["create", "-f", "-"], &list.to_string()).await.map(drop)
}

async fn wait_for(node: &ClusterNode, crowd: &str) -> Result<()> {
    node.wait(&format!("the {crowd} crowd runs"), async || {
        let pods = node.pods(&format!("crowd={crowd}")).await?;
        let running = pods.iter().filter(|pod| PodView::all_running(pod)).count();
        ensure!(running == CROWD, "{running} run");
        // Each question is a process that the agents want the machine for.
        Ok(())
    })
    .await
}

fn is_write_of(request: &AuditedRequest, node: &ClusterNode) -> bool {
    let read = ["get", "list", "watch"].contains(&request.verb.as_str());
    !read && request.code < 300 && request.namespace == node.namespace
}

/// When the API server first showed that the container runs.
fn running_shown(node: &ClusterNode) -> Result<BTreeMap<String, Shown>> {
    let mut times = BTreeMap::new();
    for write in node.status_writes()? {
        let running = write.body["status"]["containerStatuses"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["state"]["running"].is_object()));
        if running {
            let shown =
                Shown { arrived: nanoseconds(&write.received)?, visible: nanoseconds(&write.answered)? };
            times.entry(write.name).or_insert(shown);
        }
    }
    Ok(times)
}

/// When the scheduler placed the pod.
fn bound(node: &ClusterNode) -> Result<Times> {
    let writes = node.plane.writes_in(&node.namespace)?;
    let bindings = writes.into_iter().filter(|write| write.subresource == "binding" && write.code < 300);
    bindings.map(|write| Ok((write.name, nanoseconds(&write.answered)?))).collect()
}

/// When the agent deleted the object for good.
fn deleted(node: &ClusterNode) -> Result<Times> {
    let deletes = node.requests()?.into_iter().filter(|one| {
        one.verb == "delete" && one.resource == "pods" && one.code == 200 && one.namespace == node.namespace
    });
    deletes.map(|write| Ok((write.name, nanoseconds(&write.answered)?))).collect()
}

fn nanoseconds(time: &str) -> Result<i128> {
    let parsed: Timestamp = time.parse().with_context(|| format!("a time of the audit log: {time}"))?;
    Ok(parsed.as_nanosecond())
}

fn percentile(values: &mut [i128], percent: usize) -> Result<i128> {
    values.sort_unstable();
    let index = (values.len() * percent).div_ceil(100).saturating_sub(1);
    values.get(index).copied().context("no values")
}

fn milliseconds(name: &'static str, nanoseconds: i128) -> Figure {
    Figure { name, unit: "ms", value: nanoseconds as f64 / 1e6 }
}

fn count(name: &'static str, value: f64) -> Figure {
    Figure { name, unit: "", value }
}
