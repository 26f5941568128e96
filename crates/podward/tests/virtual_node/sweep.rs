//! Kills the agent at every runtime call, before and after it takes effect, and between any two polls of its tasks. After a restart the
//! pod must reach the same state.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Value, json};
use testkit::fake_runtime::{Exit, Fault, Injection};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::node::{VirtualNode, containers, pod};

const UID: &str = "uid-swept";
/// Concurrent virtual nodes; they mostly wait.
const AT_ONCE: usize = 40;
/// Number of kill points between polls; `PODWARD_SWEEP=all` tests every one.
const POINTS: usize = 60;

/// A pod with two containers, an emptyDir and a hostPath.
fn swept_pod() -> Value {
    let mut pod = pod("swept", UID, &["main", "side"]);
    pod["spec"]["volumes"] = json!([
        {"name": "scratch", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": "/tmp", "type": "Directory"}},
    ]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "scratch", "mountPath": "/scratch"}, {"name": "host", "mountPath": "/host"}]);
    pod
}

/// The pod with CPU requests.
fn sized_pod(main: &str, side: &str) -> Value {
    let mut pod = swept_pod();
    for (index, cpu) in [main, side].into_iter().enumerate() {
        pod["spec"]["containers"][index]["resources"] = json!({"requests": {"cpu": cpu}});
    }
    pod
}

/// The change of the pod while the agent is killed.
#[derive(Clone, Copy, Debug)]
enum Scenario {
    Start,
    /// Its manifest is removed.
    Removal,
    /// A container crashed and is restarted.
    Crash,
    /// A container's image changes.
    ImageChange,
    /// The containers are resized, one up and one down.
    Resize,
}

/// When the agent is killed.
#[derive(Clone, Copy, Debug)]
enum KillPoint {
    Never,
    /// On this call, before it takes effect.
    BeforeCall(usize),
    /// On this call, after it took effect and before the answer.
    AfterCall(usize),
    /// After this many polls of its tasks.
    Poll(usize),
}

/// Calls and polls of an undisturbed run.
struct RunLength {
    calls: usize,
    polls: usize,
}

impl Scenario {
    /// The node at the beginning, without an agent.
    async fn prepare(self) -> VirtualNode {
        let mut node = VirtualNode::new();
        match self {
            Self::Start => node.write("swept.json", &swept_pod()),
            Self::Removal | Self::Crash | Self::ImageChange | Self::Resize => {
                let first = if let Self::Resize = self { sized_pod("200m", "100m") } else { swept_pod() };
                node.write("swept.json", &first);
                node.start_agent();
                node.until_running(UID).await;
                node.kill_agent().await;
                let scratch = "root/pods/uid-swept/volumes/kubernetes.io~empty-dir/scratch/data";
                std::fs::write(node.path(scratch), "kept until the pod goes").unwrap();
            }
        }
        match self {
            Self::Start => {}
            Self::Removal => node.remove("swept.json"),
            Self::Crash => node.runtime.exit_container(&node.running(UID, "main"), Exit::code(42)),
            Self::ImageChange => {
                let mut edited = swept_pod();
                edited["spec"]["containers"][0]["image"] = json!("example.com/other:2");
                node.write("swept.json", &edited);
            }
            Self::Resize => node.write("swept.json", &sized_pod("100m", "300m")),
        }
        node.runtime.clear_calls();
        node
    }

    /// Waits for the final state and checks it.
    async fn check_end(self, node: &VirtualNode) {
        if let Self::Resize = self {
            let shares = |state: &testkit::fake_runtime::RuntimeState, name: &str| {
                Some(state.running_container(UID, name)?.resources.as_ref()?.cpu_shares)
            };
            let sizes =
                |state: &testkit::fake_runtime::RuntimeState| [shares(state, "main"), shares(state, "side")];
            node.until("the containers are resized", |state| sizes(state) == [Some(102), Some(307)]).await;
            let no_condition = |status: &PodStatus| {
                let conditions = status.conditions.as_deref().unwrap_or_default();
                conditions.iter().all(|one| !one.type_.starts_with("PodResize"))
            };
            node.until_status(UID, no_condition).await;
        }
        if let Self::Removal = self {
            node.until_gone(UID).await;
            node.assert_no_violations();
            return;
        }
        let restarts = match self {
            Self::Start | Self::Removal | Self::Resize => 0,
            Self::Crash | Self::ImageChange => 1,
        };
        let status = node
            .until_status(UID, |status| {
                let all = containers(status);
                let running =
                    all.iter().filter(|one| one.state.as_ref().is_some_and(|state| state.running.is_some()));
                status.phase.as_deref() == Some("Running")
                    && running.count() == 2
                    && all.iter().all(|one| one.name == "side" || one.restart_count >= restarts)
            })
            .await;
        let text = format!("{}\n{}", serde_json::to_string(&status).unwrap(), node.describe());
        for one in containers(&status) {
            let expected = if one.name == "main" { restarts } else { 0 };
            assert_eq!(one.restart_count, expected, "restart count of {}: {text}", one.name);
        }
        let main = containers(&status).iter().find(|one| one.name == "main").unwrap();
        let ended = main.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        match self {
            Self::Start | Self::Removal | Self::Resize => assert!(ended.is_none(), "{text}"),
            Self::Crash => assert_eq!(ended.unwrap().exit_code, 42, "{text}"),
            Self::ImageChange => assert_eq!(ended.unwrap().exit_code, 143, "{text}"),
        }
        node.runtime.read(|state| {
            let ready = state.sandboxes().filter(|sandbox| sandbox.is_ready()).count();
            assert_eq!((ready, state.sandboxes().count()), (1, 1), "sandboxes: {text}");
            assert_eq!(state.running_count(), 2, "running containers: {text}");
            let all = state.containers().count();
            assert_eq!(all, 2 + usize::try_from(restarts).unwrap(), "containers: {text}");
        });
        node.assert_no_violations();
    }

    async fn run(self, point: KillPoint) -> RunLength {
        let mut node = self.prepare().await;
        match point {
            KillPoint::Never => {
                node.start_agent();
                self.check_end(&node).await;
                return RunLength { calls: node.runtime.calls().len(), polls: node.polls() };
            }
            KillPoint::BeforeCall(call) | KillPoint::AfterCall(call) => {
                let fault = match point {
                    KillPoint::BeforeCall(_) => Fault::Hang,
                    _ => Fault::HoldAnswer,
                };
                let injected = node.runtime.inject(Injection::on_any(fault).sparing(call - 1).times(1));
                node.start_agent();
                // The last calls are periodic and may come after the final state.
                let hit = injected.wait_hits(1);
                let _ = tokio::time::timeout(std::time::Duration::from_secs(3), hit).await;
                node.kill_agent().await;
                if injected.hits() == 0 {
                    injected.release();
                }
            }
            KillPoint::Poll(polls) => {
                node.start_agent_for(polls);
                node.agent_ended().await;
            }
        }
        node.start_agent();
        self.check_end(&node).await;
        RunLength { calls: 0, polls: 0 }
    }

    async fn sweep(self) {
        let RunLength { calls, polls } = self.run(KillPoint::Never).await;
        let target =
            if std::env::var("PODWARD_SWEEP").is_ok_and(|value| value == "all") { polls } else { POINTS };
        let mut points: Vec<KillPoint> =
            (1..=calls).flat_map(|call| [KillPoint::BeforeCall(call), KillPoint::AfterCall(call)]).collect();
        points.extend((1..=polls).step_by((polls / target).max(1)).map(KillPoint::Poll));
        println!("{self:?}: {calls} calls, {polls} polls, {} points", points.len());
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let mut cases = JoinSet::new();
        let mut names = std::collections::HashMap::new();
        for point in points {
            let slots = Arc::clone(&slots);
            let case = cases.spawn(async move {
                let _slot = slots.acquire_owned().await.unwrap();
                self.run(point).await;
            });
            names.insert(case.id(), point);
        }
        let mut failed = Vec::new();
        while let Some(ended) = cases.join_next_with_id().await {
            if let Err(error) = ended {
                failed.push((names[&error.id()], error.to_string()));
            }
        }
        assert!(failed.is_empty(), "{} of the points failed: {failed:#?}", failed.len());
    }
}

#[tokio::test]
async fn pod_start_survives_agent_kill_at_any_point() {
    Scenario::Start.sweep().await;
}

#[tokio::test]
async fn pod_removal_survives_agent_kill_at_any_point() {
    Scenario::Removal.sweep().await;
}

#[tokio::test]
async fn container_restart_survives_agent_kill_at_any_point() {
    Scenario::Crash.sweep().await;
}

#[tokio::test]
async fn resize_survives_agent_kill_at_any_point() {
    Scenario::Resize.sweep().await;
}

#[tokio::test]
async fn image_change_survives_agent_kill_at_any_point() {
    Scenario::ImageChange.sweep().await;
}
