//! Runs one agent with the whole corpus.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, NODE, Node};
use serde_json::{Value, json};

use crate::corpus::{Manifest, Settles};
use crate::normalise::{self, Normaliser};
use crate::{ObservedPods, events};

const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long a pod must stay the same to count as settled.
const SETTLE_TIME: Duration = Duration::from_millis(1500);
/// Number of pods that start at the same time; more would only delay all of them.
const MAX_STARTING_PODS: usize = 16;

struct Way {
    began: Instant,
    last: Value,
    since: Instant,
}

/// Runs all pods and returns the result of each.
pub(crate) async fn run(agent: Agent, manifests: &[Manifest]) -> Result<ObservedPods> {
    // Upstream logs events at this level.
    let overlay = json!({"maxPods": 500});
    let options = AgentOptions { verbosity: 3, overlay, ..AgentOptions::default() };
    let mut node = Node::start_with(agent, &options).await?;
    node.print_log_on_drop = false;
    let folder = node.runtime.instance().folder().display().to_string();
    let mut waiting: Vec<&Manifest> = manifests.iter().rev().collect();
    let mut on_the_way: BTreeMap<String, (&Manifest, Way)> = BTreeMap::new();
    let mut raw: BTreeMap<String, Value> = BTreeMap::new();
    while !(waiting.is_empty() && on_the_way.is_empty()) {
        while on_the_way.len() < MAX_STARTING_PODS
            && let Some(manifest) = waiting.pop()
        {
            node.write_text(&format!("{}.yaml", manifest.name), &manifest.text.replace("@NODE@", &folder))?;
            let now = Instant::now();
            let way = Way { began: now, last: Value::Null, since: now };
            on_the_way.insert(manifest.name.clone(), (manifest, way));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        let pods = pods(&node)
            .await
            .with_context(|| format!("the agent's log ends with\n{}", node.agent.log_tail(40)))?;
        on_the_way.retain(|name, (manifest, way)| match way.look(manifest, pods.get(name), &folder) {
            Some(object) => {
                raw.insert(name.clone(), object);
                false
            }
            None => true,
        });
    }
    // By now, pods that must not appear have had enough time to do so.
    let pods = pods(&node).await?;
    for manifest in manifests.iter().filter(|manifest| matches!(manifest.settles, Settles::Absent)) {
        let object = pods.get(&manifest.name).map_or(json!("absent"), |_| json!("present"));
        raw.insert(manifest.name.clone(), object);
    }
    let pod_events = events::of(&node, agent).await?;
    Ok(manifests.iter().map(|manifest| seen(manifest, &raw, &pod_events, &folder)).collect())
}

fn seen(
    manifest: &Manifest,
    raw: &BTreeMap<String, Value>,
    pod_events: &events::PodEvents,
    folder: &str,
) -> (String, Value) {
    let object = raw.get(&manifest.name).unwrap_or(&Value::Null);
    let normaliser = Normaliser::of(object, folder);
    let mut seen = normaliser.object(object);
    if manifest.crashes {
        normalise::normalise_crashes(&mut seen);
    }
    if let Some(seen) = seen.as_object_mut()
        && manifest.events
    {
        let pod_events = pod_events.get(&manifest.name).into_iter().flatten();
        let texts: std::collections::BTreeSet<String> =
            pod_events.map(|event| normaliser.event(&event.to_string())).collect();
        seen.insert("events".to_owned(), texts.into_iter().map(|text| (text, json!(true))).collect());
    }
    (manifest.name.clone(), seen)
}

impl Way {
    /// The object once the pod has settled or timed out.
    fn look(&mut self, manifest: &Manifest, pod: Option<&Value>, folder: &str) -> Option<Value> {
        let late = self.began.elapsed() > manifest.within;
        if matches!(manifest.settles, Settles::Absent) {
            return late
                .then_some(Value::Null)
                .or_else(|| (self.began.elapsed() > SETTLE_TIME).then_some(Value::Null));
        }
        let pod = pod.cloned().unwrap_or_default();
        let calm = Normaliser::of(&pod, folder).object(&pod);
        if calm != self.last {
            self.last = calm;
            self.since = Instant::now();
        }
        if manifest.settles.reached(&pod) && self.since.elapsed() >= SETTLE_TIME {
            return Some(pod);
        }
        late.then(|| match pod {
            Value::Object(mut pod) => {
                pod.insert("unsettled".to_owned(), json!(true));
                Value::Object(pod)
            }
            other => other,
        })
    }
}

/// The objects of `/pods` by manifest name.
async fn pods(node: &Node) -> Result<BTreeMap<String, Value>> {
    let list: Value = serde_json::from_str(&node.agent.page("/pods").await?).context("parse /pods")?;
    let shape: Vec<&str> = list.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    ensure!(shape == ["apiVersion", "items", "kind", "metadata"], "/pods has the fields {shape:?}");
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    let own = format!("-{NODE}");
    Ok(items
        .filter_map(|pod| {
            let name = pod.pointer("/metadata/name")?.as_str()?;
            Some((name.strip_suffix(&own).unwrap_or(name).to_owned(), pod.clone()))
        })
        .collect())
}
