//! `bench`: podward and the upstream kubelet side by side, in one run, each on a new containerd of the same build.
//!
//! Prints a table of medians with the ratio podward / upstream. `PODWARD_AGENTS` selects the agents,
//! `PODWARD_BIN` the podward binary (a release build, or the figures mean little), `--quick` cuts the
//! idle windows and repetitions, `--cluster` measures only the node of a real cluster, `--alone` only the node
//! without one, `--scrapes` only what scrapes cost there, `--bursts` only bursts and removals of pods, several times. Times of
//! containers are the runtime's own.

mod cluster;
mod measure;
mod table;

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, Node};

#[tokio::main]
async fn main() -> Result<()> {
    let given = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    let quick = given("--quick");
    let agents: Vec<Agent> =
        [Agent::Upstream, Agent::Podward].into_iter().filter(|agent| agent.selected()).collect();
    ensure!(!agents.is_empty(), "PODWARD_AGENTS names no agent");
    for (word, part) in [("--scrapes", Part::Scrapes), ("--bursts", Part::Bursts)] {
        if given(word) {
            return without_cluster(&agents, quick, part).await;
        }
    }
    if !given("--cluster") {
        without_cluster(&agents, quick, Part::All).await?;
    }
    if !given("--alone") {
        in_cluster(&agents, quick).await?;
    }
    Ok(())
}

/// How much is measured.
#[derive(Clone, Copy)]
enum Part {
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

async fn without_cluster(agents: &[Agent], quick: bool, part: Part) -> Result<()> {
    let options = AgentOptions { verbosity: 0, ..AgentOptions::default() };
    let mut columns = Vec::new();
    let mut alone = Vec::new();
    for &agent in agents {
        eprintln!("measuring {} ({})", agent.name(), agent.program()?.display());
        // A containerd that has run a hundred pods starts the next one more slowly: each agent gets a new one.
        let mut node = Node::prepare(agent, &options).await?;
        node.last_words = false;
        let time = measure::runtime_alone(&node).await?.as_secs_f64() * 1000.0;
        alone.push(format!("{time:.1} ms before {}", agent.name()));
        let figures = match part {
            Part::Scrapes => measure::scrapes_only(&mut node, quick).await?,
            Part::Bursts => measure::bursts_only(&mut node, quick).await?,
            Part::All => measure::all(&mut node, quick).await?,
        };
        node.agent.term().await?;
        node.cri().remove_all().await?;
        columns.push((agent, figures));
    }
    print!("{}", table::render(&columns));
    println!("containerd alone starts a single pod (p50) in {}.", alone.join(", "));
    Ok(())
}
