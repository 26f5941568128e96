//! `demo-node [--once] [--containerd]`: a demo of podward on this machine.
//!
//! Starts podward with the container runtime inside (`--containerd`: on a private containerd), adds the demo pod, shows
//! its state and how to reach it, and waits for Ctrl-C (`--once`: exits as soon as the pod has answered). Removes
//! everything that it started before it exits.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testkit::agent_process::{Agent, AgentOptions, AgentProcess, NODE};
use testkit::containerd::Containerd;
use testkit::node_runtime::{NodeRuntime, PodwardRuntime, RuntimeKind};
use testkit::poll::eventually;
use testkit::{http, images, process};
use tokio::signal::unix::{Signal, SignalKind, signal};

const TIMEOUT: Duration = Duration::from_secs(60);
// As in examples/demo/web.yaml.
const PORT: u16 = 8080;
const HOST_PORT: u16 = 18080;
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

#[tokio::main]
async fn main() -> Result<()> {
    let (mut until, mut kind) = (RunUntil::Stopped, RuntimeKind::Inside);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--once" => until = RunUntil::Answered,
            "--containerd" => kind = RuntimeKind::Containerd,
            other => bail!("unknown argument {other:?}; usage: demo-node [--once] [--containerd]"),
        }
    }
    ensure!(rustix::process::geteuid().is_root(), "the demo needs root: sudo make run");
    let forwarding = fs::read_to_string(FORWARDING).ok();
    let result = run(until, kind).await;
    // Pod networks need forwarding, and the portmap plugin of containerd leaves its chains behind.
    if let Some(before) = forwarding.filter(|before| before.trim() == "0") {
        let _ = fs::write(FORWARDING, before);
    }
    if kind == RuntimeKind::Containerd {
        remove_unused_port_chains();
    }
    if result.is_ok() {
        say("removed everything that was started");
    }
    result
}

#[derive(Clone, Copy)]
enum RunUntil {
    Stopped,
    Answered,
}

async fn run(until: RunUntil, kind: RuntimeKind) -> Result<()> {
    let mut stop = Stop::listen()?;
    let node = tokio::select! {
        node = DemoNode::start(kind) => node?,
        () = stop.wait() => return Ok(()),
    };
    let result = tokio::select! {
        result = node.work(until) => result,
        () = stop.wait() => Ok(()),
    };
    println!();
    say("stopping the pods and podward");
    result.and(node.end().await)
}

/// The running demo. Dropping it kills and removes everything it started.
struct DemoNode {
    agent: AgentProcess,
    runtime: NodeRuntime,
}

impl DemoNode {
    async fn start(kind: RuntimeKind) -> Result<Self> {
        let runtime = match kind {
            RuntimeKind::Containerd => {
                say("starting a private containerd with the demo image");
                NodeRuntime::Containerd(Containerd::start().await?)
            }
            RuntimeKind::Inside | RuntimeKind::Socket => {
                say("importing the demo image with `podward image import`");
                let archive = images::write_demo_image(&images::workspace().join("target/demo-image"))?;
                NodeRuntime::Podward(PodwardRuntime::start(kind, &archive).await?)
            }
        };
        let options = AgentOptions { runtime: runtime.kind(), ..AgentOptions::default() };
        let mut agent = AgentProcess::prepare(Agent::Podward, runtime.instance(), &options)?;
        say(&format!("starting podward with the manifest folder {}", agent.manifests().display()));
        agent.start()?;
        agent.wait_ready().await?;
        Ok(Self { agent, runtime })
    }

    async fn work(&self, until: RunUntil) -> Result<()> {
        self.show().await?;
        match until {
            RunUntil::Answered => Ok(()),
            RunUntil::Stopped => {
                println!("stop              Ctrl-C; removes everything that was started");
                self.watch().await
            }
        }
    }

    async fn show(&self) -> Result<()> {
        say("adding examples/demo/web.yaml to the manifest folder");
        let start = Instant::now();
        let example = images::workspace().join("examples/demo/web.yaml");
        fs::copy(&example, self.agent.manifests().join("web.yaml"))
            .with_context(|| format!("copy {}", example.display()))?;
        let (ip, answer) = eventually("the demo pod responds", TIMEOUT, async || self.ask().await)
            .await
            .with_context(|| format!("podward's log ends with\n{}", self.agent.log_tail(25)))?;
        say(&format!(
            "the pod responded {:.2} s after its manifest was added",
            start.elapsed().as_secs_f64()
        ));
        let podward = Agent::Podward.program()?;
        let root = self.agent.root().display().to_string();
        for arguments in [["get", "pods"], ["timeline", "web"]] {
            println!("\n$ podward {}", arguments.join(" "));
            let status = Command::new(&podward).args(arguments).args(["--root-dir", &root]).status();
            ensure!(status.context("start podward")?.success(), "podward {} failed", arguments.join(" "));
        }
        println!("\n$ curl http://{ip}:{PORT}/\n{answer}");
        if http::get(HOST_PORT, "/").await.is_ok_and(|answer| answer.status == 200) {
            println!("by host port      curl http://127.0.0.1:{HOST_PORT}/");
        }
        let folder = self.agent.manifests().display().to_string();
        let shown = podward.strip_prefix(images::workspace()).unwrap_or(&podward).display();
        println!("edit and watch    {folder}/web.yaml");
        println!("add another       cp examples/crash-loop.yaml {folder}/");
        println!("inspect           export PODWARD_SOCKET={root}/podward/agent.sock");
        println!("                  {shown} get pods   (get sources, events, explain web, timeline web)");
        println!("logs of pods      {}/", self.agent.pod_logs().display());
        println!("log of podward    {}", self.runtime.instance().path("agent.log").display());
        Ok(())
    }

    /// The pod's address and its HTTP response.
    async fn ask(&self) -> Result<(String, String)> {
        let name = format!("web-{NODE}");
        let pods = self.agent.pods().await?;
        let pod = pods.into_iter().find(|pod| pod.metadata.name.as_deref() == Some(name.as_str()));
        let status = pod.and_then(|pod| pod.status).with_context(|| format!("{name} has no status yet"))?;
        let running = status.phase.as_deref() == Some("Running");
        let ip = status.pod_ip.filter(|_| running).with_context(|| format!("{name} is not running yet"))?;
        let answer = http::get_from(&ip, PORT, "/").await?;
        ensure!(answer.status == 200, "{name} responds with status {}", answer.status);
        Ok((ip, String::from_utf8_lossy(&answer.body).into_owned()))
    }

    /// Returns when podward exits.
    async fn watch(&self) -> Result<()> {
        let pid = self.agent.pid().context("podward is not running")?;
        while !process::is_zombie(pid) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        bail!("podward exited unexpectedly; its log ends with\n{}", self.agent.log_tail(25))
    }

    async fn end(mut self) -> Result<()> {
        match self.runtime.kind() {
            RuntimeKind::Inside | RuntimeKind::Socket => {
                // Ctrl-C in a terminal has stopped podward as well, but pods are stopped in order only while it runs.
                self.agent.kill9()?;
                self.agent.start()?;
                self.agent.wait_ready().await?;
                self.end_pods().await?;
                self.agent.term().await.map(drop)
            }
            RuntimeKind::Containerd => {
                self.agent.term().await?;
                // Networks are torn down cleanly only while containerd runs.
                self.runtime.terminate()?;
                self.runtime.resume().await?;
                self.runtime.cri().remove_all().await
            }
        }
    }
}

impl DemoNode {
    async fn end_pods(&self) -> Result<()> {
        for entry in fs::read_dir(self.agent.manifests()).context("list the manifests")? {
            fs::remove_file(entry?.path()).context("remove a manifest")?;
        }
        eventually("the pods have ended", TIMEOUT, async || {
            ensure!(self.agent.pods().await?.is_empty(), "some are still listed");
            let sandboxes = self.runtime.cri().sandboxes().await?;
            ensure!(sandboxes.iter().all(|sandbox| !sandbox.ready), "some still run");
            Ok(())
        })
        .await
    }
}

struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Stop {
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// The portmap plugin never removes its chains and the jumps to them. An empty first chain means that none are in use.
fn remove_unused_port_chains() {
    let Some(rules) = nat("iptables -w -t nat -S") else { return };
    let in_use = rules.lines().any(|rule| rule.starts_with("-A CNI-HOSTPORT-DNAT "));
    if in_use {
        return;
    }
    let jumps = rules
        .lines()
        .filter_map(|rule| rule.strip_prefix("-A "))
        .filter(|rule| rule.contains("-j CNI-HOSTPORT-") && !rule.starts_with("CNI-"));
    let chains: Vec<&str> = rules.lines().filter_map(|rule| rule.strip_prefix("-N CNI-HOSTPORT-")).collect();
    let commands = jumps
        .map(|rule| format!("-D {rule}"))
        .chain(chains.iter().map(|chain| format!("-F CNI-HOSTPORT-{chain}")))
        .chain(chains.iter().map(|chain| format!("-X CNI-HOSTPORT-{chain}")));
    for command in commands {
        // Printed rules contain shell quotes.
        nat(&format!("iptables -w -t nat {command}"));
    }
}

fn nat(command: &str) -> Option<String> {
    let output = Command::new("sh").args(["-c", command]).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn say(text: &str) {
    println!("==> {text}");
}
