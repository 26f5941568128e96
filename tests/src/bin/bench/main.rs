//! `bench`: podward and the upstream kubelet side by side, in one run, each on a new containerd of the same build.
//!
//! Prints a table of medians with the ratio podward / upstream. `PODWARD_AGENTS` selects the agents, `PODWARD_BIN` the
//! podward binary (use a release build, or the results mean little). `--quick` shortens idle windows and repetitions,
//! `--cluster` measures only a node of a real cluster, `--alone` only a node without one, `--scrapes` only the cost of
//! scrapes there, `--bursts` only bursts and removals of pods, several times. Container times are the runtime's.

mod cluster;
mod measure;
mod table;

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, Node};

#[tokio::main]
async fn main() -> Result<()> {
    let given = |expected: &str| std::env::args().any(|argument| argument == expected);
    let quick = given("--quick");
    let agents: Vec<Agent> =
        [Agent::Upstream, Agent::Podward].into_iter().filter(|agent| agent.selected()).collect();
    ensure!(!agents.is_empty(), "PODWARD_AGENTS selects no agent");
    for (word, part) in [("--scrapes", Scope::Scrapes), ("--bursts", Scope::Bursts)] {
        if given(word) {
            return without_cluster(&agents, quick, part).await;
        }
    }
    if !given("--cluster") {
        without_cluster(&agents, quick, Scope::All).await?;
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
}

async fn in_cluster(agents: &[Agent], quick: bool) -> Result<()> {
    let mut columns = Vec::new();
    for agent in agents {
        eprintln!("measuring {} in a cluster ({})", agent.name(), agent.program()?.display());
        columns.push((*agent, cluster::all(*agent, quick).await?));
    }
    print!("{}", table::render(&columns));
    Ok(())
}

async fn without_cluster(agents: &[Agent], quick: bool, part: Scope) -> Result<()> {
    let options = AgentOptions { verbosity: 0, ..AgentOptions::default() };
    let mut columns = Vec::new();
    let mut alone = Vec::new();
    for &agent in agents {
        eprintln!("measuring {} ({})", agent.name(), agent.program()?.display());
        // A containerd that has run a hundred pods starts the next one more slowly: each agent gets a new one.
        let mut node = Node::prepare(agent, &options).await?;
        node.print_log_on_drop = false;
        let time = measure::runtime_alone(&node).await?.as_secs_f64() * 1000.0;
        alone.push(format!("{time:.1} ms before {}", agent.name()));
        let measurements = match part {
            Scope::Scrapes => measure::scrapes_only(&mut node, quick).await?,
            Scope::Bursts => measure::bursts_only(&mut node, quick).await?,
            Scope::All => measure::all(&mut node, quick).await?,
        };
        node.agent.term().await?;
        node.cri().remove_all().await?;
        columns.push((agent, measurements));
    }
    print!("{}", table::render(&columns));
    println!("containerd alone starts a single pod (p50) in {}.", alone.join(", "));
    Ok(())
}
