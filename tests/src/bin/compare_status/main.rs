//! `compare_status`: runs a corpus of pods on podward and on the upstream kubelet and compares `/pods`.
//!
//! The header of every manifest in `tests/corpus` names the state in which it settles. Each agent runs the whole corpus
//! on a new containerd. Once a pod has settled, its object and its events are normalised (times, IDs, addresses) and
//! compared field by field. Differences that `allowed.txt` does not list with a reason end the run with code 1.
//!
//! Arguments: words that select manifests by a part of their name; `--recorded` compares with upstream's recorded
//! results instead of running it again; `--show` prints the normalised objects of podward.

mod corpus;
mod difference;
mod events;
mod normalise;
mod run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use scenarios::{Agent, Allowed};
use serde_json::Value;

use corpus::Manifest;
use difference::Difference;

/// Observed pods by manifest name.
type ObservedPods = BTreeMap<String, Value>;

struct Options {
    words: Vec<String>,
    recorded: bool,
    show: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = options();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let manifests = corpus::read(&folder, &options.words)?;
    let mut allowed = Allowed::read(&folder.join("allowed.txt"))?;
    println!("{} manifests", manifests.len());
    let upstream = upstream(&manifests, &options).await?;
    let podward = timed(Agent::Podward, &manifests).await?;
    let mut bad = 0;
    let mut tolerated = 0;
    for manifest in &manifests {
        let name = &manifest.name;
        let (ours, theirs) = (podward.get(name), upstream.get(name));
        if options.show {
            println!("{name}: {}", serde_json::to_string_pretty(&ours)?);
        }
        let differences = difference::between(ours.unwrap_or(&Value::Null), theirs.unwrap_or(&Value::Null));
        let (known, new): (Vec<Difference>, Vec<Difference>) =
            differences.into_iter().partition(|difference| allowed.covers(name, &difference.path));
        tolerated += known.len();
        bad += new.len();
        if !new.is_empty() {
            println!("\n{name}");
        }
        for difference in new {
            println!("{difference}");
        }
    }
    if options.words.is_empty() {
        for unused in allowed.unused() {
            println!("allowed.txt: unused entry: {unused}");
        }
    }
    println!("\n{} pods compared: {bad} differences, {tolerated} allowed with a reason", manifests.len());
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn options() -> Options {
    let mut options = Options { words: Vec::new(), recorded: false, show: false };
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--recorded" => options.recorded = true,
            "--show" => options.show = true,
            _ => options.words.push(argument),
        }
    }
    options
}

/// Upstream's results, from a run or from the record of an earlier one.
async fn upstream(manifests: &[Manifest], options: &Options) -> Result<ObservedPods> {
    let saved = record();
    if options.recorded {
        let text = std::fs::read_to_string(&saved).with_context(|| format!("read {}", saved.display()))?;
        let all: ObservedPods =
            serde_json::from_str(&text).with_context(|| format!("parse {}", saved.display()))?;
        let selected = |name: &String| manifests.iter().any(|manifest| manifest.name == *name);
        return Ok(all.into_iter().filter(|(name, _)| selected(name)).collect());
    }
    let seen = timed(Agent::Upstream, manifests).await?;
    let mut all: ObservedPods = std::fs::read_to_string(&saved)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    all.extend(seen.clone());
    std::fs::write(&saved, serde_json::to_string(&all)?)
        .with_context(|| format!("write {}", saved.display()))?;
    Ok(seen)
}

async fn timed(agent: Agent, manifests: &[Manifest]) -> Result<ObservedPods> {
    let start = Instant::now();
    let seen = run::run(agent, manifests).await.with_context(|| format!("on {}", agent.name()))?;
    println!("{}: {:.0} s", agent.name(), start.elapsed().as_secs_f64());
    Ok(seen)
}

fn record() -> PathBuf {
    testkit::images::workspace().join("target/compare-status-upstream.json")
}
