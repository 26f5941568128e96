//! The state of a pod after a resize.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// Files with the limits of a cgroup: controller and file on v1, file on v2.
const LIMITS: [(&str, &str, &str); 3] = [
    ("cpu", "cpu.shares", "cpu.weight"),
    ("cpu", "cpu.cfs_quota_us", "cpu.max"),
    ("memory", "memory.limit_in_bytes", "memory.max"),
];
/// On cgroup v1 upstream shows the kernel's maximum where there is no memory limit; podward shows none.
const V1_NO_LIMIT: &str = "9007199254740988Ki";

/// A pod as the API server and the cgroups show it, in a form that is equal for equal pods of two nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome(BTreeMap<String, Value>);

impl Outcome {
    /// The outcome of a pod, with the pod's name.
    pub(super) fn of(pod: &Value, cgroup_root: &str) -> Result<(String, Self)> {
        let name = pod["metadata"]["name"].as_str().context("a pod without a name")?;
        let status = &pod["status"];
        let mut entries = BTreeMap::new();
        let mut add = |key: &str, value: Value| entries.insert(key.to_owned(), value);
        add("phase", status["phase"].clone());
        add("allocatedResources", status["allocatedResources"].clone());
        add("resources", without_kernel_maximum(status["resources"].clone()));
        let conditions: Vec<&Value> = resize_conditions(pod).collect();
        add("conditions", json!(conditions));
        let folder = pod_folder(pod, cgroup_root)?;
        add("cgroup", limits(&folder, "")?);
        for container in container_statuses(pod) {
            let name = container["name"].as_str().unwrap_or_default();
            for field in ["resources", "allocatedResources", "restartCount", "ready", "started"] {
                add(&format!("{name} {field}"), container[field].clone());
            }
            let id = container["containerID"].as_str().and_then(|id| id.rsplit('/').next());
            if let Some(id) = id.filter(|_| is_running(container)) {
                add(&format!("{name} cgroup"), limits(&folder, id)?);
            }
        }
        Ok((name.to_owned(), Self(entries)))
    }
}

/// The differences between two outcomes.
pub(super) fn difference(expected: &Outcome, found: &Outcome) -> Option<String> {
    let keys = expected.0.keys().chain(found.0.keys());
    let differs = |key: &&String| expected.0.get(*key) != found.0.get(*key);
    let all: Vec<String> = keys
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .filter(differs)
        .map(|key| {
            let text = |outcome: &Outcome| outcome.0.get(key).unwrap_or(&Value::Null).to_string();
            format!("{key} is {} on upstream and {} on podward", text(expected), text(found))
        })
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Why a pod is not settled.
pub(super) fn problems(pod: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let mut check = |is_right: bool, problem: &dyn Fn() -> String| {
        if !is_right {
            problems.push(problem());
        }
    };
    let (generation, observed) = (&pod["metadata"]["generation"], &pod["status"]["observedGeneration"]);
    check(generation == observed, &|| format!("generation {observed} of {generation} is observed"));
    for condition in resize_conditions(pod) {
        check(false, &|| format!("condition {condition}"));
    }
    let init = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    let is_blocked = init.clone().any(|container| container["restartPolicy"].is_null());
    let regular = pod["spec"]["containers"].as_array().into_iter().flatten();
    let expected = init.chain(regular.filter(|_| !is_blocked));
    for container in expected {
        let status = container_statuses(pod).find(|status| status["name"] == container["name"]);
        let name = &container["name"];
        check(status.is_some_and(is_running), &|| format!("container {name} does not run"));
        let shown = status.map_or(&Value::Null, |status| &status["resources"]);
        for list in ["requests", "limits"] {
            for (resource, amount) in container["resources"][list].as_object().into_iter().flatten() {
                let found = &shown[list][resource];
                check(found == amount, &|| format!("{name} shows {list}.{resource} {found}, not {amount}"));
            }
        }
    }
    problems
}

fn resize_conditions(pod: &Value) -> impl Iterator<Item = &Value> {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|condition| condition["type"].as_str().is_some_and(|kind| kind.starts_with("PodResize")))
}

fn container_statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .flat_map(|list| pod["status"][list].as_array().into_iter().flatten())
}

fn is_running(container: &Value) -> bool {
    container["state"]["running"].is_object()
}

fn without_kernel_maximum(mut resources: Value) -> Value {
    if resources["limits"]["memory"] == V1_NO_LIMIT
        && let Some(limits) = resources["limits"].as_object_mut()
    {
        limits.remove("memory");
    }
    if resources["limits"].as_object().is_some_and(Map::is_empty)
        && let Some(all) = resources.as_object_mut()
    {
        all.remove("limits");
    }
    resources
}

/// Path of the pod's cgroup below a hierarchy.
fn pod_folder(pod: &Value, root: &str) -> Result<String> {
    let uid = pod["metadata"]["uid"].as_str().context("a pod without a UID")?;
    let class = match pod["status"]["qosClass"].as_str() {
        Some("Guaranteed") => "",
        Some("Burstable") => "/burstable",
        Some("BestEffort") => "/besteffort",
        class => anyhow::bail!("QoS class {class:?}"),
    };
    Ok(format!("{}/kubepods{class}/pod{uid}", root.trim_matches('/')))
}

fn limits(pod: &str, container: &str) -> Result<Value> {
    let mount = Path::new("/sys/fs/cgroup");
    let is_v2 = mount.join("cgroup.controllers").exists();
    let read = |(controller, v1, v2): (&str, &str, &str)| {
        let hierarchy = if is_v2 { mount.to_owned() } else { mount.join(controller) };
        let file = hierarchy.join(pod).join(container).join(if is_v2 { v2 } else { v1 });
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        Ok((if is_v2 { v2 } else { v1 }.to_owned(), json!(text.trim())))
    };
    let all: Result<Map<String, Value>> = LIMITS.into_iter().map(read).collect();
    Ok(Value::Object(all?))
}
