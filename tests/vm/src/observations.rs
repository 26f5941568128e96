//! Texts about the machine that must equal a golden file under podward, and podward's under upstream.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::agents::Agent;
use crate::guest::{eventually, results, write};
use crate::{cgroups, checks, cluster, file, node, security};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Observation {
    Cgroups,
    Oom,
    Confinement,
    UserNamespace,
    Resize,
    Swap,
    Eviction,
}

impl Observation {
    fn name(self) -> &'static str {
        match self {
            Self::Cgroups => "cgroups",
            Self::Oom => "oom",
            Self::Confinement => "confinement",
            Self::UserNamespace => "user-namespace",
            Self::Resize => "resize",
            Self::Swap => "swap",
            Self::Eviction => "eviction",
        }
    }

    fn observe(self, agent: Agent) -> Result<String> {
        match self {
            Self::Cgroups => cgroups::tree(),
            Self::Oom => oom(),
            Self::Confinement => security::confinement(),
            Self::UserNamespace => security::user_namespace(),
            Self::Resize => cluster::resize(agent),
            Self::Swap => cluster::swap(agent),
            Self::Eviction => cluster::eviction(agent),
        }
    }
}

/// Observes under podward and compares with the golden file of this Debian release. The text is saved, so that a wanted
/// change can be copied over the golden file.
pub(crate) fn is_expected(observation: Observation) -> Result<()> {
    let text = record(Agent::Podward, observation)?;
    let release = read_release()?;
    let golden = file(&format!("golden/{release}/{}.txt", observation.name()));
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    compare(
        &format!("golden/{release}/{}.txt", observation.name()),
        &without_machine(&expected),
        &without_machine(&text),
    )
}

/// Replaces limits that follow the machine's memory without that of its kernel, which differs by build: of all pods together,
/// systemd's default for tasks, and a pod's share of swap. The comparison with upstream includes them.
fn without_machine(text: &str) -> String {
    let line = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or((line, ""));
        let is_default = name == "kubepods.slice memory.max"
            || name.ends_with(" pids.max")
            || name.starts_with("LimitedSwap: burstable:");
        let of_machine = is_default && !matches!(value, "max" | "200");
        if of_machine { format!("{name} OF-MACHINE\n") } else { format!("{line}\n") }
    };
    text.lines().map(line).collect()
}

/// Observes under upstream and compares with what podward had.
pub(crate) fn equals_upstream(observation: Observation) -> Result<()> {
    let theirs = record(Agent::Upstream, observation)?;
    let ours = results().join("podward").join(format!("{}.txt", observation.name()));
    let ours = fs::read_to_string(&ours).with_context(|| format!("read {}", ours.display()))?;
    compare("upstream", &theirs, &ours)
}

fn record(agent: Agent, observation: Observation) -> Result<String> {
    let text = observation.observe(agent)?;
    write(results().join(agent.unit()).join(format!("{}.txt", observation.name())), &text)?;
    Ok(text)
}

fn read_release() -> Result<String> {
    Ok(fs::read_to_string(file("machine")).context("read the machine's name")?.trim().to_owned())
}

fn compare(with: &str, expected: &str, actual: &str) -> Result<()> {
    let missing = expected.lines().filter(|line| !actual.lines().any(|other| other == *line));
    let added = actual.lines().filter(|line| !expected.lines().any(|other| other == *line));
    let lines: Vec<String> =
        missing.map(|line| format!("- {line}")).chain(added.map(|line| format!("+ {line}"))).collect();
    ensure!(lines.is_empty(), "differs from {with} (- {with}, + podward):\n{}", lines.join("\n"));
    Ok(())
}

/// State of a container that the kernel killed, after its first restart.
fn oom() -> Result<String> {
    node::add(&checks::greedy())?;
    let status = eventually("container was killed and restarted", || {
        let pod = node::pod("greedy")?;
        let status = node::statuses(&pod).pop().context("no status")?;
        let reason = node::text(&status, "/lastState/terminated/reason");
        ensure!(!reason.is_empty(), "{status}");
        Ok(status)
    })?;
    let last = status.pointer("/lastState/terminated").cloned().unwrap_or_default();
    fs::remove_file(format!("{}/greedy.json", crate::agents::MANIFESTS))?;
    eventually("pod is gone", || {
        ensure!(node::pod("greedy").is_err(), "still listed");
        Ok(())
    })?;
    Ok(format!(
        "reason {}\nexit code {}\n",
        node::text(&last, "/reason"),
        last.get("exitCode").cloned().unwrap_or_default()
    ))
}
