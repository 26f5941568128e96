//! The node's iptables chains, in a network namespace that replaces the machine's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, scenarios};
use serde_json::json;
use testkit::agent_process::AgentOptions;
use testkit::poll::eventually;

scenarios!(iptables_chains_are_created_and_restored,);

/// The rule that drops martian packets from loopback addresses; programs print its parts in different orders.
const DROP: [&str; 6] = [
    "-A KUBE-FIREWALL",
    "! -s 127.0.0.0/8",
    "-d 127.0.0.0/8",
    "--comment \"block incoming localnet connections\"",
    "! --ctstate RELATED,ESTABLISHED,DNAT",
    "-j DROP",
];

async fn iptables_chains_are_created_and_restored(agent: Agent) -> Result<()> {
    let network = Network::new(agent)?;
    let options = AgentOptions {
        overlay: json!({"makeIPTablesUtilChains": true}),
        programs: vec![network.programs.path().to_path_buf()],
        ..AgentOptions::default()
    };
    let node = Node::start_with(agent, &options).await?;
    network.wait_for_chains(Duration::from_secs(60)).await?;

    // A firewall reload flushes everything; the agent checks every minute.
    for program in ["iptables", "ip6tables"] {
        for table in ["mangle", "nat", "filter"] {
            network.run(program, &["-t", table, "-F"])?;
            network.run(program, &["-t", table, "-X"])?;
        }
    }
    network.wait_for_chains(Duration::from_secs(150)).await?;
    drop(node);
    Ok(())
}

/// A network namespace, and iptables wrappers that run in it.
struct Network {
    name: String,
    programs: tempfile::TempDir,
}

impl Network {
    fn new(agent: Agent) -> Result<Self> {
        let name = format!("pw-filter-{}-{}", agent.name(), std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).status().context("run ip")?;
        ensure!(made.success(), "ip netns add {name}: {made}");
        let network = Self { name, programs: tempfile::tempdir().context("make a folder")? };
        for program in ["iptables", "ip6tables"] {
            for suffix in ["", "-save", "-restore"] {
                network.write_program(&format!("{program}{suffix}"))?;
            }
        }
        Ok(network)
    }

    fn write_program(&self, program: &str) -> Result<()> {
        let path = self.programs.path().join(program);
        let found = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(program));
        let real =
            found.iter().find(|path| path.exists()).with_context(|| format!("{program} is missing"))?;
        fs::write(&path, format!("#!/bin/sh\nexec ip netns exec {} {} \"$@\"\n", self.name, real.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = Command::new(self.programs.path().join(program)).args(arguments).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} {arguments:?}: {complaint}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn wait_for_chains(&self, timeout: Duration) -> Result<()> {
        eventually("the node's chains", timeout, async || self.check_chains()).await
    }

    fn check_chains(&self) -> Result<()> {
        for program in ["iptables", "ip6tables"] {
            let mangle = self.run(program, &["-t", "mangle", "-S"])?;
            for chain in ["-N KUBE-IPTABLES-HINT", "-N KUBE-KUBELET-CANARY"] {
                ensure!(mangle.lines().any(|line| line == chain), "{chain} is missing in\n{mangle}");
            }
        }
        let filter = self.run("iptables", &["-S"])?;
        let drops = |line: &str| DROP.iter().all(|part| line.contains(part));
        ensure!(filter.lines().filter(|line| drops(line)).count() == 1, "no rule, or several:\n{filter}");
        for chain in ["INPUT", "OUTPUT"] {
            let first = filter.lines().find(|line| line.starts_with(&format!("-A {chain} ")));
            ensure!(first == Some(&format!("-A {chain} -j KUBE-FIREWALL")), "{chain}: {first:?}");
        }
        let other = self.run("ip6tables", &["-S"])?;
        ensure!(!other.contains("KUBE-FIREWALL"), "IPv6 needs no such rule:\n{other}");
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}
