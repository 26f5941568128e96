//! The measurements, in the order of the table.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use rustix::process::Signal;
use scenarios::{Node, PodView, container, pod, sleeper, view};
use serde_json::json;
use testkit::cri_view::ContainerView;

use crate::table::Measurement;

const BURST: usize = 50;
/// Number of pods with twenty probes each.
const PROBED: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(180);

/// Runs all measurements with the node's agent, and leaves it running without pods.
pub(crate) async fn all(node: &mut Node, quick: bool) -> Result<Vec<Measurement>> {
    let (repeats, window) = if quick { (3, 5) } else { (11, 30) };
    let window = Duration::from_secs(window);
    let mut measurements = vec![start_time(node, if quick { 3 } else { 5 }).await?];
    measurements.extend(single_pods(node, repeats).await?);
    measurements.extend(idle(node, window, "idle at 0 pods, RSS", "idle at 0 pods, CPU").await?);
    measurements.extend(burst(node).await?);
    measurements.extend(idle(node, window, "idle at 50 pods, RSS", "idle at 50 pods, CPU").await?);
    measurements.push(total_memory(node)?);
    measurements.extend(scrapes(node, if quick { 6 } else { 20 }).await?);
    measurements.extend(agent_restart(node).await?);
    measurements.push(removal(node).await?);
    measurements.extend(probes(node, window).await?);
    Ok(measurements)
}

/// Measures only the cost of scrapes.
pub(crate) async fn scrapes_only(node: &mut Node, quick: bool) -> Result<Vec<Measurement>> {
    node.agent.start()?;
    node.agent.wait_ready().await?;
    burst(node).await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let measurements = scrapes(node, if quick { 6 } else { 20 }).await?;
    removal(node).await?;
    Ok(measurements)
}

/// Measures only bursts and removals; medians of several.
pub(crate) async fn bursts_only(node: &mut Node, quick: bool) -> Result<Vec<Measurement>> {
    node.agent.start()?;
    node.agent.wait_ready().await?;
    let mut rounds = Vec::new();
    for _ in 0..if quick { 3 } else { 7 } {
        let mut round = burst(node).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        round.push(removal(node).await?);
        eprintln!(
            "{}",
            round.iter().map(|measurement| format!("{:.0} ", measurement.value)).collect::<String>()
        );
        rounds.push(round);
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    Ok(medians(&rounds))
}

/// Time from exec until healthy with one manifest loaded; leaves the agent running without pods.
async fn start_time(node: &mut Node, repeats: usize) -> Result<Measurement> {
    node.write("known.json", &sleeper("known"))?;
    let mut times = Vec::new();
    for _ in 0..repeats {
        let start = Instant::now();
        node.agent.start()?;
        node.agent.wait_ready().await?;
        wait(2, async || Ok(node.agent.pods().await?.len() == 1)).await?;
        times.push(start.elapsed());
        node.wait_running("known").await?;
        node.agent.kill9()?;
    }
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.remove("known.json")?;
    node.wait_gone("known").await?;
    Ok(milliseconds("start: exec to healthy with one pod (p50)", median(times)?))
}

async fn single_pods(node: &Node, repeats: usize) -> Result<Vec<Measurement>> {
    let (mut started, mut shown, mut restarted, mut gone) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for number in 0..repeats {
        let name = format!("single-{number}");
        let file = format!("{name}.json");
        stagger(number).await;
        let written = Timestamp::now();
        node.write(&file, &sleeper(&name))?;
        wait(5, async || Ok(node.pod(&name).await.is_ok_and(|pod| pod.all_running()))).await?;
        shown.push(since(written, Timestamp::now().as_nanosecond())?);
        let first = node.only_running(&name).await?;
        started.push(since(written, first.started_at.into())?);

        let pid = node.cri().pid(&first.id).await?;
        stagger(number).await;
        let killed = Timestamp::now();
        testkit::instance::kill(pid, Signal::KILL)?;
        wait(20, async || Ok(node.only_running(&name).await.is_ok_and(|view| view.id != first.id))).await?;
        let second = node.only_running(&name).await?;
        restarted.push(since(killed, second.started_at.into())?);
        // The agent must observe the restart before the pod is removed, or it would handle both at once.
        node.wait_running(&name).await?;

        stagger(number).await;
        let removed = Instant::now();
        node.remove(&file)?;
        wait(20, async || quiet(node).await).await?;
        gone.push(removed.elapsed());
    }
    Ok(vec![
        milliseconds("single pod: file to container started (p50)", median(started)?),
        milliseconds("single pod: file to Running in /pods (p50)", median(shown)?),
        milliseconds("container killed to new one started (p50)", median(restarted)?),
        milliseconds("single pod: file removed to all stopped (p50)", median(gone)?),
    ])
}

async fn idle(
    node: &Node,
    window: Duration,
    memory: &'static str,
    cpu: &'static str,
) -> Result<Vec<Measurement>> {
    tokio::time::sleep(Duration::from_secs(8)).await;
    let before = node.agent.cpu_time()?;
    let start = Instant::now();
    tokio::time::sleep(window).await;
    let used = node.agent.cpu_time()?.saturating_sub(before);
    let share = used.as_secs_f64() / start.elapsed().as_secs_f64();
    let mib = f64::from(u32::try_from(node.agent.resident_kib()?).context("memory in KiB")?) / 1024.0;
    Ok(vec![
        Measurement { name: memory, unit: "MiB", value: mib },
        Measurement { name: cpu, unit: "%", value: share * 100.0 },
    ])
}

/// Agent, runtime, and shims or keepers.
fn total_memory(node: &Node) -> Result<Measurement> {
    let kib = u32::try_from(node.runtime.instance().memory_kib()).context("memory in KiB")?;
    Ok(Measurement {
        name: "50 pods: memory of agent, runtime, shims or keepers",
        unit: "MiB",
        value: f64::from(kib) / 1024.0,
    })
}

async fn burst(node: &Node) -> Result<Vec<Measurement>> {
    let written = Timestamp::now();
    let start = Instant::now();
    for number in 0..BURST {
        node.write(&format!("burst-{number}.json"), &sleeper(&format!("burst-{number}")))?;
    }
    wait(50, async || Ok(running(node).await? == BURST)).await?;
    let shown = start.elapsed();
    let mut started: Vec<i64> = ids(node).await?.into_values().collect();
    started.sort_unstable();
    let half = *started.get(started.len() / 2).context("containers")?;
    let last = *started.last().context("containers")?;
    Ok(vec![
        milliseconds("burst of 50: files to half of the containers started", since(written, half.into())?),
        milliseconds("burst of 50: files to last container started", since(written, last.into())?),
        milliseconds("burst of 50: files to all Running in /pods", shown),
    ])
}

/// The additional cost of a scrape. Scrapes are so far apart that none is answered from the cache of another.
async fn scrapes(node: &Node, count: u32) -> Result<Vec<Measurement>> {
    const INTERVAL: Duration = Duration::from_millis(1500);
    let pages = [
        ("", ""),
        ("/metrics/resource", "scrape of /metrics/resource at 50 pods, CPU"),
        ("/stats/summary", "scrape of /stats/summary at 50 pods, CPU"),
    ];
    let mut idle = Duration::ZERO;
    let mut measurements = Vec::new();
    for (path, name) in pages {
        let before = node.agent.cpu_time()?;
        for _ in 0..count {
            if !path.is_empty() {
                node.agent.page(path).await?;
            }
            tokio::time::sleep(INTERVAL).await;
        }
        let used = node.agent.cpu_time()?.saturating_sub(before);
        if path.is_empty() {
            idle = used;
        } else {
            measurements.push(milliseconds(name, used.saturating_sub(idle) / count));
        }
    }
    measurements.push(scraped_periodically(node, if count < 10 { 2 } else { 6 }).await?);
    Ok(measurements)
}

/// Total CPU use of an agent that is scraped at the usual interval of a cluster, including its periodic readings for
/// these pages.
async fn scraped_periodically(node: &Node, rounds: u32) -> Result<Measurement> {
    const INTERVAL: Duration = Duration::from_secs(15);
    let (before, start) = (node.agent.cpu_time()?, Instant::now());
    for _ in 0..rounds {
        node.agent.page("/metrics/resource").await?;
        node.agent.page("/stats/summary").await?;
        tokio::time::sleep(INTERVAL).await;
    }
    let used = node.agent.cpu_time()?.saturating_sub(before);
    let share = used.as_secs_f64() / start.elapsed().as_secs_f64();
    Ok(Measurement {
        name: "both pages scraped every 15 s at 50 pods, total CPU",
        unit: "%",
        value: share * 100.0,
    })
}

async fn agent_restart(node: &mut Node) -> Result<Vec<Measurement>> {
    let before = ids(node).await?;
    node.agent.kill9()?;
    let start = Instant::now();
    node.agent.start()?;
    wait(5, async || Ok(running(node).await.unwrap_or(0) == BURST)).await?;
    let known = start.elapsed();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = ids(node).await?;
    let restarts = after.iter().filter(|(id, _)| !before.contains_key(*id)).count();
    ensure!(after.len() >= before.len(), "the restart lost containers");
    let restarts = f64::from(u32::try_from(restarts)?);
    Ok(vec![
        milliseconds("agent killed and started: 50 pods listed again", known),
        Measurement { name: "agent killed and started: containers restarted", unit: "", value: restarts },
    ])
}

async fn removal(node: &Node) -> Result<Measurement> {
    let start = Instant::now();
    for number in 0..BURST {
        node.remove(&format!("burst-{number}.json"))?;
    }
    wait(50, async || quiet(node).await).await?;
    Ok(milliseconds("removal of 50: files to all stopped", start.elapsed()))
}

/// 200 probes with a period of one second: ten pods of ten containers, each with a readiness and a liveness probe.
async fn probes(node: &Node, window: Duration) -> Result<Vec<Measurement>> {
    let asks =
        json!({"httpGet": {"port": 8080, "path": "/healthz"}, "periodSeconds": 1, "timeoutSeconds": 1});
    for number in 0..PROBED {
        // One container serves all probes of its pod: they share the address.
        let main = |name: String, arguments: &str| {
            let mut one = container(&name, arguments);
            if let Some(fields) = one.as_object_mut() {
                fields.insert("readinessProbe".into(), asks.clone());
                fields.insert("livenessProbe".into(), asks.clone());
            }
            one
        };
        let server = main("c0".to_owned(), "serve");
        let others = (1..10).map(|at| main(format!("c{at}"), "sleep forever"));
        let name = format!("probed-{number}");
        node.write(&format!("{name}.json"), &pod(&name, std::iter::once(server).chain(others)))?;
    }
    let healthy = |pod: &PodView| pod.containers.iter().all(|one| one.ready);
    wait(100, async || {
        let pods: Vec<PodView> = node.agent.pods().await?.iter().map(view).collect();
        Ok(pods.len() == PROBED && pods.iter().all(healthy))
    })
    .await?;
    let measurements = idle(node, window, "200 one-second probes, RSS", "200 one-second probes, CPU").await?;
    let restarts: i32 = node
        .agent
        .pods()
        .await?
        .iter()
        .map(view)
        .flat_map(|pod| pod.containers)
        .map(|one| one.restarts)
        .sum();
    for number in 0..PROBED {
        node.remove(&format!("probed-{number}.json"))?;
    }
    wait(50, async || quiet(node).await).await?;
    let failures =
        Measurement { name: "200 one-second probes, restarts", unit: "", value: f64::from(restarts) };
    Ok(measurements.into_iter().chain([failures]).collect())
}

/// Shifts the next step relative to the agents' periods of one second, equally for both.
async fn stagger(number: usize) {
    let part = u64::try_from(number).unwrap_or(0) * 370 % 1000;
    tokio::time::sleep(Duration::from_millis(part)).await;
}

/// Whether no container runs and no pod is listed.
async fn quiet(node: &Node) -> Result<bool> {
    let ready = node.cri().sandboxes().await?.iter().any(|sandbox| sandbox.ready);
    Ok(!ready && node.agent.pods().await?.is_empty())
}

async fn running(node: &Node) -> Result<usize> {
    let pods = node.agent.pods().await?;
    Ok(pods.iter().map(view).filter(PodView::all_running).count())
}

async fn ids(node: &Node) -> Result<BTreeMap<String, i64>> {
    let containers = node.cri().containers().await?;
    Ok(containers.into_iter().filter(ContainerView::running).map(|view| (view.id, view.started_at)).collect())
}

/// Polls every `step` milliseconds until `question` returns true.
async fn wait(step: u64, mut question: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !question().await? {
        ensure!(start.elapsed() < TIMEOUT, "timed out after {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(step)).await;
    }
    Ok(())
}

fn since(start: Timestamp, nanoseconds: i128) -> Result<Duration> {
    let elapsed = nanoseconds - start.as_nanosecond();
    Ok(Duration::from_nanos(u64::try_from(elapsed).context("the clock went backwards")?))
}

pub(crate) fn median(mut times: Vec<Duration>) -> Result<Duration> {
    times.sort();
    times.get(times.len() / 2).copied().context("no measurement")
}

/// The median of each row.
fn medians(rounds: &[Vec<Measurement>]) -> Vec<Measurement> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let median_of = |row: usize, measurement: &Measurement| {
        let mut values: Vec<f64> =
            rounds.iter().filter_map(|round| round.get(row)).map(|one| one.value).collect();
        values.sort_by(f64::total_cmp);
        Measurement {
            value: values.get(values.len() / 2).copied().unwrap_or(measurement.value),
            ..measurement.clone()
        }
    };
    first.iter().enumerate().map(|(row, measurement)| median_of(row, measurement)).collect()
}

pub(crate) fn milliseconds(name: &'static str, time: Duration) -> Measurement {
    Measurement { name, unit: "ms", value: time.as_secs_f64() * 1000.0 }
}
