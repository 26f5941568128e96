//! `bench`: podward and the upstream kubelet side by side, on one containerd, in one run.
//!
//! Prints a table of medians with the ratio podward / upstream. `PODWARD_AGENTS` selects the agents,
//! `PODWARD_BIN` the podward binary (a release build, or the figures mean little), `--quick` cuts the
//! idle windows and repetitions. Times of containers are the runtime's own.

mod measure;
mod table;

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, Node};

#[tokio::main]
async fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let agents: Vec<Agent> =
        [Agent::Upstream, Agent::Podward].into_iter().filter(|agent| agent.selected()).collect();
    ensure!(!agents.is_empty(), "PODWARD_AGENTS names no agent");
    let options = AgentOptions { verbosity: 0, ..AgentOptions::default() };
    let first = *agents.first().unwrap_or(&Agent::Upstream);
    let mut node = Node::prepare(first, &options).await?;
    node.last_words = false;
    let alone = measure::runtime_alone(&node).await?;
    let mut columns = Vec::new();
    for agent in agents {
        eprintln!("measuring {} ({})", agent.name(), agent.program()?.display());
        node.agent.become_kind(agent)?;
        let figures = measure::all(&mut node, quick).await?;
        node.agent.term().await?;
        node.cri().remove_all().await?;
        columns.push((agent, figures));
    }
    print!("{}", table::render(&columns));
    println!("containerd alone starts a single pod in {:.1} ms (p50).", alone.as_secs_f64() * 1000.0);
    Ok(())
}
