//! In-place resize with `kubectl patch --subresource resize`: a matrix of pods ends on podward as on upstream.

mod matrix;
mod outcome;
mod switch;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use scenarios::{Agent, ClusterNode};
use serde_json::{Value, json};
use testkit::poll::eventually;

use matrix::{Case, Step, cases};
use outcome::{Outcome, difference, problems};

/// kubectl processes at the same time.
const PARALLEL: usize = 4;
/// All pods of the matrix together.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Runs the whole matrix on upstream and on podward, one cluster node each, and compares the outcome of every resize.
#[test]
fn resizes_end_as_on_upstream() {
    if Agent::Upstream.selected() && Agent::Podward.selected() {
        let name = "cluster_node::resize::resizes_end_as_on_upstream";
        scenarios::run(Agent::Podward, name, async |_| {
            let upstream = run_matrix(Agent::Upstream).await.context("upstream")?;
            compare(&upstream, &run_matrix(Agent::Podward).await.context("podward")?)
        });
    }
}

/// Outcomes by case and step.
type Outcomes = BTreeMap<(String, Step), Outcome>;

fn compare(upstream: &Outcomes, podward: &Outcomes) -> Result<()> {
    let differences: Vec<String> = upstream
        .iter()
        .filter_map(|(key, expected)| {
            let difference = difference(expected, podward.get(key)?)?;
            Some(format!("{} {:?}: {difference}", key.0, key.1))
        })
        .collect();
    ensure!(upstream.len() == podward.len(), "not every case has an outcome");
    ensure!(
        differences.is_empty(),
        "{} of {} outcomes differ:\n{}",
        differences.len(),
        upstream.len(),
        differences.join("\n")
    );
    Ok(())
}

async fn run_matrix(agent: Agent) -> Result<Outcomes> {
    let node = ClusterNode::start(agent).await?;
    let cases = cases();
    let pods: Vec<&Value> = cases.iter().map(|case| &case.pod).collect();
    node.apply(&json!({"apiVersion": "v1", "kind": "List", "items": pods})).await?;
    wait_settled(&node, "start").await?;
    let mut outcomes = Outcomes::new();
    for step in [Step::Up, Step::Down] {
        stream::iter(&cases)
            .map(|case| patch(&node, case, step))
            .buffer_unordered(PARALLEL)
            .try_collect::<Vec<()>>()
            .await?;
        for (name, outcome) in wait_settled(&node, "are resized").await? {
            outcomes.insert((name, step), outcome);
        }
    }
    node.end()?;
    Ok(outcomes)
}

async fn patch(node: &ClusterNode, case: &Case, step: Step) -> Result<()> {
    let name = case.pod["metadata"]["name"].as_str().unwrap_or_default();
    let patch = case.patch(step).to_string();
    let arguments = ["patch", "pod", name, "--subresource", "resize", "--patch", patch.as_str()];
    node.kubectl(&arguments).await.map(drop).with_context(|| format!("{name} {step:?} {patch}"))
}

/// Waits until no resize is in progress, every container that should run does, and its status shows the resources of the
/// spec.
async fn wait_settled(node: &ClusterNode, what: &str) -> Result<BTreeMap<String, Outcome>> {
    eventually(&format!("pods {what}"), TIMEOUT, async || {
        let list = node.get(&["pods"]).await?;
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        let unsettled: Vec<String> = pods
            .iter()
            .filter_map(|pod| {
                let problem = problems(pod).into_iter().next()?;
                Some(format!("{}: {problem}", pod["metadata"]["name"].as_str().unwrap_or_default()))
            })
            .collect();
        if let Some(first) = unsettled.first() {
            bail!("{} of {} pods are not settled; {first}", unsettled.len(), pods.len());
        }
        let root = node.containerd.instance().cgroup_root();
        pods.iter().map(|pod| Outcome::of(pod, &root)).collect()
    })
    .await
}
