//! Statistics and metrics of both agents for the same pods, compared by the program of `make compare-metrics`.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::agents::Agent;
use crate::guest::{pause, results, sh, write};
use crate::{file, node};

const PAGES: [&str; 4] = ["/stats/summary", "/metrics/resource", "/metrics/cadvisor", "/metrics"];

/// Upstream samples every ten to fifteen seconds, and rates need two samples.
const SETTLE_TIME: Duration = Duration::from_secs(25);

/// Saves the pages where the comparison expects them.
pub(crate) fn record(agent: Agent) -> Result<()> {
    let folder = match agent {
        Agent::Podward => "podward",
        Agent::Upstream => "upstream",
    };
    for _ in 0..2 {
        pause(SETTLE_TIME);
        for page in PAGES {
            let text = node::get(page).with_context(|| format!("read {page}"))?;
            let name = page.trim_start_matches('/').replace('/', "-");
            write(results().join("metrics").join(folder).join(name), &text)?;
        }
    }
    Ok(())
}

pub(crate) fn equal_upstream() -> Result<()> {
    record(Agent::Upstream)?;
    let (program, allowed) = (file("compare_metrics"), file("metrics-allowed.txt"));
    let pages = results().join("metrics");
    let report = pages.join("differences.txt");
    sh(&format!(
        "{} --recorded --pages {} --allowed {} >{report} 2>&1 || {{ cat {report}; exit 1; }}",
        program.display(),
        pages.display(),
        allowed.display(),
        report = report.display(),
    ))
    .map(drop)
}
