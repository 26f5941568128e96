//! `bench`: podward and the upstream kubelet side by side, in one run: upstream and podward each on a new containerd of the same
//! build, and podward with the container runtime inside.
//!
//! Prints a table of medians with the ratios to upstream. `PODWARD_AGENTS` selects the agents, `PODWARD_BIN` the
//! podward binary (use a release build, or the results mean little). `--quick` shortens idle windows and repetitions,
//! `--cluster` measures only a node of a real cluster, `--alone` only a node without one, `--scrapes` only the cost of
//! scrapes there, `--bursts` only bursts and removals of pods, several times, `--runtime` only the runtimes. Container times
//! are the runtime's.

mod cluster;
mod measure;
mod runtimes;
mod table;

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, Node};
use table::Column;
use testkit::node_runtime::RuntimeKind;

#[tokio::main]
async fn main() -> Result<()> {
    let given = |expected: &str| std::env::args().any(|argument| argument == expected);
    let quick = given("--quick");
    let agents: Vec<Agent> =
        [Agent::Upstream, Agent::Podward].into_iter().filter(|agent| agent.selected()).collect();
    ensure!(!agents.is_empty(), "PODWARD_AGENTS selects no agent");
    let parts = [("--scrapes", Scope::Scrapes), ("--bursts", Scope::Bursts), ("--runtime", Scope::Runtimes)];
    for (word, part) in parts {
        if given(word) {
            return Box::pin(without_cluster(&agents, quick, part)).await;
        }
    }
    if !given("--cluster") {
        Box::pin(without_cluster(&agents, quick, Scope::All)).await?;
    }
    if !given("--alone") {
        in_cluster(&agents, quick).await?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Scope {
    All,
    Scrapes,
    Bursts,
    Runtimes,
}

async fn in_cluster(agents: &[Agent], quick: bool) -> Result<()> {
    let mut columns = Vec::new();
    for agent in agents {
        eprintln!("measuring {} in a cluster ({})", agent.name(), agent.program()?.display());
        let measurements = cluster::all(*agent, quick).await?;
        columns.push(Column { name: agent.name().to_owned(), measurements });
    }
    print!("{}", table::render(&columns));
    Ok(())
}

async fn without_cluster(agents: &[Agent], quick: bool, part: Scope) -> Result<()> {
    let options = AgentOptions { verbosity: 0, ..AgentOptions::default() };
    let mut pairs: Vec<_> = agents.iter().map(|agent| (*agent, RuntimeKind::Containerd)).collect();
    if agents.contains(&Agent::Podward) {
        pairs.push((Agent::Podward, RuntimeKind::Inside));
    }
    let mut columns = Vec::new();
    for (agent, runtime) in pairs {
        let name = format!("{} {}", agent.name(), runtime.name());
        eprintln!("measuring {name} ({})", agent.program()?.display());
        // A containerd that has run a hundred pods starts the next one more slowly: each agent gets a new one.
        let mut node = Node::prepare_with(runtime, agent, &options).await?;
        node.print_log_on_drop = false;
        let measurements = match part {
            Scope::Scrapes => measure::scrapes_only(&mut node, quick).await?,
            Scope::Bursts => measure::bursts_only(&mut node, quick).await?,
            Scope::Runtimes => Box::pin(runtimes::all(&mut node, quick)).await?,
            Scope::All => {
                let mut all = measure::all(&mut node, quick).await?;
                node.agent.term().await?;
                all.extend(Box::pin(runtimes::all(&mut node, quick)).await?);
                all
            }
        };
        node.cri().remove_all().await?;
        node.agent.term().await?;
        columns.push(Column { name, measurements });
    }
    print!("{}", table::render(&columns));
    Ok(())
}
