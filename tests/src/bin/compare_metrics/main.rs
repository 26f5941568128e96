//! probe
mod pods;
mod run;

use scenarios::Agent;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    for agent in [Agent::Upstream, Agent::Podward].into_iter().filter(|agent| agent.selected()) {
        let pages = run::run(agent).await?;
        let folder = testkit::images::workspace().join("target/compare-metrics").join(agent.name());
        std::fs::create_dir_all(&folder)?;
        for (path, text) in pages {
            std::fs::write(folder.join(path.trim_start_matches('/').replace('/', "-")), text)?;
        }
    }
    Ok(())
}
