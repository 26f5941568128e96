//! A thousand pods on a fake runtime: the binary starts them and is then almost idle.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::fake_runtime::{EventStream, FakeRuntime, Rpc};
use testkit::poll::eventually;
use testkit::{http, process};

const PODS: usize = 1000;
const FILES: usize = 10;
/// Limits of an idle agent.
const CPU_PERCENT: f64 = 1.0;
const RESIDENT_KIB: u64 = 60 * 1024;
/// Duration of the measurement.
const IDLE: Duration = Duration::from_secs(20);

struct Node {
    runtime: FakeRuntime,
    agent: Child,
    read_only_port: u16,
    folder: TempDir,
}

impl Node {
    fn start(stream: EventStream) -> Self {
        let pods = |file: usize| {
            let pods = (0..PODS / FILES).map(|index| pod(file * PODS / FILES + index).to_string());
            pods.collect::<Vec<_>>().join("\n---\n")
        };
        Self::start_with(stream, (0..FILES).map(pods).collect())
    }

    /// Starts the agent with these manifest files.
    fn start_with(stream: EventStream, files: Vec<String>) -> Self {
        let folder = tempfile::Builder::new().prefix("podward-thousand-").tempdir().unwrap();
        let runtime = FakeRuntime::start(folder.path().join("runtime.sock")).unwrap();
        runtime.set_event_stream(stream);
        runtime.add_image("example.com/main:1");
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests).unwrap();
        for (file, text) in files.into_iter().enumerate() {
            std::fs::write(manifests.join(format!("{file}.yaml")), text).unwrap();
        }
        let read_only_port = free_port();
        let config = config(folder.path(), read_only_port);
        let config_file = folder.path().join("config.json");
        std::fs::write(&config_file, config.to_string()).unwrap();
        let log = std::fs::File::create(folder.path().join("agent.log")).unwrap();
        let agent = Command::new(binary())
            .arg("agent")
            .arg(format!("--config={}", config_file.display()))
            .arg(format!("--root-dir={}", folder.path().join("root").display()))
            .arg("--hostname-override=node")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { runtime, agent, read_only_port, folder }
    }

    async fn running(&self) -> anyhow::Result<usize> {
        let answer = http::get(self.read_only_port, "/pods").await?;
        let list: Value = serde_json::from_slice(&answer.body)?;
        let items = list["items"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        Ok(items.iter().filter(|pod| pod["status"]["phase"] == "Running").count())
    }

    async fn converge(&self) -> Duration {
        let began = Instant::now();
        // Checks the fake runtime first, because reading a thousand pods from the agent is expensive.
        let all = self.runtime.wait_until(|state| state.running_count() == PODS);
        if tokio::time::timeout(Duration::from_secs(180), all).await.is_err() {
            panic!(
                "{} containers run; the agent said:\n{}",
                self.runtime.read(testkit::fake_runtime::RuntimeState::running_count),
                self.log()
            );
        }
        self.print_memory("all containers run");
        let question = || async {
            let running = self.running().await?;
            anyhow::ensure!(running == PODS, "{running} pods are Running");
            Ok(())
        };
        if let Err(error) = eventually("all pods are Running", Duration::from_secs(60), question).await {
            panic!("{error:#}; the agent said:\n{}", self.log());
        }
        let took = began.elapsed();
        let violations = self.runtime.violations();
        assert!(violations.is_empty(), "{violations:?}");
        assert_eq!(self.runtime.count(Rpc::RunPodSandbox), PODS);
        assert_eq!(self.runtime.count(Rpc::CreateContainer), PODS);
        took
    }

    /// Prints the memory map, for debugging.
    fn print_memory(&self, when: &str) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.agent.id())).unwrap_or_default();
        let lines = status.lines().filter(|line| line.starts_with("Rss") || line.starts_with("VmRSS"));
        let text =
            lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
        println!("{when}: {}", text.join(", "));
    }

    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("agent.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
        // The agent may have bind-mounted its root folder, and it creates log links in a fixed folder.
        let _ = rustix::mount::unmount(self.folder.path().join("root"), rustix::mount::UnmountFlags::DETACH);
        for entry in std::fs::read_dir("/var/log/containers").into_iter().flatten().flatten() {
            if std::fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(self.folder.path())) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// The binary under test; `PODWARD_BINARY` names another build of it.
fn binary() -> PathBuf {
    std::env::var_os("PODWARD_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_podward").into(), PathBuf::from)
}

fn pod(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{index}"), "uid": format!("uid-{index}"), "labels": {"app": "many"}},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{
                "name": "main",
                "image": "example.com/main:1",
                "env": [{"name": "INDEX", "value": index.to_string()}],
                "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"memory": "64Mi"}},
            }],
        },
    })
}

fn config(folder: &Path, read_only_port: u16) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "staticPodPath": folder.join("manifests"),
        "podLogsDir": folder.join("logs"),
        "containerRuntimeEndpoint": format!("unix://{}", folder.join("runtime.sock").display()),
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "address": "127.0.0.1",
        "readOnlyPort": read_only_port,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": free_port(),
        "oomScoreAdj": 0,
        "maxPods": PODS,
        // Ignores the disk use of the machine.
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
            "imagefs.available": "0%", "imagefs.inodesFree": "0%",
        },
        "serializeImagePulls": false,
    })
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_pods_start() {
    let node = Node::start(EventStream::Served);
    node.converge().await;
}

/// `cargo build --release -p podward && PODWARD_BINARY=target/release/podward cargo test -p podward --test
/// thousand_pods -- --ignored --nocapture --test-threads=1`
async fn measure(stream: EventStream) {
    let node = Node::start(stream);
    let took = node.converge().await;
    // Work that remains from the start does not count as idle.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let pid = node.agent.id();
    let calls = node.runtime.calls().len();
    let before = process::cpu_time(pid).unwrap();
    tokio::time::sleep(IDLE).await;
    let used = process::cpu_time(pid).unwrap() - before;
    let calls = node.runtime.calls().len() - calls;
    let percent = used.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let resident = process::resident_kib(pid).unwrap();
    node.print_memory("idle");
    println!(
        "{PODS} pods, events {stream:?}: up in {took:.1?}; idle: {percent:.2} % of a core, {:.1} MiB, {calls} calls in {IDLE:?}",
        f64::from(u32::try_from(resident).unwrap()) / 1024.0
    );
    assert!(percent < CPU_PERCENT, "{percent:.2} % of a core");
    assert!(resident < RESIDENT_KIB, "{resident} KiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: run it with a release build on a quiet machine"]
async fn a_thousand_idle_pods_are_cheap_with_events() {
    measure(EventStream::Served).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: run it with a release build on a quiet machine"]
async fn a_thousand_idle_pods_are_cheap_without_events() {
    measure(EventStream::Unimplemented).await;
}

/// Pods that exist at the same time while many come and go.
const BATCH: usize = 200;
/// 5,000 pods in all; the first batch warms the caches up.
const BATCHES: usize = 25;

/// Starts and removes one batch of pods.
async fn come_and_go(node: &Node, batch: usize) {
    let timeout = Duration::from_secs(180);
    let manifest = node.folder.path().join("manifests/batch.yaml");
    let pods = (0..BATCH).map(|index| pod(batch * BATCH + index).to_string()).collect::<Vec<_>>();
    let hidden = node.folder.path().join("manifests/.batch.yaml");
    std::fs::write(&hidden, pods.join("\n---\n")).unwrap();
    std::fs::rename(hidden, &manifest).unwrap();
    let all = node.runtime.wait_until(|state| state.running_count() == BATCH);
    tokio::time::timeout(timeout, all)
        .await
        .unwrap_or_else(|_| panic!("batch {batch} starts:\n{}", node.log()));
    std::fs::remove_file(manifest).unwrap();
    let none = node.runtime.wait_until(|state| state.sandboxes().count() == 0);
    tokio::time::timeout(timeout, none)
        .await
        .unwrap_or_else(|_| panic!("batch {batch} ends:\n{}", node.log()));
    let folder = node.folder.path().join("root/pods");
    let question = || async {
        let left = std::fs::read_dir(&folder)?.count();
        anyhow::ensure!(left == 0, "{left} pod folders are left");
        Ok(())
    };
    eventually("the pod folders are gone", timeout, question).await.unwrap();
    node.runtime.clear_calls();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: run it with a release build on a quiet machine"]
async fn five_thousand_pods_that_come_and_go_leave_no_memory() {
    let node = Node::start_with(EventStream::Served, Vec::new());
    let pid = node.agent.id();
    let resident = || process::resident_kib(pid).unwrap();
    come_and_go(&node, 0).await;
    let before = resident();
    for batch in 1..BATCHES {
        come_and_go(&node, batch).await;
        node.print_memory(&format!("after {} pods", (batch + 1) * BATCH));
    }
    // The agent returns free pages once a minute.
    let question = || async {
        let after = resident();
        anyhow::ensure!(after * 10 <= before * 11, "{after} KiB after {before} KiB");
        Ok(())
    };
    eventually("memory returns to its start", Duration::from_secs(150), question).await.unwrap();
    let violations = node.runtime.violations();
    assert!(violations.is_empty(), "{violations:?}");
    println!("{} pods: {before} KiB before, {} KiB after", BATCHES * BATCH, resident());
}
