//! The measurements of a node in a real cluster. All times except the runtime's are the API server's, from its audit
//! log: both agents are measured in the same way, at no cost to them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, PodView, sleeper, with};
use serde_json::{Value, json};
use testkit::control_plane::AuditedRequest;

use crate::table::Measurement;

/// Number of pods that are created, and deleted, at once.
const GROUP_SIZE: usize = 100;
/// Nanoseconds since 1970 by pod name.
type Times = BTreeMap<String, i128>;

/// The first status write that shows a pod as running, in nanoseconds since 1970.
struct FirstRunningWrite {
    /// The request's arrival: the end of the agent's work.
    arrived: i128,
    visible: i128,
}

/// Runs all measurements on a new node, which is removed afterwards.
pub(crate) async fn all(agent: Agent, quick: bool) -> Result<Vec<Measurement>> {
    let overlay = json!({"maxPods": 3 * GROUP_SIZE});
    let options = AgentOptions { verbosity: 0, overlay, ..AgentOptions::default() };
    let node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    let mut measurements = single_pods(&node, if quick { 5 } else { 21 }).await?;
    measurements.extend(pod_groups(&node).await?);
    Ok(measurements)
}

async fn single_pods(node: &ClusterNode, repeats: usize) -> Result<Vec<Measurement>> {
    let (mut delays, mut own_delays) = (Vec::new(), Vec::new());
    let mut names = Vec::new();
    for number in 0..repeats {
        let name = format!("single-{number}");
        // Avoids resonance with the agents' periods.
        tokio::time::sleep(Duration::from_millis(500 + 137 * (number as u64 % 7))).await;
        node.apply(&sleeper(&name)).await?;
        node.wait_running(&name).await?;
        names.push(name);
    }
    // Events may arrive later.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let shown = running_shown(node)?;
    for name in &names {
        let [container] = &node.running(name).await?[..] else {
            anyhow::bail!("expected exactly one container")
        };
        let shown = shown.get(name).with_context(|| format!("{name} was never reported as running"))?;
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
        count("status writes per pod start", of("pods")),
        count("events per pod start", of("events")),
        count("tokens per pod start", of("serviceaccounts")),
        count("API writes per pod start, total", per_pod(writes.len())),
    ])
}

/// Creates a group of pods, then deletes it while another is created.
async fn pod_groups(node: &ClusterNode) -> Result<Vec<Measurement>> {
    make(node, "first").await?;
    wait_for(node, "first").await?;
    let path = format!("/api/v1/namespaces/{}/pods?labelSelector=group%3Dfirst", node.namespace);
    let requested = Timestamp::now().as_nanosecond();
    node.kubectl(&["delete", "--raw", &path]).await?;
    make(node, "second").await?;
    wait_for(node, "second").await?;
    node.wait("the first group is deleted", async || {
        let left = node.kubectl(&["get", "pods", "-o", "name", "--selector", "group=first"]).await?;
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
        .filter_map(|(name, time)| name.starts_with("first").then_some(time - requested))
        .collect();
    ensure!(started.len() == GROUP_SIZE && gone.len() == GROUP_SIZE, "{} and {}", started.len(), gone.len());
    let mut measurements = Vec::new();
    for (name, percent) in [
        ("100 created while 100 are deleted: bound to Running (p50)", 50),
        ("100 created while 100 are deleted: bound to Running (p95)", 95),
        ("100 created while 100 are deleted: bound to Running (max)", 100),
    ] {
        measurements.push(milliseconds(name, percentile(&mut started, percent)?));
    }
    for (name, percent) in [
        ("100 deleted while 100 are created: request to removal (p50)", 50),
        ("100 deleted while 100 are created: request to removal (p95)", 95),
        ("100 deleted while 100 are created: request to removal (max)", 100),
    ] {
        measurements.push(milliseconds(name, percentile(&mut gone, percent)?));
    }
    Ok(measurements)
}

async fn make(node: &ClusterNode, group: &str) -> Result<()> {
    let pods: Vec<Value> = (0..GROUP_SIZE)
        .map(|number| {
            with(sleeper(&format!("{group}-{number}")), "/metadata/labels", json!({"group": group}))
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
    node.kubectl_with_input(&["create", "-f", "-"], &list.to_string()).await.map(drop)
}

async fn wait_for(node: &ClusterNode, group: &str) -> Result<()> {
    node.wait(&format!("the {group} group runs"), async || {
        let pods = node.pods(&format!("group={group}")).await?;
        let running = pods.iter().filter(|pod| PodView::all_running(pod)).count();
        ensure!(running == GROUP_SIZE, "{running} are running");
        // Each poll is a process that takes CPU time from the agents.
        Ok(())
    })
    .await
}

fn is_write_of(request: &AuditedRequest, node: &ClusterNode) -> bool {
    let read = ["get", "list", "watch"].contains(&request.verb.as_str());
    !read && request.code < 300 && request.namespace == node.namespace
}

/// When the API server first showed the container as running.
fn running_shown(node: &ClusterNode) -> Result<BTreeMap<String, FirstRunningWrite>> {
    let mut times = BTreeMap::new();
    for write in node.status_writes()? {
        let running = write.body["status"]["containerStatuses"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["state"]["running"].is_object()));
        if running {
            let shown = FirstRunningWrite {
                arrived: nanoseconds(&write.received)?,
                visible: nanoseconds(&write.answered)?,
            };
            times.entry(write.name).or_insert(shown);
        }
    }
    Ok(times)
}

fn bound(node: &ClusterNode) -> Result<Times> {
    let writes = node.plane.writes_in(&node.namespace)?;
    let bindings = writes.into_iter().filter(|write| write.subresource == "binding" && write.code < 300);
    bindings.map(|write| Ok((write.name, nanoseconds(&write.answered)?))).collect()
}

/// When the agent finally deleted the object.
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

fn milliseconds(name: &'static str, nanoseconds: i128) -> Measurement {
    Measurement { name, unit: "ms", value: nanoseconds as f64 / 1e6 }
}

fn count(name: &'static str, value: f64) -> Measurement {
    Measurement { name, unit: "", value }
}
