//! The cgroup tree of pods.

use std::fs;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, container, pod, scenarios, with};
use serde_json::{Value, json};

use crate::files::{
    MEMORY, PIDS, QUOTA, SHARES, folder, hierarchies, is_v2, read, wait_limit, wait_no_cgroup,
};

scenarios!(
    qos_cgroup_weights_follow_pod_requests,
    pods_of_each_qos_class_are_limited,
    pods_cgroup_excludes_reserved_resources,
    missing_reserved_cgroup_is_refused_at_start,
    orphan_cgroup_is_removed_with_its_processes,
    pod_without_cgroup_is_restarted,
);

fn sleeper(resources: Value) -> Value {
    with(container("main", "sleep forever"), "/resources", resources)
}

async fn qos_cgroup_weights_follow_pod_requests(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    wait_limit(&node, "kubepods/besteffort", SHARES, "2", "1").await?;
    let half = sleeper(json!({"requests": {"cpu": "500m"}}));
    let quarter = sleeper(json!({"requests": {"cpu": "250m"}}));
    node.write("half.json", &pod("half", [half]))?;
    node.wait_running("half").await?;
    wait_limit(&node, "kubepods/burstable", SHARES, "512", "20").await?;
    node.write("quarter.json", &pod("quarter", [quarter]))?;
    node.write("none.json", &pod("none", [container("main", "sleep forever")]))?;
    node.wait_running("quarter").await?;
    node.wait_running("none").await?;
    wait_limit(&node, "kubepods/burstable", SHARES, "768", "30").await?;
    wait_limit(&node, "kubepods/besteffort", SHARES, "2", "1").await
}

async fn pods_of_each_qos_class_are_limited(agent: Agent) -> Result<()> {
    let options = AgentOptions { overlay: json!({"podPidsLimit": 100}), ..AgentOptions::default() };
    let node = Node::start_with(agent, &options).await?;
    let both = json!({"cpu": "250m", "memory": "64Mi"});
    let guaranteed = sleeper(json!({"requests": both, "limits": both}));
    let burstable = sleeper(json!({"requests": {"cpu": "100m"}, "limits": {"memory": "32Mi"}}));
    node.write("first.json", &pod("first", [guaranteed]))?;
    node.write("second.json", &pod("second", [burstable]))?;
    node.write("third.json", &pod("third", [container("main", "sleep forever")]))?;
    let first = format!("kubepods/pod{}", node.wait_running("first").await?.uid);
    let second = format!("kubepods/burstable/pod{}", node.wait_running("second").await?.uid);
    let third = format!("kubepods/besteffort/pod{}", node.wait_running("third").await?.uid);
    wait_limit(&node, &first, SHARES, "256", "10").await?;
    wait_limit(&node, &first, QUOTA, "25000", "25000 100000").await?;
    wait_limit(&node, &first, MEMORY, "67108864", "67108864").await?;
    wait_limit(&node, &second, SHARES, "102", "4").await?;
    wait_limit(&node, &second, QUOTA, "-1", "max 100000").await?;
    wait_limit(&node, &second, MEMORY, "33554432", "33554432").await?;
    wait_limit(&node, &third, SHARES, "2", "1").await?;
    for group in [&first, &second, &third] {
        wait_limit(&node, group, PIDS, "100", "100").await?;
    }
    Ok(())
}

async fn pods_cgroup_excludes_reserved_resources(agent: Agent) -> Result<()> {
    let overlay = json!({
        "enforceNodeAllocatable": ["pods"],
        "systemReserved": {"cpu": "100m", "memory": "64Mi", "pid": "1000"},
        "kubeReserved": {"cpu": "100m", "memory": "64Mi"},
    });
    let options = AgentOptions { overlay, ..AgentOptions::default() };
    let node = Node::start_with(agent, &options).await?;
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let total: u64 = total.context("MemTotal")?.trim().trim_end_matches("kB").trim().parse()?;
    let page = 4096;
    let left = (total * 1024 - (128 << 20)) / page * page;
    wait_limit(&node, "kubepods", MEMORY, &left.to_string(), &left.to_string()).await?;
    let cpus = std::thread::available_parallelism()?.get() as u64;
    let shares = (cpus * 1000 - 200) * 1024 / 1000;
    let weight = 1 + (shares - 2) * 9999 / 262_142;
    wait_limit(&node, "kubepods", SHARES, &shares.to_string(), &weight.to_string()).await?;
    let pids: u64 = read(&node, "kubepods", PIDS)?.parse()?;
    let most = |file: &str| -> Result<u64> { Ok(fs::read_to_string(file)?.trim().parse()?) };
    let most = most("/proc/sys/kernel/pid_max")?.min(most("/proc/sys/kernel/threads-max")?);
    ensure!(pids == most - 1000, "{pids} processes, not {most} - 1000");
    Ok(())
}

async fn missing_reserved_cgroup_is_refused_at_start(agent: Agent) -> Result<()> {
    let overlay = json!({
        "enforceNodeAllocatable": ["pods", "system-reserved"],
        "systemReserved": {"cpu": "100m"},
        "systemReservedCgroup": "/no-such-cgroup",
    });
    let options = AgentOptions { overlay, ..AgentOptions::default() };
    let mut node = Node::prepare(agent, &options).await?;
    node.agent.start()?;
    let refusal = "Failed to enforce System Reserved Cgroup Limits on";
    node.agent.wait_log(refusal, Duration::from_secs(60)).await
}

/// A process that is killed at the end of the test.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn orphan_cgroup_is_removed_with_its_processes(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &pod("web", [container("main", "sleep forever")]))?;
    let web = node.wait_running("web").await?;
    let group = "kubepods/burstable/pod00000000-1111-2222-3333-444444444444";
    let mut process = Sleeper(Command::new("sleep").arg("600").spawn()?);
    for hierarchy in hierarchies() {
        let folder = folder(&node, hierarchy, group);
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        if matches!(hierarchy, "pids" | "") {
            fs::write(folder.join("cgroup.procs"), process.0.id().to_string())?;
        }
    }
    wait_no_cgroup(&node, group).await?;
    ensure!(process.0.wait()?.code().is_none(), "the process was not killed");
    // The other pod is not affected.
    let after = node.pod("web").await?;
    ensure!(after.container("main") == web.container("main"), "{after:?}");
    Ok(())
}

async fn pod_without_cgroup_is_restarted(agent: Agent) -> Result<()> {
    if is_v2() {
        // There, a cgroup in use cannot be removed.
        return Ok(());
    }
    let node = Node::start(agent).await?;
    let manifest = pod("web", [sleeper(json!({"requests": {"cpu": "100m"}}))]);
    let manifest = with(manifest, "/spec/terminationGracePeriodSeconds", json!(1));
    let manifest = with(manifest, "/metadata/uid", json!("5ca1ab1e-0000-4000-8000-000000000002"));
    node.write("web.json", &manifest)?;
    let before = node.wait_running("web").await?;
    let group = format!("kubepods/burstable/pod{}", before.uid);
    let lost = folder(&node, "pids", &group);
    for child in fs::read_dir(&lost)?.flatten().filter(|entry| entry.path().is_dir()) {
        for pid in fs::read_to_string(child.path().join("cgroup.procs"))?.lines() {
            fs::write("/sys/fs/cgroup/pids/cgroup.procs", pid)?;
        }
        fs::remove_dir(child.path())?;
    }
    fs::remove_dir(&lost).with_context(|| format!("remove {}", lost.display()))?;
    // A change triggers a sync; upstream would sync only every minute.
    node.write("web.json", &with(manifest, "/metadata/labels", json!({"changed": "yes"})))?;
    let id = before.container("main").id.clone();
    node.wait_pod("web", "runs again", |pod| pod.all_running() && pod.container("main").id != id).await?;
    ensure!(lost.is_dir(), "{} is missing", lost.display());
    Ok(())
}
