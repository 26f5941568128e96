//! `compare_metrics`: runs the same pods on podward and on the upstream kubelet and compares their statistics and
//! metrics.
//!
//! Each agent runs the pods of [`pods`] on a new containerd. After a while `/stats/summary`, `/metrics/resource`,
//! `/metrics/cadvisor` and `/metrics` are read, normalised, and compared: fields and families, series by their labels,
//! values within sampling error. Differences that `tests/metrics-allowed.txt` does not list with a reason end the run
//! with code 1. Of `/metrics`, which is about the agent itself, only families and label names are compared.
//!
//! Arguments: `--recorded` compares the recorded pages of the last runs instead of running the agents; `--keep` only
//! runs the agents that `PODWARD_AGENTS` selects and records their pages. `--pages FOLDER` and `--allowed FILE` select other
//! places than `target/compare-metrics` and `tests/metrics-allowed.txt`.

mod compare;
mod normalise;
mod page;
mod pods;
mod run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use scenarios::{Agent, Allowed};

use compare::Difference;
use run::{PAGES, Pages};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    if !has("--recorded") {
        for agent in [Agent::Upstream, Agent::Podward].into_iter().filter(|agent| agent.selected()) {
            println!("running the pods on {}", agent.name());
            let pages = run::run(agent).await.with_context(|| format!("on {}", agent.name()))?;
            keep(agent, &pages)?;
        }
    }
    if has("--keep") {
        return Ok(ExitCode::SUCCESS);
    }
    let (upstream, podward) = (saved(Agent::Upstream)?, saved(Agent::Podward)?);
    let list = option("--allowed");
    let list = list.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("metrics-allowed.txt"));
    let mut allowed = Allowed::read(&list)?;
    let mut bad = 0;
    let mut explained = 0;
    for path in PAGES {
        let differences = compare::page(path, &podward, &upstream)?;
        let (known, new): (Vec<Difference>, Vec<Difference>) =
            differences.into_iter().partition(|difference| allowed.covers(path, &difference.what));
        println!("\n{path}: {} differences, {} explained", new.len() + known.len(), known.len());
        for difference in &new {
            println!("{difference}");
        }
        explained += known.len();
        bad += new.len();
    }
    for unused in allowed.unused() {
        println!("metrics-allowed.txt: unused entry: {unused}");
    }
    println!("\n{bad} differences without a reason, {explained} with one");
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The argument after `name`.
fn option(name: &str) -> Option<PathBuf> {
    std::env::args_os().skip_while(|argument| argument != name).nth(1).map(PathBuf::from)
}

fn folder(agent: Agent) -> PathBuf {
    let pages = option("--pages");
    pages.unwrap_or_else(|| testkit::images::workspace().join("target/compare-metrics")).join(agent.name())
}

fn file(agent: Agent, path: &str) -> PathBuf {
    folder(agent).join(path.trim_start_matches('/').replace('/', "-"))
}

fn keep(agent: Agent, pages: &Pages) -> Result<()> {
    let folder = folder(agent);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    for (path, text) in pages {
        let file = file(agent, path);
        std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

fn saved(agent: Agent) -> Result<Pages> {
    let read = |path: &str| {
        let file = file(agent, path);
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        Ok((path.to_owned(), text))
    };
    PAGES.into_iter().map(read).collect()
}
